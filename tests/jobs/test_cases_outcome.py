"""OUTCOME: public bug reports about what becomes of jobs, retold, with their numbers."""

from __future__ import annotations

import pytest
import trio

from actors import Backoff
from actors.errors import FailWithRetry
from actors.jobs import Incident, MemoryEngine, State
from actors.jobs.errors import NoRetriesLeft, NoSuchJob
from tests.jobs.kit import claim, failed, put, states
from tests.jobs.tree import at_work, one, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


async def test_b121_closed_means_closed(autojump_clock, engine, monkeypatch):
    """B121, camunda/camunda#25626: a stop ends the wait for work at once, and no handler begins afterwards."""
    runs = []

    async def handler(job, ctx):
        runs.append(trio.current_time())

    async with at_work(worker(handler, engine, poll=30)) as seen:
        await trio.sleep(5)
        await seen.pool.shutdown()
        assert trio.current_time() == 5
        keys = await put(engine, *"abc")
        await trio.sleep(1)

    assert runs == []
    assert [(await engine.find(key)).retries for key in keys] == [3, 3, 3]
    assert await states(engine) == {"ready": 3}


async def test_b122_an_interruption_is_no_attempt(autojump_clock, engine):
    """B122, riverqueue/river#1290, python-arq/arq#267: three deploys use up nothing, and the fourth run is the first attempt."""
    attempts = []
    words: list[str] = []

    async def handler(job, ctx):
        attempts.append(job.attempt)
        await trio.sleep(100 if len(attempts) < 4 else 1)

    key = await one(engine)
    for _ in range(3):
        spec = worker(handler, engine, backoff=Backoff(60, 2, 600, 0), grace=1)
        async with at_work(spec) as seen:
            await trio.sleep(1)
            await seen.pool.shutdown()
            info = await engine.find(key)
            assert (info.state, info.attempt, info.retries) == (State.READY, 0, 3)
        words += seen.outcomes(key)
    async with at_work(worker(handler, engine)) as seen:
        await trio.sleep(5)
        info = await engine.find(key)
    words += seen.outcomes(key)

    assert attempts == [1, 1, 1, 1]
    assert (info.state, info.attempt) == (State.COMPLETED, 1)
    assert words == ["interrupted"] * 3 + ["completed"]


async def test_b123_an_abort_while_draining(autojump_clock, engine):
    """B123, procrastinate-org/procrastinate#1598: a worker that drains still hears that a job was cancelled."""
    began = trio.Event()

    async def handler(job, ctx):
        began.set()
        await trio.sleep(500)

    async with at_work(worker(handler, engine, timeout=3, grace=600), shutdown=700) as seen:
        key = await one(engine)
        await began.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(seen.pool.shutdown)
            await trio.sleep(5.5)
            await engine.cancel(key)
        ended = trio.current_time()
        info = await engine.find(key)

    assert (info.state, ended) == (State.CANCELLED, 6)


async def test_b124_a_snooze_has_its_own_counter(autojump_clock, engine):
    """B124, oban-bg/oban#476, riverqueue/river#730: ten snoozes do not lengthen the wait after the first failure."""
    runs = []

    async def handler(job, ctx):
        runs.append(trio.current_time())
        if len(runs) <= 10:
            raise FailWithRetry("not yet", retry_in=60)
        if len(runs) == 11:
            raise ValueError

    async with at_work(worker(handler, engine, backoff=Backoff(15, 2, 3600, 0))):
        key = await one(engine, retries=5)
        await trio.sleep(700)
        info = await engine.find(key)

    assert runs == [60.0 * n for n in range(11)] + [615]
    assert (info.state, info.attempt, info.snoozes, info.retries) == (State.COMPLETED, 2, 10, 4)


async def test_b125_what_the_handler_states_wins(autojump_clock, engine):
    """B125, camunda-community-hub/zeebe-client-node-js#316: a number of retries that was stated is the number; else one less."""
    runs = []

    async def handler(job, ctx):
        runs.append((trio.current_time(), job.retries))
        if len(runs) == 1:
            raise FailWithRetry("busy", retries=3, retry_in=30)
        raise ValueError

    async with at_work(worker(handler, engine)) as seen:
        key = await one(engine, retries=1)
        await trio.sleep(29)
        info = await engine.find(key)
        assert (info.retries, info.due_in, info.state) == (3, 1, State.SCHEDULED)
        assert seen.times("JobIncident") == []
        await trio.sleep(1.5)
        await engine.set_retries(key, 1)
        await trio.sleep(10)
        info = await engine.find(key)

    assert runs == [(0, 1), (30, 3), (31, 1)]
    assert (info.state, info.retries) == (State.INCIDENT, 0)
    assert seen.times("JobIncident", job=key, poison=False) == [31]


async def test_b126_an_incident_is_resolved_into_a_job_that_can_run(autojump_clock, engine):
    """B126, camunda/camunda#18110: without retries an incident is not resolved; with some it is, once."""
    runs = []

    async def handler(job, ctx):
        runs.append(trio.current_time())

    key = await one(engine)
    (job,) = await engine.activate(claim())
    await engine.settle(job.lease, failed(0))
    async with at_work(worker(handler, engine)):
        await trio.sleep(1)
        with pytest.raises(NoRetriesLeft, match="set_retries"):
            await engine.resolve(key)
        assert (await engine.find(key)).state is State.INCIDENT
        await trio.sleep(1)
        await engine.set_retries(key, 1)
        await trio.sleep(1)
        await engine.resolve(key)
        await trio.sleep(1)
        with pytest.raises(NoSuchJob):
            await engine.resolve(key)
        await trio.sleep(10)

    assert runs == [3]


async def test_unstarted_jobs_go_back_first(autojump_clock, engine):
    """At a stop, jobs that wait for a place go back in that instant; the one that runs may end."""
    runs = []

    async def handler(job, ctx):
        runs.append(job.variables["name"])
        await trio.sleep(10)

    await put(engine, "x", "y")
    async with at_work(worker(handler, engine, concurrency=1, max_jobs_activated=2)) as seen:
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(seen.pool.shutdown)
            await trio.sleep(0.5)
            assert await states(engine) == {"ready": 1, "active": 1}
        assert trio.current_time() == 10

    assert runs == ["x"]
    assert seen.outcomes() == ["interrupted", "completed"]
    assert await states(engine) == {"ready": 1, "completed": 1}


async def test_a_handler_that_will_not_end(autojump_clock, engine):
    """A handler deaf to cancellation holds the stop up no longer than it runs, and its job goes back then."""

    async def handler(job, ctx):
        with trio.CancelScope(shield=True):
            await trio.sleep(20)
        await trio.lowlevel.checkpoint()

    key = await one(engine)
    async with at_work(worker(handler, engine), shutdown=10) as seen:
        await trio.sleep(1)
        await seen.pool.shutdown()
        assert trio.current_time() == 20

    info = await engine.find(key)
    assert (info.state, info.attempt) == (State.READY, 0)
    assert seen.outcomes() == ["interrupted"]


async def test_river_1290_by_the_supervisors_deadline(autojump_clock, engine):
    """riverqueue/river#1290: jobs that outlive the grace are cancelled before the stop deadline, so nothing is forced."""

    async def handler(job, ctx):
        await trio.sleep(1000)

    await put(engine, "x", "y")
    async with at_work(worker(handler, engine), shutdown=10) as seen:
        await trio.sleep(1)
        await seen.pool.shutdown()
        assert trio.current_time() == 10

    assert seen.times("Forced") == []
    assert await states(engine) == {"ready": 2}


async def test_a_run_that_is_forced(autojump_clock, engine):
    """A run that is cancelled at its stop deadline still gives its jobs back."""

    async def handler(job, ctx):
        await trio.sleep(1000)

    await put(engine, "x", "y")
    async with at_work(worker(handler, engine, grace=100), shutdown=10) as seen:
        await trio.sleep(1)
        await seen.pool.shutdown()
        assert trio.current_time() == 11

    assert len(seen.times("Forced")) == 1
    assert await states(engine) == {"ready": 2}
    assert seen.outcomes() == ["interrupted", "interrupted"]


async def test_incidents_do_not_block(autojump_clock, engine):
    """An incident holds no place: others of its type go on."""
    x, y = await put(engine, "x", "y")
    job, other = await engine.activate(claim())
    await engine.settle(job.lease, Incident("look"))
    await engine.limit("a", 2)
    (z,) = await put(engine, "z")

    assert [j.key for j in await engine.activate(claim())] == [z]
    assert [job.key, other.key] == [x, y]
