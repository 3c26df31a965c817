"""Where jobs and books are: an SQLite file, or a PostgreSQL server, which may be one that only this demonstration has."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from actors.jobs import open_postgres, open_sqlite
from examples.payments.books import Books
from examples.payments.settings import Settings

__all__ = ["NoServer", "open_books", "private_server"]

# The server ends when its stdin does, so that it is gone even if this process is killed.
_KEEPER: Final = '"$@" >>log 2>&1 & read word; kill -INT $!; wait $!'
_PATIENCE: Final = 60.0


class NoServer(Exception):
    """PostgreSQL cannot be started here."""


@asynccontextmanager
async def open_books(settings: Settings) -> AsyncGenerator[Books]:
    """The engine, whichever it is, and our tables beside its own. The name goes into keys, so it is the same for both."""
    if settings.engine == "sqlite":
        async with open_sqlite(settings.database, name="shop") as sqlite:
            yield Books(sqlite, "?")
    else:
        async with open_postgres(settings.dsn, name="shop") as postgres:
            yield Books(postgres, "%s")


@contextmanager
def private_server(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server whose data is in `folder`, made or found there; gives what to connect with.

    Raises:
        NoServer: it is not installed, or does not start.
    """
    programs, user = _programs(), _somebody()
    if user is not None:
        folder.parent.chmod(0o711)  # it has to get through to what is its own
    folder.mkdir(exist_ok=True)
    sockets = tempfile.mkdtemp(prefix="pg-")  # the path of a socket has to be short
    for path in (folder, sockets):
        shutil.chown(path, user or os.geteuid())
    if not (folder / "data").exists():
        options = [
            "-D",
            "data",
            "-A",
            "trust",
            "-U",
            "shop",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        done = subprocess.run(
            [programs / "initdb", *options],
            user=user,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoServer(f"initdb failed in {folder} (run by {user or 'us'}): {done.stderr}")
    command = [programs / "postgres", "-D", "data", "-c", "listen_addresses=", "-k", sockets]
    keeper = subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, "keeper", *command],
        stdin=subprocess.PIPE,
        user=user,
        cwd=folder,
        start_new_session=True,  # Ctrl-C is for the program, which stops the server last
    )
    try:
        _wait(programs, sockets, keeper, folder / "log")
        yield f"host={sockets} user=shop dbname=postgres"
    finally:
        keeper.communicate()
        shutil.rmtree(sockets, ignore_errors=True)


def _wait(programs: Path, sockets: str, keeper: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while subprocess.run([programs / "pg_isready", "-q", "-h", sockets], check=False).returncode:
        if time.monotonic() > end or keeper.poll() is not None:
            raise NoServer(f"the server does not come up: {log.read_text('utf-8', 'replace')}")
        time.sleep(0.05)


def _programs() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4])
    )
    there = found[-1] if found else shutil.which("initdb")
    if there is None:
        raise NoServer("PostgreSQL is not installed here; --dsn names a server elsewhere")
    return Path(there).resolve().parent


def _somebody() -> str | None:
    """Whom the server runs as, since it refuses to be root; None is whoever we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            pass
    raise NoServer("we are root, and there is nobody else")
