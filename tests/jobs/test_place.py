"""A place, which sees one job after another through, in virtual time."""

from __future__ import annotations

from contextvars import ContextVar

import trio

from actors.jobs import MemoryEngine, State
from tests.jobs.test_worker import settled, until
from tests.jobs.tree import at_work, one, worker

WHOSE: ContextVar[str] = ContextVar("WHOSE", default="nobody's")


async def test_nothing_leaks_from_job_to_job(autojump_clock):
    """What a handler sets in its context is gone with it, though the next job runs in the same task, under its own name."""
    engine, found, tasks = MemoryEngine("shop"), [], []

    async def handler(job, ctx):
        task = trio.lowlevel.current_task()
        found.append((WHOSE.get(), task.name))
        tasks.append(task)
        WHOSE.set(job.key)

    async with at_work(worker(handler, engine, concurrency=1, max_jobs_activated=2)):
        keys = [await one(engine) for _ in range(3)]
        await settled(engine, keys[2])

    assert found == [("nobody's", f"job {key}") for key in keys]
    assert len(set(tasks)) == 2  # one ends before the next is parked again


async def test_a_new_place_is_not_the_child_of_a_job(autojump_clock):
    """A place that is opened when a job ends has the context of the run, not of that job."""
    engine, found = MemoryEngine("shop"), []

    async def handler(job, ctx):
        found.append(WHOSE.get())
        WHOSE.set(job.key)
        await trio.sleep(float(job.variables.get("s", 0)))

    async with at_work(worker(handler, engine, concurrency=2, max_jobs_activated=4)):
        await one(engine, variables={"s": 1})
        last = [await one(engine, variables={"s": 2}) for _ in range(4)][-1]
        await settled(engine, last)

    assert found == ["nobody's"] * 5


async def test_a_parked_place_outlives_its_last_lease(autojump_clock):
    """A job that comes long after the lease of the one before is handled in a scope that is not used up."""
    engine, left = MemoryEngine("shop"), []

    async def handler(job, ctx):
        left.append(trio.current_effective_deadline() - trio.current_time())
        await trio.sleep(1)

    async with at_work(worker(handler, engine, timeout=10, renew=False)) as seen:
        for _ in range(2):
            info = await settled(engine, await one(engine))
            assert info.state is State.COMPLETED
            await trio.sleep(100)

    assert [round(seconds) for seconds in left] == [10, 10]
    assert seen.outcomes() == ["completed", "completed"]


async def test_a_job_that_lost_its_lease_does_not_cancel_the_next(autojump_clock):
    """Cancelling a handler ends its scope alone: the place goes on with a fresh one."""
    engine, begun = MemoryEngine("shop"), []

    async def handler(job, ctx):
        begun.append(job.key)
        await trio.sleep(1000 if len(begun) == 1 else 1)

    async with at_work(worker(handler, engine, concurrency=1, timeout=30)):
        first, second = [await one(engine) for _ in range(2)]

        async def has_begun():
            return begun

        await until(has_begun)
        await engine.cancel(first)
        info = await settled(engine, second)

    assert (begun, info.state) == ([first, second], State.COMPLETED)


async def test_an_error_beside_a_cancellation_ends_no_more_than_the_job(autojump_clock):
    """A handler that fails while it is cancelled leaves its error when the cancellation is taken out: the run goes on."""
    engine, begun = MemoryEngine("shop"), []

    async def handler(job, ctx):
        begun.append(job.key)
        if len(begun) == 1:
            try:
                await trio.sleep_forever()
            except trio.Cancelled as cancelled:
                raise BaseExceptionGroup("both", [cancelled, ValueError("no")]) from None

    async with at_work(worker(handler, engine, concurrency=1, timeout=30)) as seen:
        first, second = [await one(engine) for _ in range(2)]

        async def has_begun():
            return begun

        await until(has_begun)
        await engine.cancel(first)
        assert (await settled(engine, second)).state is State.COMPLETED

    assert begun == [first, second]
    assert not seen.times("RestartScheduled")
    assert seen.outcomes(first) == ["superseded"]
