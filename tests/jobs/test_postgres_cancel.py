"""PostgreSQL under cancellation at any moment: what callers heard is what is stored, and every connection is whole afterwards."""

from __future__ import annotations

from random import Random

import pytest
import trio

from actors.jobs import JobWorker, NewJob
from supervision import RestartPolicy, Supervisor, Worker, supervisor
from tests.jobs.kit import ask, claim, database, on_postgres, put, sql, states

SETTLED = 30.0


@pytest.fixture
async def engine(driver):
    async with database() as where, on_postgres(where, driver, connections=3) as found:
        yield found
        await whole(found)


async def whole(engine):
    """All connections are idle and work, and no transaction was left open."""
    with trio.fail_after(SETTLED):
        while True:
            seen = await engine.statistics()
            rows = await ask(
                engine,
                "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid != pg_backend_pid() AND backend_type = 'client backend'",
            )
            busy = seen.workers.busy, seen.workers.waiting, seen.calls.waiting
            if {state for (state,) in rows} <= {"idle"} and busy == (0, 0, 0):
                break
            await trio.sleep(0.01)
    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(ask, engine, "SELECT 1")
            nursery.start_soon(engine.extend, [], 1.0)


async def cut_off(fn, *inputs, longest, random, at_once=24):
    """Call `fn` with each input, each under a deadline of its own; the inputs and results that were heard."""
    heard = []
    limit = trio.CapacityLimiter(at_once)

    async def one(value):
        async with limit:
            # Short ones more often, and some that are over before they begin.
            left = random.choice([0, 1, 1, 1]) * random.random() * random.uniform(0, longest)
            with trio.CancelScope(deadline=trio.current_time() + left):
                result = await fn(value)
                heard.append((value, result))

    async with trio.open_nursery() as nursery:
        for value in inputs:
            nursery.start_soon(one, value)
    return heard


async def longest_of(fn, *inputs, at_once=24):
    """How long a call takes when as many are under way: deadlines up to twice that meet every moment of a call."""
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for value in inputs[:at_once]:
            nursery.start_soon(fn, value)
    return 2 * (trio.current_time() - start)


async def test_a_write_is_there_if_its_caller_heard_of_it(engine):
    """Whenever callers are cancelled, exactly the transactions that returned were committed."""
    await ask(engine, "CREATE TABLE t (x integer)")

    async def write(n):
        await engine.run(lambda db: sql(db, "INSERT INTO t VALUES (?)", n) and None)

    longest = await longest_of(write, *range(1000, 1024))
    heard = await cut_off(write, *range(600), longest=longest, random=Random(1))
    rows = await ask(engine, "SELECT x FROM t WHERE x < 1000")

    assert sorted(n for n, _ in heard) == sorted(n for (n,) in rows)
    assert 0 < len(heard) < 600


async def test_a_job_is_there_if_its_key_was_heard(engine):
    """Whenever callers are cancelled, exactly the jobs whose keys they heard were enqueued, one or many at a time."""

    async def enqueue(n):
        names = [NewJob("a", {"n": n, "of": 3 if n % 5 else 1})] * (3 if n % 5 else 1)
        return [one.key for one in await engine.enqueue_many(names)]

    longest = await longest_of(enqueue, *range(24))
    before = {key for (key,) in await ask(engine, "SELECT id::text FROM {s}jobs")}
    heard = await cut_off(enqueue, *range(400), longest=longest, random=Random(2))
    rows = await ask(engine, "SELECT id::text FROM {s}jobs")

    assert {key for _, keys in heard for key in keys} == {key for (key,) in rows} - before
    assert 0 < len(heard) < 400


async def test_a_claim_is_heard_of(engine):
    """Whenever callers are cancelled, no job is claimed of which nobody knows."""
    await engine.enqueue_many(NewJob("a", {"n": n}) for n in range(1500))

    async def take(n):
        return [job.key for job in await engine.activate(claim(3, by=f"w{n}"))]

    longest = await longest_of(take, *range(24))
    before = {
        key for (key,) in await ask(engine, "SELECT id::text FROM {s}jobs WHERE state = 'active'")
    }
    heard = await cut_off(take, *range(400), longest=longest, random=Random(3))
    rows = await ask(engine, "SELECT id::text FROM {s}jobs WHERE state = 'active'")
    keys = [key for _, some in heard for key in some]

    assert sorted(keys) == sorted({key for (key,) in rows} - before)
    assert 0 < len(heard) < 400


async def test_reads_give_their_connections_back(engine):
    """Reads that are cancelled end early, and leave nothing behind on the server."""
    await put(engine, *map(str, range(50)))

    async def read(n):
        if n % 3:
            return await engine.statistics()
        return await engine.find(str(n % 50 + 1))

    longest = await longest_of(read, *range(24))
    heard = await cut_off(read, *range(300), longest=longest, random=Random(4))

    assert 0 < len(heard) < 300


async def test_no_job_is_lost_or_doubled(engine):
    """Workers that are restarted, forced and cut off at random do every job, and its effect once."""
    await ask(engine, "CREATE TABLE effects (key text)")
    random = Random(6)

    async def handler(job, ctx):
        await trio.sleep(random.choice([0, 0, 0.005, 0.05]))
        with trio.move_on_after(random.choice([0.0005, 0.005, 5])):
            await job.transaction(
                lambda db: sql(db, "INSERT INTO effects VALUES (?)", job.key) and None
            )
            return
        raise ValueError("cut off by its own deadline")

    spec = JobWorker(
        "a", handler, engine=engine, concurrency=6, timeout=2, poll=0.05, grace=0.01,
        max_deliveries=1000,
    )  # fmt: skip
    keys = await put(engine, *map(str, range(300)), retries=1000)
    restart = RestartPolicy(type="permanent", initial_backoff=0, jitter=0, max_restarts=0)
    tree = Supervisor("shop", [Worker("w", spec, replicas=2, shutdown=0.05, restart=restart)])
    async with supervisor.running(tree, log=False) as pool:
        with trio.fail_after(90):
            while (await states(engine)).get("completed") != 300:
                await ask(
                    engine,
                    "UPDATE {s}jobs SET due_at = now(), state = 'ready' WHERE state = 'scheduled'",
                )
                await trio.sleep(random.uniform(0, 0.1))
                await pool.restart(f"shop/w/{random.randrange(2)}")
    rows = await ask(engine, "SELECT key FROM effects")

    assert sorted(key for (key,) in rows) == sorted(keys)
