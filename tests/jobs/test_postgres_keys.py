"""Idempotency records in PostgreSQL: one claim at a time, and days that go as a whole."""

from __future__ import annotations

import psycopg
import pytest
import trio

from actors.jobs import (
    Completed,
    IdempotencyPolicy,
    Incident,
    KeyBusy,
    KeyReused,
    NewJob,
    PostgresIdempotencyStore,
)
from tests.jobs.kit import ask, claim, on_postgres

DAY = 86400.0
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
async def engine(where, driver, clock):
    async with on_postgres(where, driver, clock=clock, connections=4) as found:
        for (name,) in await days(found):
            await ask(found, f"DROP TABLE treewarden.{name}")
        yield found


@pytest.fixture
def store(engine):
    return PostgresIdempotencyStore(engine)


async def days(engine):
    """The partitions that there are."""
    return await ask(
        engine,
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'treewarden.idempotency'::regclass ORDER BY 1",
    )


class Effect:
    """Something that should happen once."""

    def __init__(self):
        self.count = 0

    async def __call__(self, value=1):
        self.count += 1
        await trio.sleep(0.01)
        return {"value": value}


async def test_once_by_many(store):
    """Of many that claim one key at once, one acts; the others hear that it is busy, or its result."""
    act, busy, results = Effect(), [], []

    async def one():
        try:
            results.append(await store.once("k", act))
        except KeyBusy as error:
            busy.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(one)

    assert act.count == 1
    assert results == [{"value": 1}] * len(results)
    assert len(results) + len(busy) == 12
    assert await store.once("k", act) == {"value": 1}


async def test_another_payload(store):
    """One key with another payload is refused, and long and strange keys are as good as others."""
    key = "ü" * 20_000
    await store.once(key, Effect(), payload={"a": 1})

    with pytest.raises(KeyReused):
        await store.once(key, Effect(), payload={"a": 2})
    assert await store.forget(key)
    assert not await store.forget(key)


async def test_a_claim_waits_for_one_under_way(engine, store, where):
    """A claim of a key that a transaction is just writing waits for its end, and then sees what it wrote."""
    await store.once("other", Effect())  # the day is there
    with psycopg.connect(where) as db:
        db.execute("SELECT pg_advisory_xact_lock(hashtextextended('k', 7468951))")
        db.execute(
            "INSERT INTO treewarden.idempotency (key, fingerprint, owner, state, began_at, claimed_at,"
            " claimed_until) VALUES ('k', '', 'them', 'started', to_timestamp(1000), to_timestamp(1000),"
            " to_timestamp(2000))"
        )
        async with trio.open_nursery() as nursery:
            heard = []

            async def claim():
                with pytest.raises(KeyBusy) as info:
                    await store.once("k", Effect())
                heard.append(info.value.owner)

            nursery.start_soon(claim)
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            with trio.fail_after(20):
                while await ask(engine, waiting) != [(1,)]:
                    await trio.sleep(0.005)
            assert heard == []
            db.commit()

    assert heard == ["them"]


async def test_days_go_as_a_whole(engine, store, clock):
    """Pruning drops the days of which nothing is needed, empties the others, and keeps what is not expired."""
    short = IdempotencyPolicy(keep_for=DAY)
    for day in range(4):
        await store.once(f"short {day}", Effect(), policy=short)
        if day == 1:
            await store.once("for ever", Effect(), policy=IdempotencyPolicy(keep_for=None))
        clock.pass_(DAY)
    assert await days(engine) == [
        ("idempotency_0",),
        ("idempotency_1",),
        ("idempotency_2",),
        ("idempotency_3",),
    ]

    clock.pass_(-500)
    assert await store.prune() == 3

    assert await days(engine) == [("idempotency_1",), ("idempotency_3",)]
    act = Effect()
    await store.once("for ever", act)
    assert act.count == 0
    await store.once("short 0", act)
    assert act.count == 1
    assert await store.prune() == 0


async def test_a_day_that_is_being_read(engine, store, clock, where):
    """A day that somebody reads is left for the next time, and nobody waits behind the pruning."""
    await store.once("k", Effect(), policy=IdempotencyPolicy(keep_for=1))
    clock.pass_(2 * DAY)
    with psycopg.connect(where) as db:
        db.execute("SELECT count(*) FROM treewarden.idempotency_0")
        assert await store.prune() == 1
        assert ("idempotency_0",) in await days(engine)
    assert await store.prune() == 0

    assert await days(engine) == []


async def test_a_day_begins_during_a_backup(store, clock, where):
    """The first claim of a day waits for nobody who reads the records, a backup that takes all night perhaps."""
    await store.once("k", Effect())
    with psycopg.connect(where) as db:
        db.execute("SELECT count(*) FROM treewarden.idempotency")
        clock.pass_(DAY)
        with trio.fail_after(30):
            assert await store.once("k", Effect()) == {"value": 1}
            assert await store.once("next", Effect()) == {"value": 1}


async def test_two_nodes_prune_days(engine, store, where, driver, clock):
    """Nodes that prune at once drop each day once, and none of them fails."""
    async with on_postgres(where, driver, clock=clock) as other:
        for day in range(12):
            await store.once(f"{day}", Effect(), policy=IdempotencyPolicy(keep_for=1))
            clock.pass_(DAY)
        clock.pass_(DAY)
        total = []

        async def prune(at):
            total.append(await PostgresIdempotencyStore(at).prune())

        async with trio.open_nursery() as nursery:
            for at in (engine, other, engine, other):
                nursery.start_soon(prune, at)

        assert sum(total) == 12
        assert await days(engine) == []


async def test_a_claim_is_under_way_at_midnight(store, engine, where, clock):
    """A day is not dropped while the claim of its last moment may be under way."""
    clock.now = DAY - 1
    await store.once("k", Effect(), policy=IdempotencyPolicy(keep_for=0.5))
    with psycopg.connect(where) as db:
        db.execute(
            "INSERT INTO treewarden.idempotency (key, fingerprint, owner, state, began_at, claimed_at, claimed_until)"
            " SELECT 'last', '', 'me', 'started', at, at, at FROM (SELECT to_timestamp(86399)) AS x (at)"
        )
        clock.pass_(2)
        pruned = trio.Event()

        async def prune():
            await store.prune()
            pruned.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prune)
            while not pruned.is_set() and await ask(engine, WAITING) == [(0,)]:
                await trio.sleep(0.01)
            db.commit()

    assert await store.finish("last", "me", "done", "1", keep_for=60)


async def test_a_key_whose_record_expired(store, clock):
    """An expired record counts no more: the work is done again and kept anew."""
    act = Effect()
    policy = IdempotencyPolicy(keep_for=10)
    await store.once("k", act, policy=policy)
    clock.pass_(3 * DAY)
    await store.once("k", act, policy=policy)
    await store.once("k", act, policy=policy)

    assert act.count == 2


async def test_an_owner_that_lost_its_claim(store, clock):
    """Who let its claim run out can neither prolong nor end it once somebody else has it."""
    await store.claim("k", "", "old", claim_for=10, run_again=True)
    assert await store.extend("k", "old", 10)
    clock.pass_(20)
    assert (await store.claim("k", "", "new", claim_for=10, run_again=True)).again

    assert not await store.extend("k", "old", 10)
    assert not await store.finish("k", "old", "done", "1", keep_for=1)
    assert not await store.forget("k", "old")
    assert await store.finish("k", "new", "failed", "a\0b", keep_for=None)


async def test_a_record_lasts_as_long_as_the_last_job_that_needs_it(engine, clock):
    """While a job of its key is not finished a record is kept and is no reason to act again; afterwards it goes."""
    store, act = PostgresIdempotencyStore(engine, IdempotencyPolicy(keep_for=10)), Effect()

    async def claimed():
        (job,) = await engine.activate(claim())
        assert await store.once_for(job, act) == {"value": 1}
        return job

    await engine.enqueue(NewJob("a", idempotency_key="order-7"))
    await engine.settle((await claimed()).lease, Completed())
    await engine.enqueue(NewJob("a", idempotency_key="order-7"))
    job = await claimed()
    await engine.settle(job.lease, Incident("look"))
    clock.pass_(3 * DAY)

    assert await store.prune() == 0
    assert await days(engine) == [("idempotency_0",)]
    await engine.resolve(job.key)
    await engine.settle((await claimed()).lease, Completed())
    assert act.count == 1
    assert await store.prune() == 1
    assert await days(engine) == []


async def test_an_end_that_is_told_again(store):
    """The end of a piece of work may be told twice by its owner, which did not hear the answer, and by nobody else."""
    await store.claim("k", "", "me", claim_for=30.0, run_again=True)

    for _ in range(2):
        assert await store.finish("k", "me", "done", "1", keep_for=60.0)
    assert not await store.finish("k", "you", "done", "2", keep_for=60.0)
    assert not await store.finish("k", "me", "failed", "no", keep_for=60.0)
