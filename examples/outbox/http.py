"""As much HTTP/1.1 as the example needs: one request a connection, over Trio's TCP streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

__all__ = ["ClosedEarly", "Request", "Response", "post", "serve"]

_LONGEST: Final = 64 * 1024
_REASONS: Final = {200: "OK", 400: "Bad Request", 503: "Service Unavailable"}


class ClosedEarly(ConnectionError):
    """The other side closed the connection before its message was complete."""


@attrs.frozen
class Request:
    """What a server is asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@attrs.frozen
class Response:
    """What it answers."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = attrs.field(factory=dict)


async def post(port: int, path: str, body: bytes, **headers: str) -> Response:
    """Send one POST to this machine and return the answer.

    Raises:
        ConnectionError: nobody listens, or the connection was closed before the answer was complete.
        trio.BrokenResourceError: it broke.
    """
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError as error:
        raise ConnectionRefusedError(f"nobody listens on port {port}") from error
    async with stream:
        head = {"Host": f"127.0.0.1:{port}", "Content-Length": str(len(body)), **headers}
        await _send(stream, f"POST {path} HTTP/1.1", head, body)
        first, received, content = await _receive(stream)
    return Response(int(first.split()[1]), content, received)


async def serve(
    handle: Callable[[Request], Awaitable[Response]], listeners: list[trio.SocketListener]
) -> None:
    """Answer requests until cancelled. An exception of `handle` ends it: here, a failure is not hidden."""

    async def connection(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                first, headers, body = await _receive(stream)
                method, path, _ = first.split()
            except (ClosedEarly, ValueError, trio.BrokenResourceError):
                return
            answer = await handle(Request(method, path, headers, body))
            head = {"Content-Length": str(len(answer.body)), **answer.headers}
            try:
                await _send(
                    stream, f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}", head, answer.body
                )
            except trio.BrokenResourceError:
                pass  # the client did not wait for the answer: its loss, and it will ask again

    await trio.serve_listeners(connection, listeners)


async def _send(
    stream: trio.SocketStream, first: str, headers: dict[str, str], body: bytes
) -> None:
    lines = [first, "Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    await stream.send_all("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


async def _receive(stream: trio.SocketStream) -> tuple[str, dict[str, str], bytes]:
    """Read one message: its first line, its headers with names in lower case, its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await _more(stream, data)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length", "0"))
    while len(body) < length:
        body += await _more(stream, body)
    return first, headers, body[:length]


async def _more(stream: trio.SocketStream, so_far: bytes) -> bytes:
    if len(so_far) > _LONGEST:
        raise ValueError(f"the message is longer than {_LONGEST} bytes")
    chunk = await stream.receive_some()
    if not chunk:
        raise ClosedEarly("the connection was closed before the message was complete")
    return bytes(chunk)
