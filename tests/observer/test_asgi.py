"""ASGI: the same answers inside another server."""

from __future__ import annotations

import json
from functools import partial

import httpx
import pytest
import trio
import trio_websocket

from supervision import supervisor
from supervision.observer import Observer, asgi_app
from tests.observer.kit import TOKEN, shop, watching

SECONDS = 20


@pytest.fixture
def hypercorn():
    """A real ASGI server that runs under Trio."""
    trio_side = pytest.importorskip("hypercorn.trio")
    from hypercorn.config import Config

    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.graceful_timeout = 1
    return partial(trio_side.serve, config=config)


async def test_in_process(autojump_clock):
    """Probes, metrics and the API answer as at an address of their own, also below a path."""
    async with supervisor.running(shop(), log=False) as pool:
        app = asgi_app(pool)
        for root in ("", "/tree"):
            transport = httpx.ASGITransport(app, root_path=root)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                assert (await http.get(f"{root}/readyz")).text == "ok\n"
                assert "supervision_replicas" in (await http.get(f"{root}/metrics")).text
                assert (await http.get(f"{root}/api/snapshot")).json()["tree"] == "shop"
                assert (await http.get(f"{root}/nothing")).status_code == 404
                assert (await http.post(f"{root}/api/do", json={})).status_code == 403


async def test_the_page_finds_its_files_below_a_path(autojump_clock):
    """Where the app is mounted, the page's files are its neighbours: without the last slash they would not be."""
    async with supervisor.running(shop(), log=False) as pool:
        transport = httpx.ASGITransport(asgi_app(pool), root_path="/tree")
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            page = await http.get("/tree", follow_redirects=True)
            assert page.url.path == "/tree/"
            assert (await http.get(page.url.join("page.js"))).status_code == 200


async def test_acting_needs_the_token(autojump_clock):
    """Mounted in another server, acting needs the token, and reading from another machine too."""
    async with supervisor.running(shop(), log=False) as pool:
        app = asgi_app(pool, Observer(actions=True, token=TOKEN))
        stop = {"verb": "stop", "path": "fetch"}
        for client, token, read, act in (
            ("127.0.0.1", "", 200, 403),
            ("192.0.2.1", "", 403, 403),
            ("192.0.2.1", TOKEN, 200, 200),
        ):
            transport = httpx.ASGITransport(app, client=(client, 1))
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers
            ) as http:
                assert (await http.get("/api/snapshot")).status_code == read
                assert (await http.post("/api/do", json=stop)).status_code == act


async def test_in_a_real_server(hypercorn):
    """Under Hypercorn probes and viewers are served, and viewers closed with 1001 at the end."""
    ended = trio.Event()
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            async with supervisor.running(shop(), log=False) as pool:
                (url,) = await nursery.start(
                    partial(hypercorn, asgi_app(pool), shutdown_trigger=ended.wait)
                )
                async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
                    assert (await http.get("/livez")).text == "ok\n"
                async with watching(url) as one, watching(url) as two:
                    for ws in (one, two):
                        assert json.loads(await ws.get_message())["tree"] == "shop"
                    await one.aclose()  # whoever came first may have kept the clock going for both
                    assert json.loads(await two.get_message())["mode"] == "live"
                    pool.request_stop()
                    with pytest.raises(trio_websocket.ConnectionClosed) as closed:
                        while True:
                            last = json.loads(await two.get_message())
                    assert closed.value.reason.code == 1001
                    assert last["mode"] == "stopped"
            ended.set()


async def told(app, scope, *events):
    """What `app` sends for these events."""
    sent, coming = [], iter(events)

    async def receive():
        return next(coming)

    async def send(event):
        sent.append(event)

    await app(
        {
            "headers": [(b"host", b"localhost")],
            "query_string": b"",
            "client": ("127.0.0.1", 1),
            **scope,
        },
        receive,
        send,
    )
    return sent


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/ws", [(b"host", b"localhost"), (b"origin", b"https://evil.example")]),
        ("/ws", [(b"host", b"evil")]),
        ("/x", []),
    ],
)
async def test_no_socket_across_sites(autojump_clock, path, headers):
    """A foreign page's WebSocket is closed before it is accepted."""
    async with supervisor.running(shop(), log=False) as pool:
        scope = {"type": "websocket", "path": path, "headers": headers}
        (only,) = await told(asgi_app(pool), scope, {"type": "websocket.connect"})
    assert only["type"] == "websocket.close"


async def test_a_body_has_a_bound(autojump_clock):
    """A body that is too large is refused before it is all taken; a client that leaves meanwhile is no error."""
    async with supervisor.running(shop(), log=False) as pool:
        scope = {"type": "http", "method": "POST", "path": "/api/do"}
        part = {"type": "http.request", "body": b"x" * 40_000, "more_body": True}
        start, _ = await told(asgi_app(pool), scope, part, part)
        assert start["status"] == 413
        assert await told(asgi_app(pool), scope, part, {"type": "http.disconnect"}) == []


async def test_the_lifespan_is_answered(autojump_clock):
    """Start-up and shutdown of the server are confirmed, so that the app can stand alone."""
    sent = []
    ours, theirs = trio.open_memory_channel(2)
    async with supervisor.running(shop(), log=False) as pool:
        for kind in ("lifespan.startup", "lifespan.shutdown"):
            await ours.send({"type": kind})

        async def send(event):
            sent.append(event["type"])

        await asgi_app(pool)({"type": "lifespan"}, theirs.receive, send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
