"""LEASE: public bug reports about leases, retold, with their numbers."""

from __future__ import annotations

from random import Random

import pytest
import trio

from actors.jobs import MemoryEngine, State
from tests.jobs.kit import DONE, claim, put, states
from tests.jobs.tree import at_work, one, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


def counted(monkeypatch, engine):
    """Note when leases were renewed."""
    times, real = [], engine.extend

    async def extend(leases, seconds):
        times.append(trio.current_time())
        return await real(leases, seconds)

    monkeypatch.setattr(engine, "extend", extend)
    return times


async def test_b112_a_living_handler_keeps_its_lease(autojump_clock, engine, monkeypatch):
    """B112, pretix/pretix#2058, celery/celery#5935: a handler of 230 s under a lease of 60 is delivered once, renewed 11 times."""
    renewals, runs = counted(monkeypatch, engine), []

    async def handler(job, ctx):
        runs.append(job.deliveries)
        await trio.sleep(230)

    async with at_work(worker(handler, engine), worker(handler, engine)) as seen:
        key = await one(engine)
        await trio.sleep(300)
        info = await engine.find(key)

    assert runs == [1]
    assert renewals == [20.0 * n for n in range(1, 12)]
    assert (info.state, seen.times("JobSettled", job=key)) == (State.COMPLETED, [230])


async def test_b115_the_same_job_again(autojump_clock, engine):
    """B115, camunda-community-hub/pyzeebe#212: a job delivered again to the worker at it is one warning, and runs once."""
    runs = []

    async def handler(job, ctx):
        runs.append((job.variables["name"], trio.current_time()))
        if job.variables["name"] == "7":
            await trio.sleep(30)

    async with at_work(worker(handler, engine)) as seen:
        (seven,) = await put(engine, "7")
        await trio.sleep(10)
        # Its lease is lost in the store, unseen by the worker: it is handed out again, to the same worker.
        await engine.run(lambda db: db.execute("UPDATE jobs SET lease_until = 0"))
        engine.wake("a")
        await trio.sleep(1)
        (eight,) = await put(engine, "8")
        await trio.sleep(30)
        infos = [await engine.find(key) for key in (seven, eight)]

    assert runs == [("7", 0), ("8", 11)]
    assert seen.times("JobDuplicate", job=seven) == [10]
    assert [info.state for info in infos] == [State.COMPLETED] * 2
    assert sorted(seen.outcomes()) == ["completed", "completed"]
    assert "Failed" not in seen.kinds()


async def test_b115_again_without_renewal(autojump_clock, engine):
    """B115 without renewal: the run whose lease is over is cancelled, and only then the newer claim has its turn."""
    running, runs = [], []

    async def handler(job, ctx):
        runs.append(trio.current_time())
        running.append(job.key)
        assert len(running) == 1
        try:
            await trio.sleep(30 if len(runs) == 1 else 1)
        finally:
            running.remove(job.key)

    async with at_work(worker(handler, engine, renew=False)) as seen:
        key = await one(engine)
        await trio.sleep(10)
        await engine.run(lambda db: db.execute("UPDATE jobs SET lease_until = 0"))
        engine.wake("a")
        await trio.sleep(30)
        info = await engine.find(key)

    assert (runs, info.state) == ([0, 10], State.COMPLETED)
    assert seen.outcomes() == ["superseded", "completed"]


async def test_b116_signs_of_life_end_last(autojump_clock, engine, monkeypatch):
    """B116, procrastinate-org/procrastinate#1585, kagkarlsson/db-scheduler#368: leases are renewed until the last job is done."""
    renewals, runs, began = counted(monkeypatch, engine), [], trio.Event()

    async def handler(job, ctx):
        runs.append(trio.current_time())
        began.set()
        await trio.sleep(100)

    first = worker(handler, engine, timeout=30, grace=120)
    async with at_work(first, shutdown=200) as seen:
        key = await one(engine)
        await began.wait()
        other = Reaper(engine)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.reap)
            await seen.pool.shutdown()
            nursery.cancel_scope.cancel()
        info = await engine.find(key)

    assert len(runs) == 1
    assert renewals[:9] == [
        10.0 * n for n in range(1, 10)
    ]  # the tenth falls into the instant of the end
    assert other.found == 0
    assert (info.state, seen.times("JobSettled", job=key)) == (State.COMPLETED, [100])


class Reaper:
    """Another worker that asks for jobs every 5 s."""

    def __init__(self, engine):
        self.engine = engine
        self.found = 0

    async def reap(self):
        while True:
            self.found += len(await self.engine.activate(claim(by="reaper")))
            await trio.sleep(5)


async def test_b117_interrupted_jobs_are_available(autojump_clock, engine):
    """B117, janbjorge/pgqueuer#630, janbjorge/pgqueuer#475: what a stop cancels is available at once, attempts unchanged."""
    runs = []

    async def handler(job, ctx):
        runs.append((job.variables["name"], job.attempt, trio.current_time()))
        await trio.sleep(100)

    await engine.limit("a", 2)
    keys = await put(engine, "x", "y")
    async with at_work(worker(handler, engine, grace=5)) as seen:
        await trio.sleep(0.001)
        base = trio.current_time()
        await seen.pool.shutdown()
        stopped = trio.current_time()
    between = await states(engine)
    attempts = [(await engine.find(key)).attempt for key in keys]
    await trio.sleep(1)
    async with at_work(worker(handler, engine, grace=1)):
        await trio.sleep(0.001)
        again = [(name, attempt) for name, attempt, _ in runs[2:]]

    assert stopped - base == pytest.approx(5)
    assert (between, attempts) == ({"ready": 2}, [0, 0])
    assert sorted(again) == [("x", 1), ("y", 1)]
    assert seen.outcomes() == ["interrupted", "interrupted"]


async def test_b118_a_name_is_not_an_identity(autojump_clock, engine):
    """B118, oban-bg/oban#862: a new worker of the same name does not keep the old one's lease alive."""
    key = await one(engine)
    (old,) = await engine.activate(claim(by="w1", lease=60))
    await trio.sleep(6)
    runs = []

    async def handler(job, ctx):
        runs.append(trio.current_time())

    async with at_work(worker(handler, engine, timeout=30, poll=100)):
        await trio.sleep(94)
        info = await engine.find(key)

    assert runs == [60]
    assert info.state is State.COMPLETED
    assert not await engine.settle(old.lease, DONE)


async def test_each_run_of_a_worker_has_its_own_name(autojump_clock, engine):
    """Leases carry the path of the worker, its run, and a number that no other start of it has."""
    names = []

    async def handler(job, ctx):
        names.append(job.worker)

    for _ in range(2):
        async with at_work(worker(handler, engine, random=Random())):
            await one(engine)
            await trio.sleep(1)

    assert len(set(names)) == 2
    assert all(name.startswith("shop/w0/0#1.") for name in names)


async def test_camunda_2979_an_answer_that_is_lost(autojump_clock, engine):
    """camunda/camunda#2979, camunda/camunda#8759: jobs whose claim was answered to nobody come again when the lease is over."""
    runs = []

    async def handler(job, ctx):
        runs.append((trio.current_time(), job.deliveries))

    await one(engine)
    await engine.activate(claim(lease=30))  # and the answer never arrives
    async with at_work(worker(handler, engine, poll=100)):
        await trio.sleep(100)

    assert runs == [(30, 2)]


async def test_camunda_57335_a_late_completion(engine, autojump_clock):
    """camunda/camunda#57335: a late completion counts if nobody has claimed the job since, and otherwise is refused."""
    await put(engine, "x", "y")
    x, y = await engine.activate(claim(lease=10))
    await trio.sleep(20)
    assert await engine.settle(x.lease, DONE)
    (again,) = await engine.activate(claim(by="w2"))
    assert again.key == y.key
    assert not await engine.settle(y.lease, DONE)
    assert await engine.settle(again.lease, DONE)


async def test_a_claim_is_never_lost_to_a_cancellation(autojump_clock, engine, monkeypatch):
    """A stop during a claim lets it end and gives back what it brought, with retries and attempts as they were."""
    real, handled = engine.exchange, []

    async def slow(settlements=(), asked=None):
        found = await real(settlements, asked)
        await trio.sleep(2)
        return found

    async def handler(job, ctx):
        handled.append(job.key)

    key = await one(engine)
    monkeypatch.setattr(engine, "exchange", slow)
    async with at_work(worker(handler, engine)) as seen:
        await trio.sleep(1)
        await seen.pool.shutdown()

    info = await engine.find(key)
    assert (info.state, info.attempt, info.deliveries, info.retries) == (State.READY, 0, 0, 3)
    assert handled == []


async def test_a_renewal_between_a_commit_and_its_answer(autojump_clock):
    """A renewal that finds a job completed by its own transaction, before that has its answer, takes nothing away."""
    after = []

    class Slow(MemoryEngine):
        async def transact(self, lease, fn, *args):
            found = await super().transact(lease, fn, *args)
            await trio.sleep(1.5)
            return found

    engine = Slow("shop")

    async def handler(job, ctx):
        await job.transaction(lambda db: None)
        await trio.sleep(0.1)
        after.append(job.key)

    async with at_work(worker(handler, engine, timeout=3)) as seen:
        key = await one(engine)
        await trio.sleep(10)

    assert seen.outcomes(key) == ["completed"]
    assert (seen.times("LeaseGone"), after) == ([], [key])


async def test_a_newer_claim_is_given_back_as_well(autojump_clock):
    """Without renewal, a job that came again while its old run would not end is given back when a stop is forced."""
    engine = MemoryEngine("shop")

    async def handler(job, ctx):
        with trio.CancelScope(shield=True):
            await trio.sleep(5)

    spec = worker(handler, engine, timeout=3, renew=False, concurrency=2, grace=0.1)
    async with at_work(spec, shutdown=1) as seen:
        key = await one(engine)
        await trio.sleep(3.5)

    assert seen.outcomes(key) == ["superseded", "interrupted"]
    info = await engine.find(key)
    assert (info.state, info.attempt, info.deliveries) == ("ready", 1, 1)
