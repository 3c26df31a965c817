"""Job workers on PostgreSQL, in real time: several engines on one database, what wakes them, and what holds nobody up."""

from __future__ import annotations

import sys
import threading
from collections import Counter

import pytest
import trio

from actors.jobs import JobWorker, NewJob, State
from supervision import Supervisor, Worker, supervisor
from tests.jobs.kit import DONE, ask, claim, hears, on_postgres, put, sql, states

PATIENCE = 60


@pytest.fixture
async def engine(driver, where):
    async with on_postgres(where, driver) as found:
        yield found


@pytest.fixture
async def other(driver, where):
    """Another engine on the same database, as another process would have it."""
    async with on_postgres(where, driver) as found:
        yield found


def shop(*workers, **options):
    return Supervisor("shop", [Worker(f"w{n}", run, **options) for n, run in enumerate(workers)])


async def until(fn, *args):
    """Wait until something is true."""
    with trio.fail_after(PATIENCE):
        while not await fn(*args):
            await trio.sleep(0.01)


async def completed(engine, n):
    return (await states(engine)).get("completed") == n


async def test_two_engines_share_the_jobs(engine, other):
    """Workers of two engines on one database share its jobs; each is handled once, its effect stored once."""
    handled = []

    async def handler(job, ctx):
        handled.append(job.key)
        await job.transaction(
            lambda db: sql(db, "INSERT INTO effects VALUES (?)", job.key) and None
        )

    await ask(engine, "CREATE TABLE effects (key text)")
    tree = shop(*[JobWorker("a", handler, engine=one, concurrency=8) for one in (engine, other)])
    async with supervisor.running(tree, log=False):
        keys = await put(engine, *map(str, range(300)))
        await until(completed, engine, 300)
    rows = await ask(other, "SELECT key FROM effects")

    assert sorted(handled) == sorted(keys) == sorted(key for (key,) in rows)


async def test_a_stop_leaves_nothing_active(engine):
    """After a stop in the middle of work no job is active, and what was interrupted has its attempt back."""

    async def handler(job, ctx):
        await trio.sleep_forever()

    async def held():
        return (await states(engine)).get("active") == 8

    keys = await put(engine, *map(str, range(20)))
    spec = JobWorker("a", handler, engine=engine, max_jobs_activated=8, grace=0.05)
    async with supervisor.running(shop(spec), log=False):
        await until(held)
    infos = [await engine.find(key) for key in keys]

    assert {(i.state, i.attempt, i.deliveries, i.retries) for i in infos} == {
        (State.READY, 0, 0, 3)
    }


async def test_work_from_elsewhere_is_heard_of(engine, other):
    """A worker that would look once an hour hears at once of a job that another process enqueued or put back."""
    handled = []

    async def handler(job, ctx):
        handled.append(job.variables["name"])

    async with supervisor.running(
        shop(JobWorker("a", handler, engine=engine, poll=3600)), log=False
    ):
        await hears(engine)
        await put(other, "enqueued")
        await until(completed, other, 1)
        await other.run(lambda db: other.enqueue_in(db, NewJob("a", {"name": "in a transaction"})))
        await until(completed, other, 2)
        await other.pause("a")
        await put(other, "paused")
        await other.resume("a")
        await until(completed, other, 3)

    assert handled == ["enqueued", "in a transaction", "paused"]


async def test_a_listener_whose_connection_was_ended(engine, other):
    """alltuner/vibetuner#2035: a LISTEN that died is noticed and made anew, and what was enqueued meanwhile is found."""

    async def handler(job, ctx):
        pass

    async with supervisor.running(
        shop(JobWorker("a", handler, engine=engine, poll=3600)), log=False
    ):
        await hears(engine)
        before = (await engine.statistics()).listener.connects
        await ask(
            other,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid()",
        )
        await put(other, "x")  # nobody listens, perhaps
        await until(completed, other, 1)
        await hears(engine)
        await put(other, "y")
        await until(completed, other, 2)

        assert (await engine.statistics()).listener.connects == before + 1


async def test_without_listen(driver, where):
    """bensheldon/good_job#482, bensheldon/good_job#1573: behind a pooler nothing of a session is used, and work is found by looking."""

    async def handler(job, ctx):
        await job.transaction(lambda db: None)

    async with (
        on_postgres(where, driver, pooler=True) as engine,
        on_postgres(where, driver) as other,
    ):
        spec = JobWorker("a", handler, engine=engine, poll=0.02)
        async with supervisor.running(shop(spec), log=False):
            for n in range(3):
                await put(other, str(n))
                await until(completed, other, n + 1)
            rows = await ask(
                engine,
                "SELECT query FROM pg_stat_activity WHERE datname = current_database()"
                " AND query ~* '^(listen|set|prepare) '",
            )
            prepared = await ask(engine, "SELECT count(*) FROM pg_prepared_statements")
        assert (await engine.statistics()).listener is None

    assert (rows, prepared) == ([], [(0,)])


async def test_a_long_transaction_holds_nobody_up(engine, other):
    """While one handler is in a long transaction of its own, leases of its worker's other jobs are renewed."""
    release, begun, starts = threading.Event(), threading.Event(), Counter()

    def hold(db):
        begun.set()
        release.wait(PATIENCE)

    async def handler(job, ctx):
        starts[job.variables["name"]] += 1
        if job.variables["name"] == "long":
            await job.transaction(hold)
        else:
            await trio.sleep(LEASE * 4)

    LEASE = 0.5
    try:
        await put(engine, "long", "other")
        spec = JobWorker("a", handler, engine=engine, timeout=LEASE, claim_timeout=5)
        async with supervisor.running(shop(spec), log=False):
            await trio.to_thread.run_sync(begun.wait, PATIENCE)
            async with supervisor.running(
                shop(JobWorker("a", handler, engine=other, poll=0.05, timeout=LEASE)), log=False
            ):
                await until(completed, other, 1)
                release.set()
                await until(completed, other, 2)
    finally:
        release.set()

    assert starts == {"long": 1, "other": 1}


async def test_claimers_at_once(engine, other):
    """Whoever claims at once, each job goes to one of them, and each gets higher priorities first."""
    await engine.enqueue_many(NewJob("a", {"n": n}, priority=n % 7) for n in range(400))
    taken: list[list[int]] = []

    async def take(one, name):
        mine: list[int] = []
        taken.append(mine)
        while jobs := await one.activate(claim(5, by=name)):
            keys.extend(job.key for job in jobs)
            mine.extend(job.priority for job in jobs)

    keys: list[str] = []
    async with trio.open_nursery() as nursery:
        for n in range(3):
            nursery.start_soon(take, engine, f"w{n}")
            nursery.start_soon(take, other, f"v{n}")

    assert len(keys) == len(set(keys)) == 400
    for mine in taken:
        assert mine == sorted(mine, reverse=True)


async def test_unique_at_once(engine, other):
    """However many enqueue one unique text at once, and finish it, there is one unfinished job of it and nobody fails."""
    made: list[bool] = []
    finished = 0

    async def enqueue(one):
        for _ in range(15):
            done = await one.enqueue_many([NewJob("a", unique="u"), NewJob("b", unique="u")])
            made.append(done[0].created)

    async def finish():
        nonlocal finished
        while True:
            for job in await engine.activate(claim(3)):
                good = await engine.settle(job.lease, DONE)
                finished += good
            await trio.sleep(0.002)

    async with trio.open_nursery() as workers:
        workers.start_soon(finish)
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(enqueue, engine)
                nursery.start_soon(enqueue, other)
        workers.cancel_scope.cancel()

    (rows,) = await ask(
        engine,
        "SELECT count(*), count(*) FILTER (WHERE finished_at IS NULL) FROM {s}jobs WHERE type = 'a'",
    )
    assert rows[0] == sum(made)
    assert rows[1] <= 1
    assert finished >= rows[0] - 1
    assert (await states(engine, "b")) == {"ready": 1}


async def test_a_limit_at_once(engine, other):
    """However many claim at once, a limited type has no more active jobs than its limit."""
    await engine.limit("a", 7)
    await put(engine, *map(str, range(60)))
    most = ended = 0

    async def work(one, name):
        nonlocal ended
        while ended < 60:
            for job in await one.activate(claim(3, by=name)):
                await trio.sleep(0.005)
                good = await one.settle(job.lease, DONE)
                ended += good
            await trio.sleep(0.001)

    async def watch():
        nonlocal most
        while True:
            most = max(most, (await states(other)).get("active", 0))
            await trio.sleep(0.001)

    async with trio.open_nursery() as watching:
        watching.start_soon(watch)
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for n in range(4):
                    nursery.start_soon(work, engine, f"w{n}")
                    nursery.start_soon(work, other, f"v{n}")
        watching.cancel_scope.cancel()

    assert 0 < most <= 7


PERIODIC = """
import sys, trio
from actors.jobs import NewJob, Periodic, open_postgres
from supervision import Supervisor, Worker, supervisor

async def main(where, driver):
    async with open_postgres(where, driver=driver) as engine:
        tick = Periodic("tick", NewJob("a"), every=0.1, engine=engine)
        await supervisor.serve(Supervisor("node", [Worker("tick", tick)]), log=False)

trio.run(main, *sys.argv[1:])
"""


async def test_one_firing_a_period(driver, where, other):
    """Two processes with one schedule enqueue one job a period, not two."""
    command = [sys.executable, "-c", PERIODIC, where, driver.removeprefix("postgres-")]

    async def enough():
        return (await states(other)).get("ready", 0) >= 20

    ((before,),) = await ask(other, "SELECT floor(extract(epoch FROM now()) / 0.1)::bigint - 1")
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(trio.run_process, command)
        await until(enough)
        nursery.cancel_scope.cancel()
    ((jobs, last),) = await ask(
        other, "SELECT (SELECT count(*) FROM {s}jobs), period FROM {s}job_schedules"
    )

    assert 20 <= jobs <= last - before


async def test_pruning_at_once(engine, other):
    """Two nodes that prune at once delete each finished job once, and nothing that is not finished."""
    await engine.enqueue_many(NewJob("a", {"n": n}) for n in range(3000))
    await ask(
        engine,
        "UPDATE {s}jobs SET state = 'completed', finished_at = now() - interval '1 day' WHERE id > 20",
    )
    jobs = await engine.activate(claim(10))
    counts = []

    async def prune(one):
        counts.append(await one.prune(3600))

    async with trio.open_nursery() as nursery:
        for one in (engine, other, engine, other):
            nursery.start_soon(prune, one)

    assert sum(counts) == 2980
    assert await states(engine) == {"active": 10, "ready": 10}
    assert all([await engine.settle(job.lease, DONE) for job in jobs])
    assert await engine.prune(3600) == 0
