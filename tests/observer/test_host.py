"""Where it lives: real addresses, and a tree that never suffers from being seen."""

from __future__ import annotations

import json
import logging
import socket
import stat
import sys
from functools import partial

import httpx
import pytest
import trio
import trio_websocket

from supervision import (
    AutoShutdown,
    MissingExtra,
    ObserverUnavailable,
    RestartPolicy,
    SpecError,
    Supervisor,
    TreeFailed,
    Worker,
    supervisor,
)
from supervision.observer import Observer
from supervision.observer.address import parse
from supervision.observer.site import Site
from tests.observer.kit import shop, watching

SECONDS = 20


def client(pool, n=0):
    """An HTTP client for one of its addresses."""
    where = pool.seen_at[n]
    if where.startswith("unix:"):
        transport = httpx.AsyncHTTPTransport(uds=where.removeprefix("unix:"))
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=SECONDS)
    return httpx.AsyncClient(base_url=where, timeout=SECONDS, trust_env=False)


async def test_a_free_port():
    """`:0` takes any free port of this machine, and the pool says which."""
    with trio.fail_after(SECONDS):
        async with supervisor.running(shop(), observer=":0", log=False) as pool:
            (where,) = pool.seen_at
            assert where.startswith("http://127.0.0.1:")
            async with client(pool) as http:
                assert (await http.get("/readyz")).text == "ok\n"
                assert (await http.get("/api/snapshot")).json()["tree"] == "shop"


async def test_a_unix_socket(tmp_path):
    """A unix socket is its user's alone, lets them act without a token, and is gone with the tree."""
    path = tmp_path / "shop.sock"
    options = Observer([":0", f"unix:{path}"], actions=True)
    assert not options.guarded
    with trio.fail_after(SECONDS):
        async with supervisor.running(shop(), observer=options, log=False) as pool:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            for n, status in ((0, 403), (1, 200)):
                async with client(pool, n) as http:
                    got = await http.post("/api/do", json={"verb": "restart", "path": "fetch"})
                    assert got.status_code == status
                    assert status == 200 or "served without a token" in got.json()["error"]
                    frame = (await http.get("/api/snapshot")).json()
                    assert (frame["actions"], frame["token"]) == (True, False)
    assert not path.exists()


async def test_what_a_dead_process_left(tmp_path):
    """A socket that nobody listens at is taken over; one in use, or another file, is left alone."""
    path = tmp_path / "shop.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with trio.fail_after(SECONDS):
        async with supervisor.running(shop(), observer=f"unix:{path}", log=False):
            with pytest.raises(ObserverUnavailable, match="it is in use"):
                await supervisor.serve(shop(), observer=f"unix:{path}")
            assert path.exists()
    path.write_text("mine")
    with pytest.raises(ObserverUnavailable, match="a file that is no socket"):
        await supervisor.serve(shop(), observer=f"unix:{path}")
    assert path.read_text() == "mine"


async def test_a_port_in_use():
    """An address that somebody has is one clear error, before anything of the tree has started."""
    started = []

    async def run(ctx):
        started.append(1)

    with socket.create_server(("127.0.0.1", 0)) as other:
        where = f"127.0.0.1:{other.getsockname()[1]}"
        tree = Supervisor("shop", [Worker("w", run)])
        with pytest.raises(ObserverUnavailable) as caught:
            await supervisor.serve(tree, observer=where)
        with pytest.raises(ObserverUnavailable):
            async with supervisor.running(tree, observer=where):
                pass

    assert str(caught.value) == (
        f"the observer cannot listen at {where}: it is in use, perhaps by an older process of this program."
        " The tree was not started; choose another address, or ':0' for any free port."
    )
    assert caught.value.address == where
    assert not started


async def test_a_missing_extra(monkeypatch):
    """Without its packages the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "trio_websocket", None)
    with pytest.raises(MissingExtra, match=r"pip install 'treewarden\[observer\]'"):
        await supervisor.serve(shop(), observer=":0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unix:",
        "nonsense",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:99999",
        "::1:80",
        ":x",
        "http://x:1/",
        8023,
        None,
    ],
)
def test_what_is_no_address(text):
    """What cannot be an address is refused with the forms that can."""
    with pytest.raises(SpecError, match=r"'unix:/run/app\.sock'"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "shown", "local"),
    [
        (":0", "127.0.0.1:0", True),
        (":8023", "127.0.0.1:8023", True),
        ("localhost:1", "localhost:1", True),
        ("[::1]:80", "[::1]:80", True),
        ("0.0.0.0:80", "0.0.0.0:80", False),
        ("[::]:80", "[::]:80", False),
        ("unix:/run/x", "unix:/run/x", True),
    ],
)
def test_what_an_address_means(text, shown, local):
    """Only an address that is written out is open to other machines."""
    assert (str(parse(text)), parse(text).local) == (shown, local)


@pytest.mark.parametrize("observer", [8023, object(), ["x"], [], Worker])
async def test_what_is_no_observer(observer):
    """What is given as an observer is checked before anything starts."""
    with pytest.raises(SpecError):
        await supervisor.serve(shop(), observer=observer)


async def test_an_open_address_without_a_token_is_warned_about(caplog):
    """Where other machines can connect and no token is set, the log says what is answered there."""
    with trio.fail_after(SECONDS):
        async with supervisor.running(shop(), observer="0.0.0.0:0", log=False) as pool:
            assert pool.seen_at[0].startswith("http://127.0.0.1:")
    assert "probes and /metrics only" in caplog.text


async def test_it_is_no_child_of_the_tree():
    """An observer counts nowhere: the tree ends with its last worker, and nobody sees it among the children."""

    async def done(ctx):
        await ctx.sleep(0.01)

    tree = Supervisor(
        "shop", [Worker("w", done)], auto_shutdown=AutoShutdown.ALL_DONE, strategy="one_for_all"
    )
    with trio.fail_after(SECONDS):
        async with supervisor.running(tree, observer=":0", log=False) as pool:
            assert pool.counts().active <= 1
            assert [info.path for info in pool.supervisors()] == ["shop"]
            await pool.wait_stopped()


async def test_probes_answer_while_it_starts_and_drains():
    """It is there before the first worker and after the last: not ready, alive, all the while."""
    going_on, working = trio.Event(), trio.Event()

    async def slow(ctx):
        with ctx.busy():
            await going_on.wait()
            ctx.started()
            working.set()
            while await ctx.sleep(60):
                pass
            await leaving.wait()

    leaving = trio.Event()
    tree = Supervisor("shop", [Worker("slow", slow, ready="signal", shutdown=SECONDS)])
    with trio.fail_after(SECONDS):
        async with (
            supervisor.running(
                tree, observer=":0", log=False, wait_ready=False, stop_timeout=SECONDS
            ) as pool,
            client(pool) as http,
        ):
            assert (await http.get("/startupz")).status_code == 503
            going_on.set()
            await working.wait()
            await pool.wait_ready()
            assert (await http.get("/readyz")).status_code == 200
            pool.request_stop()
            got = await http.get("/readyz")
            assert (got.status_code, got.text.splitlines()[0]) == (503, "tree is stopping")
            assert (await http.get("/livez")).status_code == 200
            leaving.set()
            await pool.wait_stopped()


async def test_open_viewers_are_told_the_end():
    """A tree that stops with viewers connected shows them its last state, and closes with 1001 at once."""
    with trio.fail_after(SECONDS):
        async with (
            supervisor.running(shop(), observer=":0", log=False) as pool,
            watching(pool.seen_at[0]) as ws,
        ):
            frames = [json.loads(await ws.get_message())]
            pool.request_stop()
            with pytest.raises(trio_websocket.ConnectionClosed) as closed:
                while True:
                    frames.append(json.loads(await ws.get_message()))
    assert closed.value.reason.code == 1001
    assert [frames[0]["mode"], frames[-1]["mode"]] == ["live", "stopped"]


async def test_a_tree_that_fails_is_shown_to_the_end():
    """The failure of the tree comes out of `serve` as ever, whoever looks."""

    async def fails(ctx):
        raise ValueError("no luck")

    tree = Supervisor(
        "shop", [Worker("w", fails, restart=RestartPolicy(max_restarts=1, initial_backoff=0))]
    )
    with trio.fail_after(SECONDS), pytest.raises(TreeFailed, match="no luck"):
        await supervisor.serve(tree, observer=":0", log=False)


async def test_its_own_failure_does_the_tree_no_harm(monkeypatch, caplog):
    """If serving fails it is started again at the same address, and the tree hears nothing of it."""
    run, failures = Site.run, []

    async def fails_once(self):
        if not failures:
            failures.append(1)
            raise RuntimeError("out of order")
        await run(self)

    monkeypatch.setattr(Site, "run", fails_once)
    with trio.fail_after(SECONDS):
        async with supervisor.running(shop(), observer=":0") as pool:
            async with client(pool) as http:
                while True:
                    try:
                        got = await http.get("/readyz")
                        break
                    except httpx.TransportError:
                        await trio.sleep(0.05)
            assert got.status_code == 200
            assert all(info.run == 1 for info in pool.workers())
    assert "observer/server/0 failed" in caplog.text


async def test_a_cancelled_tree_is_seen_to_its_end():
    """A cancellation from outside stops the tree in order first and the observer after it."""
    caught = []

    async def work(ctx):
        with ctx.busy():
            while await ctx.sleep(60):
                pass
            async with client(pools[0]) as http:
                caught.append((await http.get("/readyz")).status_code)

    pools = []
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            serve = partial(
                supervisor.serve, Supervisor("shop", [Worker("w", work)]), observer=":0", log=False
            )
            pools.append(await nursery.start(serve))
            await pools[0].wait_ready()
            nursery.cancel_scope.cancel()
    assert caught == [503]


async def test_the_log_says_where(caplog):
    """Where the tree can be seen is one line of the log."""
    caplog.set_level(logging.INFO, "supervision")
    with trio.fail_after(SECONDS):
        async with supervisor.running(shop(), observer=":0", log=False) as pool:
            assert f"shop can be seen at {pool.seen_at[0]}" in caplog.text
