"""A job worker that cannot do its work says so, for as long as that lasts, and health follows."""

from __future__ import annotations

import pytest
import trio

from actors.jobs import MemoryEngine, NewJob, Periodic
from tests.jobs.kit import put
from tests.jobs.tree import at_work, one, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


async def nothing(job, ctx):
    """A handler that has nothing to do."""


def breaking(monkeypatch, engine, call, how="fails"):
    """Break one call of the engine while the returned list is empty of True."""
    broken = [False]
    real = getattr(engine, call)

    async def instead(*args):
        while broken[0]:
            await trio.lowlevel.checkpoint()
            if how == "fails":
                raise OSError("no route to the database")
            if how == "hangs":
                await trio.sleep_forever()
            with trio.CancelScope(shield=True):  # deaf: as a thread that nothing can interrupt
                await trio.sleep(1)
        return await real(*args)

    monkeypatch.setattr(engine, call, instead)
    return broken


@pytest.mark.parametrize("how", ["fails", "hangs", "is deaf"])
async def test_an_engine_that_stays_away(autojump_clock, engine, monkeypatch, how):
    """B132, dexidp/dex#4985: an engine that keeps failing, or does not answer, makes its worker unready until it works again."""
    broken = breaking(monkeypatch, engine, "exchange", how)
    async with at_work(worker(nothing, engine, claim_timeout=5)) as seen:
        await trio.sleep(20)
        assert str(seen.pool.health()) == "ok"
        broken[0] = True
        await trio.sleep(12)
        health, info = seen.pool.health(), seen.pool.info("w0")
        await trio.sleep(1000)
        assert not seen.pool.health().ready
        broken[0] = False
        await trio.sleep(10)
        assert str(seen.pool.health()) == "ok"

    assert (health.live, health.ready, health.waiting_for) == (True, False, ("shop/w0/0",))
    (sentence,) = health.degraded
    assert sentence.startswith("worker w0 (replica 0) degraded: engine shop ")
    assert info.degraded[0] in sentence
    assert len(seen.times("EngineFailing")) == len(seen.times("EngineRecovered")) == 1
    assert len(seen.times("RunDegraded")) == len(seen.times("RunRestored")) == 1


async def test_a_hiccup_is_no_illness(autojump_clock, engine, monkeypatch):
    """An engine that fails for less than a call may take is reported, and nobody becomes unready."""
    broken = breaking(monkeypatch, engine, "exchange")
    async with at_work(worker(nothing, engine, claim_timeout=5)) as seen:
        await trio.sleep(3)
        broken[0] = True
        for _ in range(30):
            await trio.sleep(0.1)
            assert seen.pool.health().ready
        broken[0] = False
        await trio.sleep(10)

    assert len(seen.times("EngineFailing")) == len(seen.times("EngineRecovered")) == 1
    assert "RunDegraded" not in seen.kinds()


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_leases_that_cannot_be_renewed(autojump_clock, engine, monkeypatch, how):
    """Renewals that fail or hang are one fault, told once however many jobs are taken meanwhile, and show in health."""
    broken = breaking(monkeypatch, engine, "extend", how)

    async def handler(job, ctx):
        await trio.sleep(25)

    async with at_work(worker(handler, engine, timeout=30)) as seen:
        broken[0] = True
        await put(engine, *"abcdefgh")
        await trio.sleep(24)
        assert not seen.pool.health().ready
        broken[0] = False
        await trio.sleep(30)
        assert seen.pool.health().ready

    assert len(seen.times("EngineFailing")) == len(seen.times("EngineRecovered")) == 1
    assert seen.outcomes() == ["completed"] * 8


async def test_handlers_that_hear_nothing(autojump_clock, engine):
    """riverqueue/river#1258: when all places are held by handlers deaf to their cancellation, the worker is unready; they come back."""

    async def handler(job, ctx):
        if job.variables["name"] != "c":
            with trio.CancelScope(shield=True):
                await trio.sleep(100)

    spec = worker(handler, engine, concurrency=2, timeout=10, renew=False, claim_timeout=5)
    async with at_work(spec) as seen:
        keys = await put(engine, *"abc")
        await trio.sleep(9)
        assert seen.pool.health().ready
        await trio.sleep(12)
        (sentence,) = seen.pool.health().degraded
        assert "all 2 places are held" in sentence
        await trio.sleep(200)
        assert str(seen.pool.health()) == "ok"
        infos = [await engine.find(key) for key in keys]

    assert {info.state for info in infos} == {"completed"}


async def test_a_schedule_whose_engine_stays_away(autojump_clock, engine, monkeypatch):
    """A schedule whose engine keeps failing or hangs is unready, and has its job when the engine works again."""
    for how in ("fails", "hangs"):
        with monkeypatch.context() as patch:
            broken = breaking(patch, engine, "fire", how)
            broken[0] = True
            async with at_work(Periodic(how, NewJob("a"), every=3600, engine=engine)) as seen:
                await trio.sleep(30)
                assert not seen.pool.health().ready
                broken[0] = False
                await trio.sleep(60)
                assert seen.pool.health().ready

    assert (await engine.statistics()).jobs["a"] == {"ready": 2}


async def test_b127_health_follows_work(autojump_clock, engine):
    """B127, onyx-dot-app/onyx#12274: a long job is no illness, nor is an empty queue; a worker that takes nothing more is."""

    async def handler(job, ctx):
        await trio.sleep(500)

    async with at_work(worker(handler, engine, concurrency=1), watchdog=60) as seen:
        await trio.sleep(100)  # nothing to do
        assert seen.pool.health().ready
        await put(engine, *"abcdefghij")
        for _ in range(50):
            await trio.sleep(10)
            assert seen.pool.health().ready

    assert "Failed" not in seen.kinds()


async def test_b127_a_worker_that_takes_nothing_more(autojump_clock, engine, monkeypatch):
    """B127, onyx-dot-app/onyx#12274: with ten jobs waiting and an engine call that never ends, a probe says so within seconds."""
    broken = breaking(monkeypatch, engine, "exchange", "is deaf")
    async with at_work(worker(nothing, engine, claim_timeout=5)) as seen:
        await trio.sleep(10)
        broken[0] = True
        for _ in range(10):
            await one(engine)
        await trio.sleep(11)
        assert not seen.pool.health().ready
        broken[0] = False
        await trio.sleep(11)
        assert seen.pool.health().ready

    assert seen.outcomes() == ["completed"] * 10
