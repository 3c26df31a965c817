"""What these tests share: a tree that is seen, and a client that speaks to its observer through memory, in virtual time."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import h11
import trio
import trio.testing
import trio_websocket

from actors.jobs import FailWithRetry, IncidentError, PoisonMessage
from supervision import Supervisor, Worker, supervisor
from supervision.observer import Observer
from supervision.observer.messages import Peer, Request
from supervision.observer.server import Server
from supervision.observer.site import Site

LOCAL = Peer(kind="tcp", name="127.0.0.1:50000")
PUBLIC = Peer(kind="tcp", name="192.0.2.7:50000", local=False)
UNIX = Peer(kind="unix", name="alice")
TOKEN = "correct horse"


async def forever(ctx):
    """Handle whatever comes."""
    async for _ in ctx.mailbox:
        pass


async def charge(job, ctx):
    """Handle a job as it says."""
    match job.variables.get("how"):
        case "incident":
            raise IncidentError("have a look")
        case "fails":
            raise ValueError("no luck")
        case "poison":
            raise PoisonMessage("it can never work")
        case "later":
            raise FailWithRetry("not yet", retry_in=1000)
        case "hangs":
            await trio.sleep_forever()
    return {"card": "4111"}


def shop(*more) -> Supervisor:
    """A small tree."""
    return Supervisor("shop", [Worker("fetch", forever, replicas=2), *more])


@asynccontextmanager
async def seen(tree=None, options=None, **given):
    """Run a tree, and yield an observer's server for it that listens nowhere."""
    async with (
        supervisor.running(tree or shop(), log=False, **given) as pool,
        seen_as(pool, options) as server,
    ):
        yield server


@asynccontextmanager
async def seen_as(pool, options=None):
    """Yield a server for the tree of `pool`."""
    server = Server(Site(pool, options or Observer()))
    async with trio.open_nursery() as nursery:
        server.nursery = nursery
        nursery.start_soon(server.site.run)
        yield server
        nursery.cancel_scope.cancel()


def request(path: str, *, method="GET", peer=LOCAL, body=None, query=None, **headers) -> Request:
    """A request as a parser would make it; names of headers with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("host", "127.0.0.1:8023")
    if body is not None:
        named.setdefault("content-type", "application/json")
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(
        method=method, path=path, peer=peer, query=query or {}, headers=named, body=body or b""
    )


async def get(server: Server, path: str, **options: Any) -> tuple[int, Any]:
    """Status and body (JSON if it is) of what the site answers."""
    path, _, query = path.partition("?")
    given = dict(part.partition("=")[::2] for part in query.split("&") if part)
    response = await server.site.respond(request(path, query=given, **options))
    text = response.body.decode()
    return response.status, json.loads(text) if "json" in response.type else text


async def do(server: Server, verb: str, *, peer=UNIX, **what: Any) -> tuple[int, Any]:
    """Have something done."""
    headers = {name: what.pop(name) for name in ("authorization", "origin", "host") if name in what}
    return await get(
        server, "/api/do", method="POST", peer=peer, body={"verb": verb, **what}, **headers
    )


def connect(server: Server, peer: Peer = LOCAL) -> trio.abc.Stream:
    """A connection to the server, through memory."""
    ours, theirs = trio.testing.memory_stream_pair()
    server.nursery.start_soon(server.handle, theirs, peer)
    return ours


@asynccontextmanager
async def watching(url: str):
    """A WebSocket to a real address; its own client leaves sockets open, so they are closed here."""
    parts = urlsplit(url)
    stream = await trio.open_tcp_stream(parts.hostname, parts.port)
    try:
        async with trio.open_nursery() as nursery:
            ws = await trio_websocket.wrap_client_stream(nursery, stream, parts.netloc, "/ws")
            yield ws
            with trio.move_on_after(5):
                await ws.aclose()
            nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)


async def everything(stream: trio.abc.Stream) -> bytes:
    """All that comes until the other side has ended."""
    out = bytearray()
    try:
        async for data in stream:
            out += data
    except trio.BrokenResourceError:
        pass
    return bytes(out)


async def raw(server: Server, data: bytes, peer: Peer = LOCAL) -> bytes:
    """What comes back for these bytes and the end of them."""
    stream = connect(server, peer)
    try:
        await stream.send_all(data)
        await stream.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    return await everything(stream)


def answers(data: bytes, asked: int = 1) -> list[tuple[int, bytes]]:
    """The HTTP answers in `data`: status and body of each."""
    client = h11.Connection(h11.CLIENT)
    client.receive_data(data)
    client.receive_data(b"")
    out = []
    for _ in range(asked):
        client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
        client.send(h11.EndOfMessage())
        status, body = 0, b""
        while True:
            event = client.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                break
        if not status:
            break
        out.append((status, body))
        if client.our_state is not h11.DONE or client.their_state is not h11.DONE:
            break
        client.start_next_cycle()
    return out
