"""A PostgreSQL server that only this demonstration has, as a worker: started, found ready, stopped in order, restarted when it dies."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Final

import attrs
import trio

from actors import Context
from examples.payments.board import Board
from examples.payments.program import Died
from examples.payments.settings import Settings
from supervision import RestartPolicy, Supervisor, Worker, supervisor

__all__ = ["NoServer", "Server", "with_server"]

# The server ends when its keeper's stdin does, so that it is gone even if this process is killed.
_KEEPER: Final = """
exec 3<&0
"$@" >>log 2>&1 & server=$!
(read word <&3; kill -INT $server) 2>/dev/null & reader=$!
wait $server; code=$?
kill $reader 2>/dev/null
exit $code
"""
_INITDB: Final = "initdb -D data -A trust -U shop -E UTF8 --locale=C --no-sync --no-instructions"


class NoServer(Exception):
    """PostgreSQL cannot be started here."""


@asynccontextmanager
async def with_server(settings: Settings, board: Board) -> AsyncGenerator[Settings]:
    """The settings, with the address of a server: a private one if they ask for PostgreSQL and name none.

    Raises:
        NoServer: it is not installed, or cannot be prepared.
    """
    if settings.engine != "postgres" or settings.dsn:
        yield settings
        return
    sockets = Path(tempfile.mkdtemp(prefix="pg-"))  # the path of a socket has to be short
    try:
        server = Server(settings.path / "postgres", sockets, _programs(), _somebody())
        await server.prepare()
        board.crash = server.crash
        patient = RestartPolicy(type="permanent", initial_backoff=settings.backoff)
        tree = Supervisor(
            "database",
            [Worker("server", server.run, ready="signal", start_timeout=60, restart=patient)],
        )
        async with supervisor.running(
            tree, signals=False, listeners=[board.listen]
        ) as board.database:
            dsn = f"host={sockets} user=shop dbname=postgres"
            yield attrs.evolve(settings, dsn=dsn)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


@attrs.frozen
class Server:
    """One cluster, in a folder; `run` is one life of its server."""

    folder: Path
    sockets: Path
    programs: Path
    user: str | None
    """Whom it runs as; None is whoever we are."""

    async def prepare(self) -> None:
        """Make the cluster, unless it is there."""
        if self.user is not None:
            self.folder.parent.chmod(0o711)  # it has to get through to what is its own
        self.folder.mkdir(exist_ok=True)
        for path in (self.folder, self.sockets):
            shutil.chown(path, self.user or os.geteuid())
        if (self.folder / "data").exists():
            return
        program, *options = _INITDB.split()
        done = await trio.run_process(
            [self.programs / program, *options],
            user=self.user,
            cwd=self.folder,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        if done.returncode:
            who = self.user or "us"
            raise NoServer(f"initdb, run by {who}, failed in {self.folder}: {done.stderr.decode()}")

    async def run(self, ctx: Context) -> None:
        """Start it, say when it takes connections, and see it to its end."""
        server = [self.programs / "postgres", "-D", "data", "-c", "listen_addresses="]
        process = await trio.lowlevel.open_process(
            ["/bin/sh", "-c", _KEEPER, "keeper", *server, "-k", self.sockets],
            stdin=subprocess.PIPE,
            user=self.user,
            cwd=self.folder,
            start_new_session=True,  # Ctrl-C is for this process, which stops the server last
        )
        assert process.stdin is not None
        try:
            with ctx.busy():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._ready, ctx)
                    nursery.start_soon(self._end_in_order, ctx, process.stdin)
                    await process.wait()
                    nursery.cancel_scope.cancel(reason="the server has ended")
        finally:
            with trio.CancelScope(shield=True):
                await process.stdin.aclose()
                await process.wait()
        if not ctx.stopping:
            raise Died(process.returncode)

    async def _ready(self, ctx: Context) -> None:
        ask = [self.programs / "pg_isready", "-q", "-h", self.sockets]
        while (await trio.run_process(ask, check=False)).returncode:  # noqa: ASYNC110 - it is another process
            await trio.sleep(0.05)
        ctx.started()

    async def _end_in_order(self, ctx: Context, stdin: trio.abc.SendStream) -> None:
        await ctx.sleep(inf)  # until a stop is asked for
        await stdin.aclose()

    def crash(self) -> None:
        """End it as a power cut would: at its next start it has to recover."""
        pid = (self.folder / "data/postmaster.pid").read_text("ascii").split()[0]
        os.kill(int(pid), signal.SIGQUIT)


def _programs() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4])
    )
    there = found[-1] if found else shutil.which("initdb")
    if there is None:
        raise NoServer("PostgreSQL is not installed here; --dsn names a server elsewhere")
    return Path(there).resolve().parent


def _somebody() -> str | None:
    """Whom the server runs as, since it refuses to be root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            pass
    raise NoServer("we are root, and there is nobody else")
