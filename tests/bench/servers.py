"""The servers that a benchmark needs, started by it and gone with it: they are told to the sides by environment variables.

PostgreSQL waits for the disk at each commit and writes whole pages, as it does where it matters; Redis keeps an append-only file and
writes it out every second, which is the durable setting that a queue would use.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.meter import SERVER

__all__ = ["POSTGRES", "REDIS", "NoServer", "servers"]

POSTGRES: Final = "TREEWARDEN_BENCH_POSTGRES"
"""The environment variable with the URL of a database of PostgreSQL in which others can be made."""
REDIS: Final = "TREEWARDEN_BENCH_REDIS"
"""The environment variable with the URL of Redis."""
_LIKE_OUTSIDE: Final = {
    "full_page_writes": "on",
    "wal_level": "replica",
    "max_wal_senders": "10",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
}


class NoServer(Exception):
    """It is not installed, or does not start."""


@contextmanager
def servers(
    wanted: set[str], say: Callable[[str], None], *, durable: bool = True
) -> Iterator[tuple[Mapping[str, Mapping[str, str]], Mapping[str, str]]]:
    """Start those that are wanted; the variables of each that runs, and why others do not.

    Without `durable` they do not wait for the disk, which says nothing about speed and is over sooner.
    """
    running: dict[str, Mapping[str, str]] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name, start in (("postgres", partial(_postgres, durable)), ("redis", _redis)):
            if name in wanted:
                say(f"starting {name}")
                try:
                    running[name] = start(stack)
                except NoServer as error:
                    missing[name] = str(error)
        yield running, missing


def _postgres(durable: bool, stack: ExitStack) -> Mapping[str, str]:
    try:
        from tests.jobs.server import NoPostgres, Server
    except ModuleNotFoundError as error:
        raise NoServer(f"{error.name} is not installed") from None
    try:
        server = Server(durable=durable, **_LIKE_OUTSIDE)
    except NoPostgres as error:
        raise NoServer(str(error)) from None
    stack.callback(server.close)
    pid = (server.folder / "data/postmaster.pid").read_text("ascii").split()[0]
    return {POSTGRES: server.url("postgres"), SERVER: pid}


def _redis(stack: ExitStack) -> Mapping[str, str]:
    program = shutil.which("redis-server")
    if program is None:
        raise NoServer("redis-server is not in PATH")
    folder = tempfile.mkdtemp(prefix="treewarden-redis-")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    options = {
        "bind": "127.0.0.1", "port": str(port), "dir": folder, "save": "", "appendonly": "yes", "appendfsync": "everysec",
    }  # fmt: skip
    command = [program, *(word for name, text in options.items() for word in (f"--{name}", text))]
    with (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def stop() -> None:
        process.terminate()
        process.wait(60)

    stack.callback(stop)
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return {REDIS: f"redis://127.0.0.1:{port}", SERVER: str(process.pid)}
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise NoServer(f"redis-server does not come up: {error}") from None
            time.sleep(0.02)
