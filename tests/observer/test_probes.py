"""Probes: what machines ask, and what people read there."""

from __future__ import annotations

import pytest
import trio

from actors.resilience import BreakerPolicy, Dependency
from supervision import Health, RestartPolicy, Supervisor, Worker
from supervision.observer import Observer, probes
from tests.observer.kit import PUBLIC, get, seen, shop

FINE = Health(live=True, ready=True, started=True)


async def fails(ctx):
    raise ValueError("no luck")


async def test_all_is_well(autojump_clock):
    """A tree that runs answers ok to all three."""
    async with seen() as server:
        for path in ("/livez", "/readyz", "/startupz"):
            assert await get(server, path) == (200, "ok\n")


async def test_verbose_lists_every_check(autojump_clock):
    """A person gets a line for each check, the failing ones marked."""
    held = Worker(
        "bad", fails, restart=RestartPolicy(max_restarts=1, initial_backoff=0), on_failed="hold"
    )
    async with seen(shop(held)) as server:
        await trio.testing.wait_all_tasks_blocked()
        status, text = await get(server, "/readyz?verbose")
        assert status == 503
        assert "[+]shop/fetch/1 ok\n" in text
        assert "[-]shop/bad/0 is failed\n" in text

        status, text = await get(server, "/livez")
        assert status == 503
        assert "worker bad (replica 0) failed: no luck" in text


async def test_a_failing_probe_names_what_fails(autojump_clock):
    """Without verbose, only what is not well is named."""
    async with seen(shop(Worker("slow", fails))) as server:
        await trio.testing.wait_all_tasks_blocked()
        status, text = await get(server, "/readyz")

    assert status == 503
    assert text == "tree is not ready\nshop/slow/0 is restarting\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [("shop/fetch", 200), ("fetch", 200), ("shop/fetch/1", 200), ("bad", 503), ("nobody", 404)],
)
async def test_one_child_can_be_asked_for(autojump_clock, path, status):
    """`/readyz/PATH` is about one worker, one replica, or one supervisor."""
    async with seen(shop(Worker("bad", fails))) as server:
        await trio.testing.wait_all_tasks_blocked()
        assert (await get(server, f"/readyz/{path}"))[0] == status


async def test_ready_turns_false_first(autojump_clock):
    """From the request to stop on it is not ready, alive while it drains, and started for ever."""

    async def busy(ctx):
        with ctx.busy():
            await trio.sleep(5)
            await ctx.sleep(60)

    async with seen(shop(Worker("busy", busy, shutdown=9))) as server:
        server.site.pool.request_stop()
        assert (await get(server, "/readyz"))[1].startswith("tree is stopping\n")
        assert (await get(server, "/livez"))[0] == 200
        assert (await get(server, "/startupz"))[0] == 200
        await server.site.pool.wait_stopped()
        assert (await get(server, "/readyz"))[0] == 503
        assert (await get(server, "/startupz"))[0] == 200


async def test_started_waits_for_the_first_start(autojump_clock):
    """Until the first start is complete the start-up probe is red, and then green for ever."""

    async def slow(ctx):
        await trio.sleep(3)
        ctx.started()
        await trio.sleep(1)
        raise ValueError("later")

    tree = Supervisor("shop", [Worker("slow", slow, ready="signal")])
    async with seen(tree, wait_ready=False) as server:
        assert (await get(server, "/startupz"))[0] == 503
        await trio.sleep(3.5)
        assert (await get(server, "/startupz"))[0] == 200
        await trio.sleep(1)
        assert (await get(server, "/readyz"))[0] == 503
        assert (await get(server, "/startupz"))[0] == 200


async def test_liveness_depends_on_no_dependency(autojump_clock):
    """An open breaker of a required dependency makes it not ready, and leaves it alive."""
    stripe = Dependency("stripe", timeout=1, breaker=BreakerPolicy(failures=1, open_for=30))

    async def pays(ctx):
        try:
            await stripe.call(fails, None)
        except ValueError:
            await ctx.sleep(1000)

    tree = shop(Worker("pays", pays))
    async with seen(tree, Observer(required=["stripe", "unused"])) as server:
        await trio.testing.wait_all_tasks_blocked()
        assert await get(server, "/readyz") == (503, "breaker/stripe is open\n")
        assert (await get(server, "/livez"))[0] == 200
        await trio.sleep(31)
        assert (await get(server, "/readyz"))[0] == 200


async def test_a_breaker_that_is_not_required_says_nothing(autojump_clock):
    """Readiness depends only on the dependencies that are named."""
    stripe = Dependency("stripe", timeout=1, breaker=BreakerPolicy(failures=1, open_for=30))

    async def pays(ctx):
        try:
            await stripe.call(fails, None)
        except ValueError:
            await ctx.sleep(1000)

    async with seen(shop(Worker("pays", pays))) as server:
        await trio.testing.wait_all_tasks_blocked()
        assert (await get(server, "/readyz"))[0] == 200


async def test_probes_are_open_to_machines(autojump_clock):
    """Whoever can connect may ask the probes and the metrics, under any name, without a token."""
    async with seen(options=Observer("0.0.0.0:0", token="secret token")) as server:
        for path in ("/livez", "/readyz", "/startupz", "/readyz/fetch", "/metrics"):
            assert (await get(server, path, peer=PUBLIC, host="pod.cluster"))[0] == 200
        assert (await get(server, "/api/snapshot", peer=PUBLIC, host="192.0.2.1"))[0] == 403


def test_a_long_list_is_cut():
    """A tree of thousands that is not ready says so in a text of bounded length."""
    members = [(f"shop/w/{n}", False, "is restarting") for n in range(5000)]
    checks = probes.readyz(FINE, members, stopping=False)

    text = probes.answer(checks, verbose=False).body.decode()
    assert len(text.splitlines()) == 51
    assert text.endswith("and 4950 more\n")
    assert len(probes.answer(checks, verbose=True).body.splitlines()) == 5001


def test_a_stuck_loop_is_named():
    """Liveness fails with the place at which the event loop stands still."""
    checks = probes.livez(FINE, "the event loop has not turned for 7 s: work (shop.py:3)")

    answer = probes.answer(checks, verbose=False)
    assert answer.status == 503
    assert b"shop.py:3" in answer.body


async def test_an_error_that_is_no_text_can_be_read(autojump_clock):
    """Half a character in an error, as of a file's name in another encoding, is shown escaped; the probe still answers."""

    async def lost(ctx):
        raise OSError("no file caf\udce9")

    once = RestartPolicy(max_restarts=1, initial_backoff=0)
    async with seen(shop(Worker("bad", lost, restart=once, on_failed="hold"))) as server:
        await trio.testing.wait_all_tasks_blocked()
        status, text = await get(server, "/livez")

    assert status == 503
    assert r"failed: no file caf\udce9" in text
