"""Door: from a connection string to connections, and what is wrong with it in words.

Floor: the lowest of this room. The rule: no text of ours ever holds a password, also not by quoting a connection string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from actors.jobs.errors import EngineUnreachable
from actors.options import OptionError

__all__ = ["Address", "connector"]

# What a planner that knows none of the numbers has to be kept from: a table of a minute ago and one of a million rows get the
# same plans, all by index, and they are made once.
# Whoever waited for a lock has to see what was written meanwhile, whatever isolation is the default of the database.
# Some old programs have these two otherwise, for a whole database: then one text in ours is another, and nothing is a text.
# A table that somebody has locked keeps them for so long at most, since they share these connections with the renewal of leases.
_HOT: Final = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;"
    " SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan;"
    " SET standard_conforming_strings = on; SET array_nulls = on;"
    " SET default_transaction_isolation = 'read committed'; SET lock_timeout = '10s'"
)
# A peer that is gone without a word is noticed within half a minute, not after the two hours of the operating system.
_ALIVE: Final = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


@attrs.frozen
class Address:
    """A connection string that was understood."""

    conninfo: str = attrs.field(repr=False)
    host: str
    port: str
    database: str

    @classmethod
    def read(cls, conninfo: str, application: str, connect_timeout: float) -> Address:
        """Understand a connection string.

        Raises:
            OptionError: it is none.
        """
        try:
            found: Mapping[str, Any] = conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:
            # Its own text quotes the part that it stumbled on, which may be of a password.
            raise OptionError(
                "conninfo is no connection string: write 'postgresql://user@host:5432/database'"
                " or 'host=... port=... dbname=... user=...'",
                option="conninfo",
            ) from None
        options = {
            "application_name": application,
            "connect_timeout": max(1, round(connect_timeout)),
            **_ALIVE,
            **found,
            "client_encoding": "utf8",  # with any other, not every text could be said
        }
        defaults = {
            one.keyword.decode(): (one.val or b"").decode()
            for one in psycopg.pq.Conninfo.get_defaults()
        }

        def value(name: str, last: str) -> str:
            return str(found.get(name) or defaults.get(name) or last)

        user = value("user", "")
        return cls(
            make_conninfo("", **options),
            value("host", "") or value("hostaddr", "local socket"),
            value("port", "5432"),
            value("dbname", user),
        )

    def __str__(self) -> str:
        return f"PostgreSQL at {self.host}:{self.port}, database {self.database!r}"


def connector(
    address: Address, *, hot: bool, prepared: bool
) -> Callable[[], psycopg.Connection[Any]]:
    """What makes connections; `hot` ones run this library's statements only."""

    def connect() -> psycopg.Connection[Any]:
        try:
            db = psycopg.connect(address.conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            raise EngineUnreachable(str(address), _reason(error)) from None
        if not prepared:
            db.prepare_threshold = None
        elif hot:
            db.execute(_HOT.encode())
        return db

    return connect


def _reason(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines)) or type(error).__name__
