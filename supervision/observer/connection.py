"""Connection: HTTP/1.1 over one stream, by h11, and the way to a WebSocket.

Floor: above site. The rules: every request has a bound for its size and for its time; a request that is no HTTP gets a 400 and
the connection ends; a client that is gone is no error. Nothing that a client sends ends up in a traceback.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import h11
import trio
import trio_websocket

from supervision.observer.access import SUBPROTOCOL
from supervision.observer.messages import Peer, Request, Response, Trouble
from supervision.observer.site import SAFE, Site
from supervision.observer.viewer import Gone, show

__all__ = ["GONE", "Connection"]

logger: Final = logging.getLogger("supervision")

MOST_HEAD: Final = 16 * 1024
"""Bytes of a request's line and headers."""
MOST_BODY: Final = 64 * 1024
MOST_MESSAGE: Final = 4096
"""Bytes of a message from a viewer."""
READ: Final = 4096
IDLE: Final = 60.0
"""Seconds that a connection may wait for its next request."""
SLOW: Final = 10.0
"""Seconds that a request may take to arrive, and an answer to be taken."""
CLOSING: Final = 1.0
"""Seconds that a viewer has to take leave."""
LINGER: Final = 256 * 1024
"""Bytes that are still taken of a request that was refused in its middle."""
_LOST: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
GONE: Final = (*_LOST, trio.TooSlowError, Gone, trio_websocket.ConnectionClosed)
"""Ends of a connection that are nobody's fault."""


class Connection:
    """One client."""

    def __init__(self, site: Site, stream: trio.abc.Stream, peer: Peer) -> None:
        self.site = site
        self.stream = stream
        self.peer = peer
        self.idle_since: float | None = trio.current_time()
        """Since when it has waited for a whole request, and may be closed without a loss; None while it has one."""
        self.scope = trio.CancelScope()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)
        self._bodiless = False  # the answer to HEAD, be it an error, has none
        self._raw = bytearray()  # of the request under way, for whoever takes over

    async def run(self) -> None:
        """Answer requests until either side has enough."""
        try:
            with self.scope:
                while await self._one():
                    self._http.start_next_cycle()
                    self.idle_since = trio.current_time()
        finally:
            with trio.move_on_after(CLOSING, shield=True):
                await trio.aclose_forcefully(self.stream)

    # -- one request -----------------------------------------------------------------------------

    async def _one(self) -> bool:
        """Answer one request. True if another may follow."""
        self._raw = bytearray(self._http.trailing_data[0])
        self._bodiless = False
        try:
            head = await self._head()
            if head is None:
                return False
            self._bodiless = head.method == b"HEAD"
            request = _understood(head, self.peer)
            if _is_upgrade(request):
                await self._upgrade(request)
                return False
            with trio.fail_after(SLOW):
                request = _with_body(request, await self._body())
        except h11.RemoteProtocolError as error:
            await self._refuse(Trouble("bad_request", str(error)), error.error_status_hint)
            return False
        except Trouble as trouble:
            await self._refuse(trouble)
            return False
        self.idle_since = None
        response = await self.site.respond(request)
        await self._send(response)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _head(self) -> h11.Request | None:
        with trio.fail_after(IDLE):
            while not self._raw:
                if not await self._more():
                    return None
        with trio.fail_after(SLOW):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                await self._more()
        return event if isinstance(event, h11.Request) else None

    async def _more(self) -> bool:
        data = await self.stream.receive_some(READ)
        if self._raw is not None:
            self._raw += data
        self._http.receive_data(bytes(data))
        return bool(data)

    async def _body(self) -> bytes:
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                self._raw.clear()
                await self._more()
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MOST_BODY:
                    raise Trouble("too_large", f"a body has {MOST_BODY} bytes at most")
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            else:
                raise trio.BrokenResourceError("gone in the middle of its request")

    # -- answering -------------------------------------------------------------------------------

    async def _refuse(self, trouble: Trouble, status: int | None = None) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        response = trouble.response()
        await self._send(response, status=status, close=True)
        # A connection that is closed with something unread is reset, and the other side may never see the answer.
        if isinstance(self.stream, trio.abc.HalfCloseableStream):
            await self.stream.send_eof()
        taken = 0
        with trio.move_on_after(CLOSING):
            while taken < LINGER and (data := await self.stream.receive_some(LINGER)):
                taken += len(data)

    async def _send(
        self, response: Response, *, status: int | None = None, close: bool = False
    ) -> None:
        headers = {
            **SAFE,
            **response.headers,
            "Content-Type": response.type,
            "Content-Length": str(len(response.body)),
        }
        if close or self.site.hub.closing:
            headers["Connection"] = "close"
        with trio.fail_after(SLOW):
            code = status or response.status
            reason = HTTPStatus(code).phrase.encode()
            await self._write(
                h11.Response(status_code=code, headers=list(headers.items()), reason=reason)
            )
            if response.body and not self._bodiless:
                await self._write(h11.Data(data=response.body))
            await self._write(h11.EndOfMessage())

    async def _write(self, event: Any) -> None:
        data = cast("bytes | None", self._http.send(event))
        if data:
            await self.stream.send_all(data)

    # -- a viewer --------------------------------------------------------------------------------

    async def _upgrade(self, request: Request) -> None:
        self.site.admit_viewer(request)
        self.idle_since = None
        stream = _Replay(self.stream, bytes(self._raw))
        async with trio.open_nursery() as nursery:
            try:
                with trio.fail_after(SLOW):
                    asked = await trio_websocket.wrap_server_stream(
                        nursery, stream, max_message_size=MOST_MESSAGE
                    )
                    chosen = SUBPROTOCOL if SUBPROTOCOL in asked.proposed_subprotocols else None
                    socket = _WebSocket(await asked.accept(subprotocol=chosen))
                await show(self.site.hub, socket)
            except (Gone, trio_websocket.ConnectionClosed):
                pass
            nursery.cancel_scope.cancel(reason="the viewer is gone")


class _WebSocket:
    """A viewer's socket, by trio-websocket."""

    def __init__(self, inner: trio_websocket.WebSocketConnection) -> None:
        self._inner = inner

    async def send(self, text: str) -> None:
        try:
            await self._inner.send_message(text)
        except (trio_websocket.ConnectionClosed, *_LOST) as error:
            raise Gone from error

    async def receive(self) -> object:
        try:
            return await self._inner.get_message()
        except (trio_websocket.ConnectionClosed, *_LOST) as error:
            raise Gone from error

    async def close(self, code: int) -> None:
        with trio.move_on_after(CLOSING):
            await self._inner.aclose(code, "the tree has stopped")


class _Replay(trio.abc.Stream):
    """A stream that gives again what was read from it, and then goes on."""

    def __init__(self, inner: trio.abc.Stream, raw: bytes) -> None:
        self._inner = inner
        self._raw = raw

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._raw:
            await trio.lowlevel.checkpoint()
            most = len(self._raw) if max_bytes is None else max_bytes
            data, self._raw = self._raw[:most], self._raw[most:]
            return data
        return await self._inner.receive_some(max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _understood(head: h11.Request, peer: Peer) -> Request:
    try:
        target = head.target.decode("ascii")
        parts = urlsplit(target)
        path = unquote(parts.path, errors="strict")
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise Trouble("bad_request", f"the target is no path: {error}") from None
    if not path.startswith("/"):
        raise Trouble("bad_request", "the target must begin with a slash")
    headers: dict[str, str] = {}
    for name, value in head.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Request(
        method=head.method.decode("ascii"), path=path, query=query, headers=headers, peer=peer
    )


def _with_body(request: Request, body: bytes) -> Request:
    if not body:
        return request
    return Request(
        method=request.method,
        path=request.path,
        query=request.query,
        headers=request.headers,
        peer=request.peer,
        body=body,
    )


def _is_upgrade(request: Request) -> bool:
    return "websocket" in request.headers.get("upgrade", "").lower()
