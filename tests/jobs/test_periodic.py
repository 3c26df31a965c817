"""Periodic jobs: one for each period, however many ask."""

from __future__ import annotations

from random import Random

import pytest
import trio

from actors.jobs import MemoryEngine, NewJob, Periodic
from actors.options import OptionError
from tests.jobs.kit import ENGINES, ON_POSTGRES, opened, states
from tests.jobs.tree import at_work, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


async def test_one_job_for_each_period(autojump_clock, engine):
    """Three nodes with one schedule enqueue one job for each period, at its beginning."""
    runs = []

    async def handler(job, ctx):
        runs.append(trio.current_time())

    def node():
        return Periodic("tick", NewJob("a"), every=60, offset=5, engine=engine, random=Random(1))

    async with at_work(node(), node(), node(), worker(handler, engine)):
        await trio.sleep(200)

    assert runs == [0, 5, 65, 125, 185]


async def test_missed_periods_are_not_made_up_for(autojump_clock, engine):
    """After nobody was there for a while, the present period has its job and those before have none."""
    job = Periodic("tick", NewJob("a"), every=60, engine=engine)
    async with at_work(job):
        await trio.sleep(30)
    await trio.sleep(600)
    async with at_work(job):
        await trio.sleep(1)

    assert await states(engine) == {"ready": 2}


async def test_an_engine_that_fails(autojump_clock, engine, monkeypatch):
    """A failing engine is asked again; the period has its job as soon as it works."""
    real = engine.fire

    async def fire(*args):
        if trio.current_time() < 10:
            await trio.lowlevel.checkpoint()
            raise OSError("down")
        return await real(*args)

    monkeypatch.setattr(engine, "fire", fire)
    spec = Periodic("tick", NewJob("a"), every=60, engine=engine, random=Random(1))
    async with at_work(spec) as seen:
        await trio.sleep(40)

    assert await states(engine) == {"ready": 1}
    assert len(seen.times("EngineFailing")) == len(seen.times("EngineRecovered")) == 1


async def test_a_stop_is_heard_at_once(autojump_clock, engine):
    """A stop does not wait for the next period."""
    async with at_work(Periodic("tick", NewJob("a"), every=86400, engine=engine)) as seen:
        await trio.sleep(1)
        await seen.pool.shutdown()
        assert trio.current_time() == 1


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"every": 1, "offset": -1}, {"every": 1, "evry": 1}]
)
def test_refused_at_the_door(engine, options):
    """A schedule that cannot be is refused where it is written."""
    with pytest.raises(OptionError):
        Periodic("tick", NewJob("a"), engine=engine, **options)


@pytest.mark.parametrize("kind", ENGINES)
async def test_another_period(kind, request, tmp_path, clock):
    """A schedule that is given another period, or whose clock was years ahead for a while, goes on at once, once a period."""
    if kind in ON_POSTGRES:
        request.getfixturevalue("server")
    clock.now, job = 1.7e9 + 7, NewJob("a")
    async with opened(kind, tmp_path, clock) as engine:
        for every, ahead in ((60, 0), (3600, 0), (60, 1e8), (61, 0), (86400, 0), (1, 0)):
            clock.pass_(ahead)
            await engine.fire("s", every, 0, job)
            clock.pass_(every - ahead)
            fired = []
            for _ in range(3):
                fired += [(await engine.fire("s", every, 0, job)).key for _ in range(2)]
                clock.pass_(every)
            assert [key is not None for key in fired] == [True, False] * 3


@pytest.mark.parametrize("kind", ENGINES)
async def test_periods_that_are_no_whole_seconds(kind, request, tmp_path, clock):
    """However a period is rounded, who waits for the next one waits for something, and then it has its job."""
    if kind in ON_POSTGRES:
        request.getfixturevalue("server")
    random = Random(7)
    async with opened(kind, tmp_path, clock) as engine:
        for n in range(100):
            every, offset = random.choice([0.1, 0.7, 1 / 3, 7.7]), random.choice([0, 0.1, 5.3])
            clock.now = random.randrange(1, 10**6) * every + offset
            fired = await engine.fire(f"{n}", every, offset, NewJob("a"))
            assert 0 < fired.next_in <= every * 1.001
            clock.pass_(fired.next_in)
            again = await engine.fire(f"{n}", every, offset, NewJob("a"))
            assert again.key is not None or again.next_in < 1e-6


async def test_ten_times_a_second(autojump_clock, engine):
    """A schedule of a tenth of a second has its jobs, and keeps no processor busy."""
    async with at_work(Periodic("tick", NewJob("a"), every=0.1, engine=engine)):
        await trio.sleep(100.05)

    assert (await states(engine))["ready"] == 1001


async def test_a_clock_set_back_a_little(clock):
    """A clock that is set back by less than a minute makes no period fire twice."""
    engine = MemoryEngine("shop", clock=clock)
    assert (await engine.fire("s", 5, 0, NewJob("a"))).key is not None
    for _ in range(50):
        clock.pass_(-1)
        assert (await engine.fire("s", 5, 0, NewJob("a"))).key is None


async def test_the_clock_is_set_while_a_schedule_waits(autojump_clock, clock):
    """A period that begins since the engine's clock was set, or went on while the machine slept, has its job in a minute."""
    engine = MemoryEngine("shop", clock=clock)

    async with at_work(Periodic("nightly", NewJob("a"), every=86400, engine=engine)):
        await trio.sleep(1)
        clock.pass_(86400)
        await trio.sleep(60)
        assert await states(engine) == {"ready": 2}
