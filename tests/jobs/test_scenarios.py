"""Scenarios from public reports about job workers, retold for ours, in virtual time; others stand beside what they are about."""

from __future__ import annotations

from random import Random

import pytest
import trio

from actors.errors import FailWithRetry, IncidentError
from actors.jobs import IdempotencyPolicy, MemoryEngine, NewJob, SQLIdempotencyStore, State
from tests.jobs.kit import claim, put, states
from tests.jobs.tree import at_work, one, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


def watched(monkeypatch, engine):
    """Note what is asked for and brought: (time, most, jobs)."""
    seen, real = [], engine.exchange

    async def exchange(settlements=(), wanted=None):
        found = await real(settlements, wanted)
        if wanted is not None:
            seen.append((trio.current_time(), wanted.most, len(found.jobs)))
        return found

    monkeypatch.setattr(engine, "exchange", exchange)
    return seen


async def finished(engine, n, look=0.1):
    """Wait until so many jobs are completed."""
    while (await states(engine)).get("completed", 0) < n:
        await trio.sleep(look)


async def test_no_place_leaks(autojump_clock, engine, monkeypatch):
    """camunda/camunda#60559, camunda/camunda#59633: after every way a job can end the worker asks for all of its places again."""
    asked, random, starts = watched(monkeypatch, engine), Random(4), []

    async def handler(job, ctx):
        starts.append(job.key)
        way = random.choice(["well", "fail", "snooze", "slow", "deaf", "gone"])
        if way == "fail":
            raise ValueError
        if way == "snooze":
            raise FailWithRetry(retry_in=1)
        if way == "slow":
            await trio.sleep(3)
        if way == "deaf":
            with trio.CancelScope(shield=True):
                await trio.sleep(30)
        if way == "gone":
            await engine.cancel(job.key)
            await trio.sleep(60)

    spec = worker(handler, engine, concurrency=4, max_jobs_activated=8, timeout=20, renew=True)
    async with at_work(spec) as seen:
        await engine.enqueue_many(NewJob("a", retries=99) for _ in range(200))
        while {"ready", "active", "scheduled"} & (await states(engine)).keys():
            await trio.sleep(1)
        before = len(starts)
        await engine.enqueue_many(NewJob("a") for _ in range(8))
        await trio.sleep(0.01)

    assert max(most for _, most, _ in asked) == 8
    assert asked[-1][1] == 8 or len(starts) - before >= 4
    assert sum(brought for _, _, brought in asked) >= 208
    assert "Failed" not in seen.kinds()


async def test_the_rest_of_a_batch_is_kept(autojump_clock, engine):
    """camunda/camunda#59634: jobs of a batch that wait for a place keep their leases, and hold up no other's completion."""
    ended = []

    async def handler(job, ctx):
        await trio.sleep(50 if job.variables["name"] == "long" else 1)
        ended.append((job.variables["name"], trio.current_time()))

    await put(engine, "long", "a", "b", "c")
    spec = worker(handler, engine, concurrency=2, max_jobs_activated=4, timeout=6)
    async with at_work(spec) as seen:
        await finished(engine, 4)

    assert ended == [("a", 1), ("b", 2), ("c", 3), ("long", 50)]
    assert seen.outcomes() == ["completed"] * 4


async def test_it_always_outlives_its_lease(autojump_clock, engine):
    """camunda/camunda#5655, camunda/camunda#46641: a handler that always outlives its lease ends as poison, not in a cycle."""
    starts = []

    async def handler(job, ctx):
        starts.append(trio.current_time())
        await trio.sleep(1000)

    spec = worker(handler, engine, timeout=10, renew=False, max_deliveries=4)
    async with at_work(
        spec, worker(handler, engine, timeout=10, renew=False, max_deliveries=4)
    ) as seen:
        key = await one(engine)
        await trio.sleep(500)
        info = await engine.find(key)

    assert starts == [0, 10, 20, 30]
    assert (info.state, info.deliveries) == (State.INCIDENT, 4)
    assert [poison.key for poison in await engine.poison()] == [key]
    assert len(seen.times("JobIncident", job=key, poison=True)) == 1


async def test_fetching_goes_on_after_a_full_batch(autojump_clock, engine):
    """camunda-community-hub/pyzeebe#201: with more jobs than places, the next batch begins in the instant the first has ended."""
    starts = []

    async def handler(job, ctx):
        starts.append(trio.current_time())
        await trio.sleep(2)

    await put(engine, *map(str, range(32)))
    async with at_work(worker(handler, engine, concurrency=8, poll=100)):
        await finished(engine, 32)

    assert starts == [0] * 8 + [2] * 8 + [4] * 8 + [6] * 8


async def test_an_idle_worker_stops_at_once(autojump_clock, engine):
    """camunda-community-hub/pyzeebe#197, temporalio/sdk-java#1257: an idle worker stops at once, whatever poll or renewal is due."""

    async def handler(job, ctx):
        await trio.sleep(1)

    async with at_work(worker(handler, engine, poll=3600, timeout=7200)) as seen:
        await one(engine)
        await trio.sleep(5)
        await seen.pool.shutdown()
        assert trio.current_time() == 5


async def test_the_place_of_a_deaf_handler_comes_back(autojump_clock, engine):
    """riverqueue/river#1258: handlers deaf to cancellation hold their places and no more, and when they end all goes on."""
    runs = []

    async def handler(job, ctx):
        runs.append(job.variables["name"])
        if job.variables["name"] in "ab":
            with trio.CancelScope(shield=True):
                await trio.sleep(100)

    async with at_work(worker(handler, engine, concurrency=2, timeout=10)) as seen:
        keys = await put(engine, "a", "b")
        await trio.sleep(1)
        for key in keys:
            await engine.cancel(key)
        await put(engine, *"cdef")
        await trio.sleep(90)
        assert sorted(runs) == ["a", "b"]
        await finished(engine, 4)
        assert trio.current_time() < 101

    assert sorted(seen.outcomes()) == ["completed"] * 4 + ["superseded"] * 2


async def test_a_renewal_for_longer_than_any_rescue(autojump_clock, engine):
    """riverqueue/river#1331, oban-bg/oban#1141: however long a job takes, it is not started again while its worker lives."""
    starts = []

    async def handler(job, ctx):
        starts.append(trio.current_time())
        await trio.sleep(6 * 3600)

    async with at_work(
        worker(handler, engine, poll=600, timeout=1800), worker(handler, engine, poll=600)
    ):
        await one(engine)
        await finished(engine, 1, look=60)

    assert starts == [0]


async def test_a_delay_longer_than_a_lease(autojump_clock, engine):
    """celery/kombu#337: a delay many times longer than a lease delivers the job once, when it is due."""
    starts = []

    async def handler(job, ctx):
        starts.append((trio.current_time(), job.deliveries))
        if job.snoozes == 0:
            raise FailWithRetry(retry_in=3600)

    async with at_work(worker(handler, engine, timeout=5, poll=60)):
        await one(engine, delay=600)
        await finished(engine, 1, look=60)

    assert starts == [(600, 1), (600 + 3600, 1)]


async def test_a_worker_cut_off_from_the_engine(autojump_clock, engine, monkeypatch):
    """rails/solid_queue#589: of a worker that is cut off and the one that took over, one ends the job, and the first lets go."""
    ran, cut = [], [False]
    other = MemoryEngine("shop", clock=engine._clock)
    other._runner = engine._runner  # the same jobs, by another connection

    def through(real):
        async def call(*args):
            if cut[0]:
                await trio.lowlevel.checkpoint()
                raise OSError("cut off")
            return await real(*args)

        return call

    monkeypatch.setattr(other, "exchange", through(other.exchange))
    monkeypatch.setattr(other, "extend", through(other.extend))

    async def slow(job, ctx):
        ran.append((ctx.name, trio.current_time()))
        try:
            await trio.sleep(100)
        except trio.Cancelled:
            ran.append(("let go", trio.current_time()))
            raise

    async def quick(job, ctx):
        ran.append((ctx.name, trio.current_time()))
        await trio.sleep(5)

    async with at_work(worker(slow, other, timeout=30)) as seen:
        key = await one(other)
        await trio.sleep(12)
        cut[0] = True
        async with at_work(worker(quick, engine, timeout=30, poll=1)) as second:
            await finished(engine, 1)
            cut[0] = False
            await trio.sleep(50)

    # Renewed at 10, so it was lost at 40: the one lets go and the other begins, not before.
    assert [name for name, _ in ran] == ["w0", "let go", "w0"]
    assert ran[1][1] == 40 <= ran[2][1]
    assert (seen.outcomes(key), second.outcomes(key)) == (["superseded"], ["completed"])


async def test_a_sweep_that_nothing_stops(autojump_clock, engine):
    """procrastinate-org/procrastinate#1446, riverqueue/river#1324: a lapsed job that cannot be read keeps no other from coming again."""
    keys = await put(engine, *map(str, range(20)))
    await engine.activate(claim(20, lease=1))
    await engine.run(
        lambda db: db.execute("UPDATE jobs SET variables = '{no' WHERE id = ?", (int(keys[3]),))
    )
    await trio.sleep(2)

    found = await engine.exchange((), claim(20))

    assert len(found.jobs) == 19
    assert [poison.key for poison in found.poisoned] == [keys[3]]


async def test_the_record_outlives_the_job(autojump_clock, engine):
    """alphagov/pay-connector#4573: a replay after the job was pruned gets its record; a job that ended cannot be run without one."""
    store, acts = SQLIdempotencyStore(engine, IdempotencyPolicy(keep_for=1000)), []

    async def act():
        acts.append(trio.current_time())
        return {"charge": len(acts)}

    async def handler(job, ctx):
        result = await store.once_for(job, act)
        if job.variables.get("look"):
            raise IncidentError("look")
        return result

    order = NewJob("a", {"order": 7}, idempotency_key="order-7")
    async with at_work(worker(handler, engine)):
        first = (await engine.enqueue(order)).key
        await trio.sleep(10)
        assert await engine.prune(5) == 1
        again = (await engine.enqueue(order)).key
        await trio.sleep(10)
        assert (await engine.find(again)).result == '{"charge":1}'
        await trio.sleep(1000)
        assert (await store.prune(), await engine.prune(5)) == (1, 1)

    assert (first != again, acts) == (True, [0])


async def test_word_of_work_while_a_claim_is_on_its_way(autojump_clock, engine, monkeypatch):
    """A job that comes after the engine has looked and before its answer is here is not left until the next look."""
    handled, real = [], engine.exchange

    async def slow(*args):
        found = await real(*args)
        await trio.sleep(3)
        return found

    async def handler(job, ctx):
        handled.append(trio.current_time())

    monkeypatch.setattr(engine, "exchange", slow)
    async with at_work(worker(handler, engine, poll=3600)):
        await trio.sleep(1)
        await put(engine, "late")
        await trio.sleep(100)

    assert handled == [6]


async def test_prefetched_when_the_drain_begins(autojump_clock, engine, monkeypatch):
    """elixir-broadway/broadway_cloud_pub_sub#85, Logflare/logflare#3849: what a slow fetch brings during the stop goes back untouched."""
    runs, real = [], engine.exchange

    async def slow(*args):
        await trio.sleep(3)
        return await real(*args)

    async def handler(job, ctx):
        runs.append(job.key)

    monkeypatch.setattr(engine, "exchange", slow)
    async with at_work(worker(handler, engine)) as seen:
        await trio.sleep(2)
        await put(engine, *"abcd")
        await trio.sleep(0.5)
        await seen.pool.shutdown()
        assert trio.current_time() == 3 + 3  # what was under way, and giving back what it brought

    assert (runs, await states(engine)) == ([], {"ready": 4})
    for info in [await engine.find(str(n)) for n in range(1, 5)]:
        assert (info.attempt, info.deliveries, info.retries) == (0, 0, 3)
