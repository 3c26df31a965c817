"""HTTP for the provider's side: connections that stay open, over h11, and a way to hang up in the middle."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import h11
import trio

__all__ = ["Answer", "HangUp", "Request", "serve"]


class HangUp(Exception):
    """Close the connection without an answer, as a server does that is out of order."""


@attrs.frozen
class Request:
    """What is asked."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@attrs.frozen
class Answer:
    """What is answered: a JSON value."""

    status: int
    value: Any = None
    headers: dict[str, str] = attrs.field(factory=dict)


Desk = Callable[[Request], Awaitable[Answer]]


async def serve(listeners: list[trio.SocketListener], desk: Desk) -> None:
    """Answer requests until cancelled."""

    async def connected(stream: trio.SocketStream) -> None:
        try:
            await _talk(stream, desk)
        except HangUp:
            # Without this the close would be a polite one; now the other side reads "connection reset".
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            pass  # the client has gone, or spoke no HTTP

    await trio.serve_listeners(connected, listeners)


async def _talk(stream: trio.SocketStream, desk: Desk) -> None:
    connection = h11.Connection(h11.SERVER)
    while True:
        request = await _request(connection, stream)
        if request is None:
            return
        answer = await desk(request)
        body = json.dumps(answer.value).encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **answer.headers,
        }
        data = connection.send(
            h11.Response(status_code=answer.status, headers=list(headers.items()))
        )
        data += connection.send(h11.Data(body)) + connection.send(h11.EndOfMessage())
        await stream.send_all(data)
        if connection.our_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def _request(connection: h11.Connection, stream: trio.SocketStream) -> Request | None:
    head, body = None, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            return Request(head.method.decode(), head.target.decode(), headers, body)
        else:  # closed
            return None
