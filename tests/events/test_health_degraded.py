"""Health of what runs and cannot work: it says so itself, and health believes it."""

from __future__ import annotations

import trio

from actors.resilience import degrade
from supervision import RestartPolicy, Supervisor, Worker, supervisor


def running(*children, seen):
    return supervisor.running(Supervisor("app", children), log=False, listeners=[seen.append])


async def forever(ctx):
    """A worker that does nothing."""
    await trio.sleep_forever()


async def test_a_worker_that_cannot_work(autojump_clock):
    """A run that says it is degraded is live and not ready, with its reason, until it says that this is over."""
    seen = []

    async def feed(ctx):
        ctx.restored("feed")  # nothing was wrong: nothing happens
        await ctx.sleep(10)
        ctx.degraded("feed", "no route to the exchange")
        ctx.degraded("feed", "the exchange is closed")
        ctx.degraded("clock", "it is late")
        await ctx.sleep(10)
        ctx.restored("feed")
        await ctx.sleep(10)
        ctx.restored("clock")
        await ctx.sleep(1000)

    async with running(Worker("feed", feed), Worker("other", forever), seen=seen) as pool:
        await trio.sleep(5)
        assert (str(pool.health()), pool.info("feed").degraded) == ("ok", ())
        await trio.sleep(10)
        both = pool.health()
        assert pool.info("feed").degraded == ("the exchange is closed", "it is late")
        await trio.sleep(10)
        half = pool.health()
        await trio.sleep(10)
        assert str(pool.health()) == "ok"

    assert (both.live, both.ready, both.waiting_for) == (True, False, ("app/feed/0",))
    assert both.degraded == (
        "worker feed (replica 0) degraded: the exchange is closed; it is late",
    )
    assert str(both) == (
        "not ready: app/feed/0 (worker feed (replica 0) degraded: the exchange is closed; it is late)"
    )
    assert half.degraded == ("worker feed (replica 0) degraded: it is late",)
    told = [(e.time, e.kind, e.what) for e in seen if e.kind in ("RunDegraded", "RunRestored")]
    assert told == [
        (10, "RunDegraded", "feed"),
        (10, "RunDegraded", "clock"),
        (20, "RunRestored", "feed"),
        (30, "RunRestored", "clock"),
    ]


async def test_a_new_run_begins_well(autojump_clock):
    """What was wrong with one run is not held against the next."""

    async def once(ctx):
        if ctx.run == 1:
            ctx.degraded("it", "broken")
            await ctx.sleep(5)
            raise ValueError
        await ctx.sleep(1000)

    policy = RestartPolicy(initial_backoff=1, jitter=0)
    async with running(Worker("w", once, restart=policy), seen=[]) as pool:
        await trio.sleep(1)
        assert pool.health().degraded
        await trio.sleep(4.5)
        assert (pool.health().degraded, pool.health().ready) == ((), False)
        await trio.sleep(1)
        assert str(pool.health()) == "ok"


async def test_a_feature_that_is_missing(autojump_clock):
    """A feature that a tree has to do without is shown, and makes nothing unready."""
    works = False

    async def call():
        if not works:
            raise ConnectionError

    async def worker(ctx):
        while await ctx.sleep(5):
            with degrade("tips"):
                await call()

    async with running(Worker("w", worker), seen=[]) as pool:
        await trio.sleep(6)
        health = pool.health()
        works = True
        await trio.sleep(5)
        assert pool.health().degraded == ()

    assert (health.ready, health.degraded) == (True, ("feature tips degraded",))
    assert str(health) == "feature tips degraded"
