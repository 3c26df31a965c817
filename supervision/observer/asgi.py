"""ASGI: the same site inside the user's own server, which has to run under Trio (Hypercorn does).

Floor: above site. The rule: the server owns connections and their limits; what is answered, and to whom, is decided by the site as at an
address of its own. The app may be mounted below any path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import trio

from supervision.observer.access import SUBPROTOCOL
from supervision.observer.address import is_loopback
from supervision.observer.messages import Peer, Request, Response, Trouble
from supervision.observer.site import SAFE, Site
from supervision.observer.spec import Observer
from supervision.observer.viewer import Gone, show
from supervision.pool import Pool

__all__ = ["asgi_app"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BODY: Final = 64 * 1024
_REFUSED: Final = 4403


def asgi_app(pool: Pool, options: Observer | None = None) -> AsgiApp:
    """An ASGI app that shows the tree of `pool`: `app.mount("/tree", asgi_app(pool))`.

    Its address plays no part. Without a token, reading is for those who come from this machine.
    """
    return AsgiApp(Site(pool, Observer() if options is None else options))


class AsgiApp:
    """What `asgi_app` returns."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as an ASGI server calls it."""
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError(
                "asgi_app() needs a server that runs under Trio, such as Hypercorn with its trio worker"
            )
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "lifespan":
            await _lifespan(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await _body(receive)
            root = str(scope.get("root_path", ""))
            if root and scope["path"] == root:
                # The page names its files as its neighbours: below `/ops`, not beside it.
                response = Response(status=308, headers={"Location": f"{root}/"})
            else:
                response = await self.site.respond(_request(scope, body))
        except Trouble as trouble:
            response = trouble.response()
        except Gone:
            return
        await _answer(send, response, head=scope["method"] == "HEAD")

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _request(scope, b"")
        await receive()  # `websocket.connect`
        try:
            self.site.admit_viewer(request)
        except Trouble as trouble:
            await send({"type": "websocket.close", "code": _REFUSED, "reason": trouble.text[:100]})
            return
        chosen = SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None
        await send({"type": "websocket.accept", "subprotocol": chosen})
        # The frames' clock belongs to no connection: each brings it along, and they take turns by its lock.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.site.run)
            await show(self.site.hub, _Socket(receive, send))
            nursery.cancel_scope.cancel(reason="the viewer is gone")

    def __repr__(self) -> str:
        return f"<AsgiApp of {self.site!r}>"


class _Socket:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def send(self, text: str) -> None:
        try:
            await self._send({"type": "websocket.send", "text": text})
        except OSError as error:
            raise Gone from error

    async def receive(self) -> object:
        event = await self._receive()
        if event["type"] == "websocket.disconnect":
            raise Gone
        return event.get("text")

    async def close(self, code: int) -> None:
        await self._send(
            {"type": "websocket.close", "code": code, "reason": "the tree has stopped"}
        )


def _request(scope: Scope, body: bytes) -> Request:
    root = str(scope.get("root_path", ""))
    path = str(scope["path"])
    if root and path.startswith(root):
        path = path[len(root) :] or "/"
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    client: Any = scope.get("client") or ("", 0)
    try:
        query = dict(
            parse_qsl(
                bytes(scope["query_string"]).decode("latin-1"),
                keep_blank_values=True,
                max_num_fields=20,
            )
        )
    except ValueError as error:
        raise Trouble("bad_request", f"the query cannot be read: {error}") from None
    return Request(
        method=str(scope.get("method", "GET")),
        path=path,
        query=query,
        headers=headers,
        body=body,
        peer=Peer(kind="asgi", name=f"{client[0]}", local=is_loopback(str(client[0]))),
    )


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise Gone
        body += event.get("body", b"")
        if len(body) > MOST_BODY:
            raise Trouble("too_large", f"a body has {MOST_BODY} bytes at most")
        if not event.get("more_body", False):
            return bytes(body)


async def _answer(send: Send, response: Response, *, head: bool) -> None:
    headers = {
        **SAFE,
        **response.headers,
        "Content-Type": response.type,
        "Content-Length": str(len(response.body)),
    }
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in headers.items()
            ],
        }
    )
    await send({"type": "http.response.body", "body": b"" if head else response.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return
