"""A worker that is a process of its own: started as a run, ended in order by a stop, and failed when it dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from importlib.util import find_spec
from math import inf
from typing import Any

import attrs
import trio

from actors import Context
from examples.payments.board import Board
from examples.payments.settings import Settings

__all__ = ["Died", "Program"]


class Died(Exception):
    """A process ended without being asked to."""

    def __init__(self, code: int) -> None:
        super().__init__(
            f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        )


@attrs.frozen
class Program:
    """`Worker("provider", Program(settings, board, "provider"))`.

    The process tells what it has to tell on its stdout, as `parent.py` writes it, and its log goes to a file. Its stdin is held
    open and never written to: when this process is gone, however it went, the other one reads the end of it and stops.
    """

    settings: Settings
    board: Board
    module: str

    async def __call__(self, ctx: Context) -> None:
        """One life."""
        async with await trio.open_file(self.settings.log, "ab") as log:
            process = await trio.lowlevel.open_process(
                self.settings.command(self.module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log.wrapped,
                env=self._environment(ctx.path),
                start_new_session=True,  # Ctrl-C is for this process, which stops that one in order
            )
        self.board.began(ctx.path, process.pid)
        try:
            with ctx.busy():  # how it ends is decided here: see `_end_in_order`
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_in_order, ctx, process)
                    async for message in _messages(process):
                        self._heard(ctx, message)
                    await process.wait()
                    nursery.cancel_scope.cancel(reason="the process has ended")
        finally:
            if process.returncode is None:
                process.kill()
                with trio.CancelScope(shield=True):  # a moment: nothing survives SIGKILL
                    await process.wait()
            self.board.ended(ctx.path)
        if not ctx.stopping:
            raise Died(process.returncode)

    def _environment(self, path: str) -> dict[str, str]:
        found = {**os.environ, "PORT": str(self.board.port)}
        if self.module == "office" and find_spec("trio_websocket") is not None:
            found["PAGE"] = f"127.0.0.1:{self.board.page(path)}"
        return found

    async def _end_in_order(self, ctx: Context, process: trio.Process) -> None:
        await ctx.sleep(inf)  # until a stop is asked for
        process.terminate()

    def _heard(self, ctx: Context, message: dict[str, Any]) -> None:
        self.board.heard(ctx.path, message)
        if message.get("ready"):
            ctx.started()


async def _messages(process: trio.Process) -> AsyncIterator[dict[str, Any]]:
    """The lines of its stdout, to the end."""
    assert process.stdout is not None
    rest = b""
    async for chunk in process.stdout:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)
