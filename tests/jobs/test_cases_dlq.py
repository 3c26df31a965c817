"""DLQ: public bug reports about messages that can never succeed, retold for jobs, with their numbers."""

from __future__ import annotations

import pytest
import trio

from actors.errors import PoisonMessage
from actors.jobs import MemoryEngine, State
from supervision import RestartPolicy
from tests.jobs.kit import claim, put, states
from tests.jobs.tree import at_work, worker

ONE_BY_ONE = RestartPolicy(
    type="permanent", initial_backoff=1, factor=1, max_backoff=1, jitter=0, max_restarts=10
)


@pytest.fixture
def engine():
    return MemoryEngine("shop")


class Breaking:
    """A job worker whose whole run fails with a job that says so, before anything can be settled."""

    def __init__(self, engine, kills="m", **options):
        self.kills = kills
        self.handled = []
        self.starts = []
        self.broken = trio.Event()
        self.inner = worker(self.handle, engine, concurrency=1, **options)

    async def handle(self, job, ctx):
        name = job.variables["name"]
        self.handled.append((name, job.deliveries, trio.current_time()))
        if name == self.kills:
            self.broken.set()
            await trio.sleep_forever()

    async def __call__(self, ctx):
        self.starts.append(trio.current_time())
        self.broken = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.inner, ctx)
            await self.broken.wait()
            raise RuntimeError("the whole worker goes down")


async def test_b100_a_bad_job_is_bounded(autojump_clock, engine):
    """B100, elixir-broadway/broadway_rabbitmq#73: a job that always fails is tried five times and holds nobody up."""
    tries = []

    async def handler(job, ctx):
        tries.append((job.variables["name"], trio.current_time()))
        if job.variables["name"] == "m1":
            raise ValueError

    m1, *_ = await put(engine, "m1", "m2", "m3", retries=5)
    async with at_work(worker(handler, engine, concurrency=1)) as seen:
        await trio.sleep(60)
        info = await engine.find(m1)

    assert [time for name, time in tries if name == "m1"] == [0, 1, 2, 3, 4]
    assert [t for name, t in tries if name != "m1"] == [0, 0]
    assert (info.state, info.attempt) == (State.INCIDENT, 5)
    assert seen.times("JobIncident", job=m1) == [4]


async def test_b101_a_job_that_kills_its_worker(autojump_clock, engine):
    """B101, alanxz/rabbitmq-c#743: deliveries are counted before the handler begins, so a killer is set aside after three."""
    breaking = Breaking(engine, max_deliveries=3, poll=100)
    (m,) = await put(engine, "m", priority=1)
    await put(engine, "next")
    async with at_work(breaking, restart=ONE_BY_ONE) as seen:
        await trio.sleep(10)
        (poison,) = await engine.poison()

    assert breaking.handled == [("m", 1, 0), ("m", 2, 1), ("m", 3, 2), ("next", 1, 3)]
    assert breaking.starts == [0, 1, 2, 3]
    assert (poison.key, poison.deliveries, poison.at) == (m, 3, 3)
    assert seen.times("JobIncident", job=m, poison=True) == [3]


async def test_b102_set_aside_once(autojump_clock, engine, monkeypatch):
    """B102, apache/pulsar#4426: while a job is being set aside slowly, it is neither run nor set aside again."""
    runs, real = [], engine.exchange

    async def slow(settlements=(), asked=None):
        if settlements:
            await trio.sleep(1)
        found = await real(settlements, asked)
        if settlements:
            await trio.sleep(1)
        return found

    monkeypatch.setattr(engine, "exchange", slow)

    async def handler(job, ctx):
        runs.append(trio.current_time())
        raise PoisonMessage("never") if len(runs) == 3 else ValueError

    (key,) = await put(engine, "m", retries=9)
    async with at_work(worker(handler, engine)) as seen:
        await trio.sleep(60)

    assert len(runs) == 3
    assert [poison.key for poison in await engine.poison()] == [key]
    assert len(seen.times("JobIncident", job=key)) == 1


async def test_b105_a_worker_lost_in_the_last_attempt(autojump_clock, engine):
    """B105, NicolasLM/spinach#16: when the worker dies in the last delivery, the job ends on the same way as any other."""

    async def handler(job, ctx):
        raise AssertionError("it must not run")

    (key,) = await put(engine, "x")
    for _ in range(3):
        (job,) = await engine.activate(claim(lease=0.5, max_deliveries=3))
        await trio.sleep(0.5)
    await engine.extend([job.lease], 60)
    start = trio.current_time()
    async with at_work(worker(handler, engine, max_deliveries=3)) as seen:
        await trio.sleep(200)
        poison = await engine.poison()
        info = await engine.find(key)

    assert [(p.key, p.at - start) for p in poison] == [(key, 60)]
    assert "worker lost" in poison[0].reason
    assert info.state is State.INCIDENT
    assert [time - start for time in seen.times("JobIncident", job=key)] == [60]


@pytest.mark.parametrize("for_ever", [False, True])
async def test_b106_first_the_copy_then_the_original(autojump_clock, engine, monkeypatch, for_ever):
    """B106, yaalalabs/agent-kernel#630, getsentry/snuba#2437: a job leaves the queue only with its copy, and is ours until then."""
    real, tries = engine.exchange, []

    async def exchange(settlements=(), asked=None):
        if settlements and (for_ever or trio.current_time() < 5):
            tries.append(trio.current_time())
            await trio.lowlevel.checkpoint()
            raise OSError("down")
        return await real(settlements, asked)

    monkeypatch.setattr(engine, "exchange", exchange)

    async def handler(job, ctx):
        await trio.sleep(2)
        raise PoisonMessage("never")

    (key,) = await put(engine, "m")
    async with at_work(worker(handler, engine, timeout=30)) as seen:
        await trio.sleep(4)
        assert (await engine.find(key)).state is State.ACTIVE
        assert await engine.poison() == ()
        await trio.sleep(20)
        poison, info = await engine.poison(), await engine.find(key)
        assert len(seen.times("EngineFailing")) == 1
        assert seen.pool.health().ready is not for_ever
        assert bool(seen.pool.health().degraded) is for_ever
        monkeypatch.setattr(engine, "exchange", real)

    if for_ever:
        assert (poison, info.state) == ((), State.ACTIVE)
    else:
        assert ([p.key for p in poison], info.state) == ([key], State.INCIDENT)
        assert tries[0] == 2


async def test_b107_poison_before_the_restart_limit(autojump_clock, engine):
    """B107, kquick/Thespian#21, commanded/commanded#192: a killer is set aside before its restarts use up the limit."""
    breaking = Breaking(engine, kills="p", max_deliveries=3, poll=100)
    await put(engine, "p", priority=1)
    await put(engine, "m2")
    restart = RestartPolicy(
        type="permanent", initial_backoff=1, factor=1, max_backoff=1, jitter=0, max_restarts=5
    )
    async with at_work(breaking, restart=restart) as seen:
        await trio.sleep(30)
        assert seen.pool.info("shop/w0/0").restarts == 3
        assert await states(engine) == {"incident": 1, "completed": 1}

    assert breaking.handled[-1] == ("m2", 1, 3)


async def test_innocents_are_not_blamed(autojump_clock, engine):
    """A job that only waited while another brought the worker down is given back with its count as it was."""

    async def handler(job, ctx):
        raise SystemExit

    await put(engine, "m", priority=1)
    (key,) = await put(engine, "waits")
    spec = worker(handler, engine, concurrency=1, max_jobs_activated=2)
    with pytest.raises(SystemExit):
        async with at_work(spec):
            await trio.sleep_forever()

    info = await engine.find(key)
    assert (info.state, info.deliveries, info.attempt) == (State.READY, 0, 0)
