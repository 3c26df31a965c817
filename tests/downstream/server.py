"""An HTTP service on loopback that misbehaves on order: slow, hanging, resetting, refusing, dead and back again.

What it does with a request is an *act*. Acts in `script` are used up one by one, then `mood` answers each request.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import h11
import trio
from trio_util import AsyncValue

__all__ = [
    "Act",
    "Downstream",
    "Visit",
    "busy",
    "cut",
    "garble",
    "hang",
    "open_downstream",
    "reset",
    "slow",
    "well",
]


@attrs.define(eq=False)
class Visit:
    """One request, and the means to answer it."""

    house: Downstream
    path: str
    headers: dict[str, str]
    body: bytes
    stream: trio.SocketStream
    wire: h11.Connection

    async def send(self, *events: h11.Event) -> None:
        for event in events:
            data = self.wire.send(event)
            if data:
                await self.stream.send_all(data)

    async def answer(self, status: int, body: object, **headers: str) -> None:
        data = json.dumps(body).encode()
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        head = h11.Response(
            status_code=status, headers=[("Content-Length", str(len(data))), *named]
        )
        await self.send(head, h11.Data(data=data), h11.EndOfMessage())


Act = Callable[[Visit], Awaitable[None]]


async def well(visit: Visit) -> None:
    """Answer, and book under the key that the request has, or a new one."""
    house = visit.house
    key = visit.headers.get("idempotency-key", f"request {house.seen.value}")
    house.booked.setdefault(key, len(house.booked) + 1)
    await visit.answer(200, {"charge": house.booked[key]})


def busy(retry_after: str | None = None, status: int = 503) -> Act:
    """Refuse, and say when to come back if that is given."""

    async def refuse(visit: Visit) -> None:
        hint = {} if retry_after is None else {"Retry_After": retry_after}
        await visit.answer(status, {"error": "busy"}, **hint)

    return refuse


async def slow(visit: Visit) -> None:
    """Answer when the test opens the gate."""
    await visit.house.gate.wait()
    await well(visit)


async def hang(visit: Visit) -> None:
    """Take the request and never answer; note when the client has given up."""
    try:
        await visit.stream.receive_some()
    except trio.BrokenResourceError:
        pass
    visit.house.given_up.value += 1
    raise _Over


async def reset(visit: Visit) -> None:
    """Reset the connection instead of an answer."""
    # Lingering for no time at all makes the closing an abort.
    visit.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise _Over


async def cut(visit: Visit) -> None:
    """Do the work, then close in the middle of the answer: it is lost."""
    key = visit.headers.get("idempotency-key", f"request {visit.house.seen.value}")
    visit.house.booked.setdefault(key, len(visit.house.booked) + 1)
    head = h11.Response(status_code=200, headers=[("Content-Length", "100")])
    await visit.send(head, h11.Data(data=b'{"char'))
    raise _Over


async def garble(visit: Visit) -> None:
    """Answer with what is no HTTP."""
    await visit.stream.send_all(b"no idea what you mean\r\n\r\n")
    raise _Over


class _Over(Exception):
    """The act has done with this connection."""


class Downstream:
    """The service: what it was asked, how it is, and the switches."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.port = 0
        self.script: deque[Act] = deque()
        self.mood: Act = well
        self.gate = trio.Event()
        self.keys: list[str | None] = []
        """The idempotency key of each request."""
        self.booked: dict[str, int] = {}
        """What took effect, by key."""
        self.seen = AsyncValue(0)
        """Requests so far."""
        self.under_way = AsyncValue(0)
        self.connections = AsyncValue(0)
        self.given_up = AsyncValue(0)
        """Clients that closed the connection of a request that hung."""
        self.peak = 0
        """The most requests that were under way at once."""
        self._nursery = nursery
        self._life = trio.CancelScope()
        self._ended = trio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def rise(self) -> None:
        """Listen, at the same port as before."""
        listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        self._life, self._ended = trio.CancelScope(), trio.Event()
        self._nursery.start_soon(self._live, listeners)

    async def die(self) -> None:
        """Close all connections in the middle of whatever they do, and the port."""
        self._life.cancel()
        await self._ended.wait()

    async def _live(self, listeners: list[trio.SocketListener]) -> None:
        with self._life:
            await trio.serve_listeners(self._connection, listeners)
        self._ended.set()

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.connections.value += 1
        try:
            async with stream:
                wire = h11.Connection(h11.SERVER)
                while (visit := await self._receive(stream, wire)) is not None:
                    await self._serve(visit)
                    if wire.our_state is not h11.DONE or wire.their_state is not h11.DONE:
                        break
                    wire.start_next_cycle()
        except (_Over, trio.BrokenResourceError, h11.RemoteProtocolError):
            pass
        finally:
            self.connections.value -= 1

    async def _serve(self, visit: Visit) -> None:
        act = self.script.popleft() if self.script else self.mood
        self.keys.append(visit.headers.get("idempotency-key"))
        self.under_way.value += 1
        self.peak = max(self.peak, self.under_way.value)
        self.seen.value += 1
        try:
            await act(visit)
        finally:
            self.under_way.value -= 1

    async def _receive(self, stream: trio.SocketStream, wire: h11.Connection) -> Visit | None:
        head: h11.Request | None = None
        body = b""
        while True:
            event = wire.next_event()
            if event is h11.NEED_DATA:
                wire.receive_data(await stream.receive_some())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                headers = {name.decode(): value.decode() for name, value in head.headers}
                return Visit(self, head.target.decode(), headers, body, stream, wire)
            else:
                return None


@asynccontextmanager
async def open_downstream() -> AsyncIterator[Downstream]:
    """Run a downstream round a block. A block that hangs fails, for no test here takes a minute."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            downstream = Downstream(nursery)
            await downstream.rise()
            yield downstream
            nursery.cancel_scope.cancel()
