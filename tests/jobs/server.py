"""A PostgreSQL server of our own: private, thrown away afterwards, for tests, benchmarks and examples.

`python -m tests.jobs.server` starts one and says how to connect, until Ctrl-C.

The server lives in a temporary folder, which is also where its socket is. A shell stands over it and ends it when our end of a
pipe is closed, so that it is gone even if we are killed. PostgreSQL refuses to run as root; then it runs as somebody else.
"""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psycopg

USER = "tests"
SETTINGS = {
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "jit": "off",
    "log_min_messages": "fatal",
    "listen_addresses": "127.0.0.1",
}
KEEPER = """
"$@" >"$KEEP/log" 2>&1 &
read word
kill -INT $! 2>/dev/null
wait $!
[ "$word" = again ] || rm -rf "$KEEP"
"""
PATIENCE = 60.0


class NoPostgres(Exception):
    """There is no server to start."""


def binaries() -> Path:
    """The folder of the newest server that is installed.

    Raises:
        NoPostgres: there is none.
    """
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))],
    )
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    if there is None:
        raise NoPostgres("PostgreSQL's initdb is neither in /usr/lib/postgresql nor in PATH")
    return Path(there).resolve().parent


def somebody() -> str | None:
    """Whom the server runs as; None is whoever we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise NoPostgres("we are root, and there is neither a user postgres nor a user nobody")


class Server:
    """One cluster.

    Args:
        settings: on top of `SETTINGS`.
        durable: commits wait for the disk, as they do where it matters.
    """

    def __init__(self, *, durable: bool = False, **settings: str) -> None:
        self._bin, self._user = binaries(), somebody()
        self._settings = {**SETTINGS, "fsync": "on" if durable else "off", **settings}
        self.folder = Path(tempfile.mkdtemp(prefix="treewarden-pg-"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.port = _free_port()
        self._made = 0
        self._run(
            "initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", USER,
            "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        self._keeper = self._start()

    def _run(self, name: str, *args: str) -> None:
        done = subprocess.run(
            [str(self._bin / name), *args],
            user=self._user,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoPostgres(f"{name} failed: {done.stderr.strip() or done.stdout.strip()}")

    # -- life ------------------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        command = [str(self._bin / "postgres"), "-D", str(self.folder / "data")]
        options = {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        for name, value in {**self._settings, **options}.items():
            command += ["-c", f"{name}={value}"]
        keeper = subprocess.Popen(
            ["/bin/sh", "-c", KEEPER, "keeper", *command],
            stdin=subprocess.PIPE,
            user=self._user,
            cwd=self.folder,
            env={**os.environ, "KEEP": str(self.folder)},
            start_new_session=True,  # Ctrl-C is for us: we stop it afterwards
        )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.conninfo("postgres"), connect_timeout=5).close()
                return keeper
            except psycopg.OperationalError as error:
                if time.monotonic() > end:
                    raise NoPostgres(
                        f"the server does not come up: {error}; {self.log()}"
                    ) from None
                time.sleep(0.02)

    def _end(self, word: bytes) -> None:
        keeper = self._keeper
        assert keeper.stdin is not None
        try:
            keeper.stdin.write(word)
            keeper.stdin.close()
        except BrokenPipeError:
            pass
        keeper.wait(PATIENCE)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it; at once means that it has to recover at the next start, as after a crash."""
        pid = int((self.folder / "data/postmaster.pid").read_text("ascii").split()[0])
        if at_once:
            os.kill(pid, signal.SIGQUIT)
        self._end(b"again\n")

    def start(self) -> None:
        """Start it again after `stop`."""
        self._keeper = self._start()

    def close(self) -> None:
        """Stop it for good; nothing of it is left."""
        if self._keeper.poll() is None:
            self._end(b"end\n")
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """What the server has said since its start."""
        return (self.folder / "log").read_text("utf-8", "replace")

    # -- databases -------------------------------------------------------------------------------

    def conninfo(self, database: str) -> str:
        """How to connect, through the socket."""
        return f"host={self.folder} port={self.port} user={USER} dbname={database}"

    def url(self, database: str) -> str:
        """The same through the loopback address, for what wants a URL."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create(self, template: str = "template1") -> str:
        """Make a database and return its name."""
        self._made += 1
        name = f"db{self._made}"
        self.sql("postgres", f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        """Delete a database, whoever is connected."""
        self.sql("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def sql(self, database: str, statement: str, *values: object) -> list[tuple]:
        """Run one statement outside of everything under test."""
        with closing(psycopg.connect(self.conninfo(database), autocommit=True)) as db:
            cursor = db.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def __repr__(self) -> str:
        return f"<Server in {self.folder}, port {self.port}>"


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@functools.cache
def shared_server() -> Server:
    """The one for this process, started on first use.

    Raises:
        NoPostgres: there is none to start.
    """
    found = Server()
    atexit.register(found.close)
    return found


if __name__ == "__main__":
    one = Server()
    try:
        made = one.create()
        print(one.conninfo(made), one.url(made), sep="\n", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        one.close()
