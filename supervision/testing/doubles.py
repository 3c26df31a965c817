"""Doubles: what workers talk to, in memory.

The rule: no thread and no socket, so that virtual time holds; they can fail, lag and fall silent at a word.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

import trio
from trio.testing import memory_stream_pair

from supervision.testing.errors import InjectedFault

__all__ = ["FakeNetwork", "Line", "memory_streams"]

Connection = trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]


class Line:
    """The state of a way between two ends: a test sets it, both ends obey."""

    def __init__(self) -> None:
        self.lag = 0.0
        """Seconds that sending takes."""
        self.down = False
        """True: sending and connecting raise `InjectedFault`."""
        self.silent = False
        """True: nothing arrives, and nobody is told."""
        self._gate: trio.Event | None = None

    @property
    def held(self) -> bool:
        """True: what is sent is on its way, and arrives when this is False again: late, and all in one instant."""
        return self._gate is not None

    @held.setter
    def held(self, held: bool) -> None:
        if held and self._gate is None:
            self._gate = trio.Event()
        elif not held and self._gate is not None:
            self._gate.set()
            self._gate = None

    async def cross(self) -> None:
        """What everything sent has to go through."""
        if self.down:
            raise InjectedFault("the line is down")
        if self.silent:
            await trio.sleep_forever()
        if self.lag:
            await trio.sleep(self.lag)
        if self._gate is not None:
            await self._gate.wait()


class _Sender(trio.abc.SendStream):
    """Sends over a line."""

    def __init__(self, inner: trio.abc.SendStream, line: Line) -> None:
        self._inner = inner
        self._line = line

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._line.cross()
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._inner.aclose()


def memory_streams(line: Line | None = None) -> tuple[Connection, Connection]:
    """Two connected byte streams, in memory, over a line that can fail."""
    way = line if line is not None else Line()
    one, other = memory_stream_pair()
    return (
        trio.StapledStream(_Sender(one.send_stream, way), one.receive_stream),
        trio.StapledStream(_Sender(other.send_stream, way), other.receive_stream),
    )


class FakeNetwork:
    """Servers by name, and connections to them: what to give a worker in place of `trio.open_tcp_stream`.

    Synopsis::

        network = FakeNetwork(sim.nursery)
        network.listen("db", serve_one_client)
        stream = await network.connect("db")
        network.line("db").down = True
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._servers: dict[str, Callable[[Connection], Awaitable[object]]] = {}
        self._lines: dict[str, Line] = {}

    def line(self, name: str) -> Line:
        """The way to a server: all connections to it share it."""
        return self._lines.setdefault(name, Line())

    def listen(self, name: str, serve: Callable[[Connection], Awaitable[object]]) -> None:
        """Let `serve(stream)` be run for each connection."""
        self._servers[name] = serve

    async def connect(self, name: str, timeout: float = inf) -> Connection:
        """Connect to a server.

        Raises:
            OSError: there is none of that name.
            InjectedFault: the line is down.
            trio.TooSlowError: it took longer than `timeout`.
        """
        await trio.lowlevel.checkpoint()
        if name not in self._servers:
            raise OSError(f"nobody listens as {name!r}")
        line = self.line(name)
        with trio.fail_after(timeout):
            await line.cross()
        ours, theirs = memory_streams(line)
        self._nursery.start_soon(self._serve, self._servers[name], theirs)
        return ours

    async def _serve(
        self, serve: Callable[[Connection], Awaitable[object]], stream: Connection
    ) -> None:
        async with stream:
            try:
                await serve(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError, InjectedFault):
                return  # a server outlives its connections
