"""Opening: how an engine on PostgreSQL is opened and closed.

Floor: above engines. The rule: what cannot work is refused at the door, in words; psycopg is imported here and not before.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from actors.jobs.errors import NotSupported
from actors.jobs.job import MAX_BYTES
from actors.jobs.postgres import schema as tables
from actors.jobs.postgres.engines import PostgresEngine
from actors.jobs.postgres.runner import Runner
from actors.options import OptionError

if TYPE_CHECKING:
    import psycopg

__all__ = ["open_postgres"]

_SCHEMA: Final = "treewarden"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@asynccontextmanager
async def open_postgres(
    conninfo: str = "",
    *,
    name: str | None = None,
    schema: str = _SCHEMA,
    driver: Literal["threads", "native"] = "threads",
    connections: int = 2,
    migrate: bool = True,
    pooler: bool = False,
    connect_timeout: float = 5.0,
    clock: Callable[[], float] | None = None,
    max_bytes: int = MAX_BYTES,
) -> AsyncGenerator[PostgresEngine]:
    """Open an engine, and close it at the end of the block: `async with open_postgres("postgresql://...") as engine:`.

    Args:
        conninfo: of libpq, as URL or `key=value`; what it leaves out comes from the environment (`PGHOST`, `PGPASSWORD`, ...).
        name: in idempotency keys; the name of the database if not given, and that of the schema if it is not the usual one.
            Keep it when the database moves.
        schema: where the tables are; several engines of one database keep apart by it.
        driver: `threads` has blocking connections on threads of their own; `native` lets Trio wait for them, which takes less
            of the processor, and is bound to the versions of psycopg that it was tried with.
        connections: for workers and enqueuing; as many again serve operators and transactions of one's own, made on demand.
        migrate: bring the tables up to date, or else refuse old ones.
        pooler: the server is reached through a pooler of transactions: no prepared statements, no LISTEN.
        connect_timeout: seconds for one connection.
        clock: seconds, instead of the server's clock; for tests.
        max_bytes: the longest JSON text of variables.

    Raises:
        OptionError: an argument cannot work.
        EngineUnreachable: there is no such server or database.
        SchemaTooNew: a later version of this library wrote it.
        NotSupported: psycopg is not installed, or the server is too old.
    """
    if find_spec("psycopg") is None:
        raise NotSupported(
            "postgres", "anything without psycopg: pip install 'treewarden[postgres]'"
        )
    from actors.jobs.postgres.blocking import Link
    from actors.jobs.postgres.door import Address, connector
    from actors.jobs.postgres.listener import Listener
    from actors.jobs.postgres.threads import Threads

    _check(schema, driver, connections)
    address = Address.read(conninfo, "treewarden", connect_timeout)
    hot = connector(address, hot=True, prepared=not pooler)
    plain = connector(address, hot=False, prepared=not pooler)
    start = partial(_prepare, plain, schema, str(address), migrate)
    database = await trio.to_thread.run_sync(start, abandon_on_cancel=True)

    def link(make: Callable[[], psycopg.Connection[Any]]) -> Link:
        return Link(make, str(address), prepared=not pooler)

    # Two engines in one database give the same keys to their jobs, which are not the same work to anybody else.
    title = name or (database if schema == _SCHEMA else f"{database}.{schema}")
    workers: Runner
    if driver == "native":
        from actors.jobs.postgres.native import NativePool

        workers = NativePool(hot, str(address), connections, prepared=not pooler)
    else:
        workers = Threads(lambda: link(hot), connections, title)
    calls = Threads(lambda: link(plain), connections, title)
    engine = PostgresEngine(
        name=title,
        schema=schema,
        hot=workers,
        calls=calls,
        listener=None if pooler else partial(Listener, plain),
        clock=clock,
        max_bytes=max_bytes,
    )
    try:
        yield engine
    finally:
        await engine.aclose()


def _check(schema: object, driver: object, connections: object) -> None:
    if not isinstance(schema, str) or not _NAME.fullmatch(schema):
        raise OptionError(
            "schema is a plain name of small letters, digits and underscores, 40 at most,"
            f" not {schema!r}",
            option="schema",
        )
    if driver not in ("threads", "native"):
        raise OptionError(f"driver is 'threads' or 'native', not {driver!r}", option="driver")
    if not isinstance(connections, int) or isinstance(connections, bool) or connections < 1:
        raise OptionError(
            f"connections must be a whole number, 1 or more, not {connections!r}",
            option="connections",
        )


def _prepare(
    connect: Callable[[], psycopg.Connection[Any]], schema: str, where: str, write: bool
) -> str:
    """Bring the tables up to date; the name of the database, which a service file may know and the connection string not."""
    db = connect()
    try:
        tables.migrate(db, schema, where, write=write)
        return db.info.dbname
    finally:
        db.close()
