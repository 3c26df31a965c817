"""A job worker whose engine fails or hangs: nothing is lost, all is reported once, and a stop still ends."""

from __future__ import annotations

import pytest
import trio

from actors.jobs import MemoryEngine, State
from tests.jobs.tree import at_work, one, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


async def nothing(job, ctx):
    """A handler that has nothing to do."""


async def test_an_engine_that_fails(autojump_clock, engine, monkeypatch):
    """A failing engine is asked again and again, reported once, and no outcome is lost."""
    down = False
    real = engine.exchange

    async def exchange(*args):
        if down:
            await trio.lowlevel.checkpoint()
            raise OSError("no route to the database")
        return await real(*args)

    monkeypatch.setattr(engine, "exchange", exchange)

    async def handler(job, ctx):
        await trio.sleep(1)

    async with at_work(worker(handler, engine)) as seen:
        key = await one(engine)
        await trio.sleep(0.4)
        down = True
        await trio.sleep(20)
        down = False
        await trio.sleep(10)
        info = await engine.find(key)

    assert info.state is State.COMPLETED
    assert len(seen.times("EngineFailing")) == len(seen.times("EngineRecovered")) == 1
    assert seen.outcomes() == ["completed"]


async def test_an_engine_that_hangs(autojump_clock, engine, monkeypatch):
    """An exchange that does not return is given up after its own timeout, and a stop does not wait for ever."""

    async def hang(*args):
        await trio.sleep_forever()

    async with at_work(worker(nothing, engine, claim_timeout=5)) as seen:
        monkeypatch.setattr(engine, "exchange", hang)
        await trio.sleep(20)
        assert len(seen.times("EngineFailing")) == 1
        start = trio.current_time()
        await seen.pool.shutdown()

    assert trio.current_time() - start <= 5


async def test_an_engine_that_hangs_with_a_job_in_hand(autojump_clock, engine, monkeypatch):
    """When the engine hangs at the stop deadline, the exchange under way may end, giving back is tried for two more seconds, and that is all."""

    async def handler(job, ctx):
        await trio.sleep_forever()

    async def hang(*args):
        await trio.sleep_forever()

    key = await one(engine)
    async with at_work(worker(handler, engine, grace=1, claim_timeout=5), shutdown=10) as seen:
        await trio.sleep(1)
        monkeypatch.setattr(engine, "exchange", hang)
        await seen.pool.shutdown()
        assert 11 < trio.current_time() <= 11 + 5 + 2

    assert (await engine.find(key)).state is State.ACTIVE


async def test_leases_that_cannot_be_renewed(autojump_clock, engine, monkeypatch):
    """A handler whose lease cannot be renewed is cancelled when the lease is over, since somebody else may begin."""
    ended = []

    async def handler(job, ctx):
        try:
            await trio.sleep(1000)
        finally:
            ended.append(trio.current_time())

    async def fail(*args):
        await trio.lowlevel.checkpoint()
        raise OSError("down")

    async with at_work(worker(handler, engine, timeout=30)) as seen:
        await one(engine)
        await trio.sleep(15)
        monkeypatch.setattr(engine, "extend", fail)
        await trio.sleep(100)

    assert ended[0] == 40  # renewed once, at 10
    assert len(seen.times("EngineFailing")) >= 1
    assert seen.times("LeaseGone")[0] == 40


async def test_one_beat_may_be_missed(autojump_clock, engine, monkeypatch):
    """janbjorge/pgqueuer#430: one renewal that fails does not lose the lease."""
    real, beats = engine.extend, []

    async def sometimes(leases, seconds):
        beats.append(trio.current_time())
        if len(beats) % 2:
            await trio.lowlevel.checkpoint()
            raise OSError("a hiccup")
        return await real(leases, seconds)

    monkeypatch.setattr(engine, "extend", sometimes)

    async def handler(job, ctx):
        await trio.sleep(200)

    async with at_work(worker(handler, engine, timeout=30)) as seen:
        key = await one(engine)
        await trio.sleep(300)
        info = await engine.find(key)

    assert (info.state, info.deliveries) == (State.COMPLETED, 1)
    assert seen.outcomes() == ["completed"]
