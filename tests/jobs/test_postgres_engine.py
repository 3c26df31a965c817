"""The engine on PostgreSQL: its connections, its commits, and what only a server has."""

from __future__ import annotations

import functools
import os
import signal
import socket
import threading

import psycopg
import pytest
import trio

from actors.jobs import Completed, NewJob, PutBack, Settlement, State, Why, open_postgres
from actors.jobs.errors import EngineUnreachable, NotStorable
from actors.jobs.postgres import admin, native, threads
from tests.jobs.kit import ask, back, claim, database, on_postgres, put, states, take

KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid != pg_backend_pid()"
)


def opener(where, driver):
    """Opens engines on a database; knows where it is."""
    make = functools.partial(on_postgres, where, driver)
    make.where = where
    return make


@pytest.fixture
async def open_one(driver):
    """Opens engines on one database."""
    async with database() as where:
        yield opener(where, driver)


@pytest.fixture
async def open_untouched(driver):
    """Opens engines on a database whose planner knows nothing yet."""
    async with database(untouched=True) as where:
        yield opener(where, driver)


def kill_all(where):
    """End all connections of the database but the one that does it."""
    with psycopg.connect(where, autocommit=True) as db:
        while db.execute(KILL).fetchall():
            pass  # until they are gone


def cut_off(db):
    """A statement on a connection that breaks without a word."""
    with socket.socket(fileno=os.dup(db.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
    db.execute("SELECT 1")


async def test_idle_connections_that_died(open_one):
    """Connections that died while nobody used them are replaced before the next call, which notices nothing."""
    async with open_one() as engine:
        await put(engine, "x")
        await ask(engine, "SELECT 1")
        kill_all(open_one.where)

        assert list(await take(engine)) == ["x"]
        assert await states(engine) == {"active": 1}
        seen = await engine.statistics()

    assert seen.workers.connects + seen.calls.connects > 2


async def test_a_connection_lost_in_use(open_one):
    """A transaction whose connection is lost raises, says that it may be done, and the next call works."""
    async with open_one() as engine:
        with pytest.raises(EngineUnreachable, match="may or may not") as info:
            await engine.run(cut_off)

        assert info.value.unsure
        assert await states(engine) == {}
        assert (await engine.statistics()).calls.failures == 1


async def test_a_server_process_that_is_told_to_end(open_one):
    """What a server process says it has undone is told as not done; a worker's call is repeated without a word."""
    async with open_one(connections=1) as engine:
        with pytest.raises(EngineUnreachable, match="nothing was done") as info:
            await ask(engine, "SELECT pg_terminate_backend(pg_backend_pid())")

        assert not info.value.unsure
        for n in range(5):
            await put(engine, str(n))
            kill_all(open_one.where)
        assert len(await take(engine)) == 5


async def test_a_settlement_in_doubt(open_one, monkeypatch):
    """What was settled in an exchange whose answer was lost is not called late when it is told again."""
    async with open_one() as engine:
        await put(engine, *"abc")
        jobs = await take(engine)
        told = [
            Settlement(jobs["a"].lease, Completed()),
            Settlement(jobs["b"].lease, back(Why.INTERRUPTED)),
        ]
        real = engine._hot.run

        async def lose(task):
            await real(task)
            raise EngineUnreachable("the server", "cut off", unsure=True)

        with monkeypatch.context() as patch:
            patch.setattr(engine._hot, "run", lose)
            with pytest.raises(EngineUnreachable):
                await engine.exchange(told)
        await engine.cancel(jobs["c"].key)
        more = [*told, Settlement(jobs["c"].lease, Completed())]

        assert (await engine.exchange(more)).refused == {jobs["c"].lease}
        assert (await engine.exchange(told)).refused == {one.lease for one in told}


async def test_a_transaction_in_doubt(open_one, monkeypatch):
    """A job's transaction whose commit was not heard of is looked up, and counts if it was committed."""
    async with open_one() as engine:
        await put(engine, *"ab")
        jobs = await take(engine)
        real = engine._calls.call

        async def lose(fn, **more):
            await real(fn, **more)
            raise EngineUnreachable("the server", "cut off", unsure=True)

        async def never(fn, **more):
            await trio.lowlevel.checkpoint()
            raise EngineUnreachable("the server", "cut off", unsure=True)

        monkeypatch.setattr(engine._calls, "call", lose)
        assert await jobs["a"].transaction(lambda db: {"paid": 1}) == {"paid": 1}
        monkeypatch.setattr(engine._calls, "call", never)
        with pytest.raises(EngineUnreachable):
            await jobs["b"].transaction(lambda db: {"paid": 2})

        assert (await engine.find(jobs["a"].key)).state is State.COMPLETED
        assert (await engine.find(jobs["b"].key)).state is State.ACTIVE


async def test_a_large_batch(open_one):
    """A batch large enough for COPY is all there, in order, with all that its jobs say."""
    async with open_one() as engine:
        jobs = [
            NewJob("a", {"name": f"{n}\t\\ü"}, priority=n % 2, delay=10.0 * (n % 3), retries=7)
            for n in range(1200)
        ]
        done = await engine.enqueue_many(jobs)

        assert [int(one.key) for one in done] == sorted(int(one.key) for one in done)
        assert len({one.key for one in done}) == 1200
        info = await engine.find(done[5].key)
        assert (info.state, info.priority, info.retries) == (State.SCHEDULED, 1, 7)
        assert info.variables == '{"name":"5\\t\\\\ü"}'
        assert 10 < info.due_in <= 20
        assert sum((await states(engine)).values()) == 1200
        (first,) = await engine.activate(claim(1))
        assert first.key == done[3].key  # the first of those that are due and urgent


async def test_a_large_batch_with_unique_jobs(open_one):
    """Unique jobs of a large batch are kept apart from those that are there, and the rest goes in."""
    async with open_one() as engine:
        there = await engine.enqueue(NewJob("a", unique="u7"))
        jobs = [NewJob("a", unique=f"u{n % 600}" if n % 2 else None) for n in range(1200)]
        done = await engine.enqueue_many(jobs)

        assert not done[7].created
        assert done[7].key == done[607].key == there.key
        assert done[9].created
        assert done[609] == (done[9].key, False)
        assert sum((await states(engine)).values()) == 900


async def test_unique_jobs_by_many(open_one):
    """However many enqueue one unique job at once, it is there once, and all are told its key."""
    async with open_one(connections=4) as engine:
        found = []

        async def one():
            found.append(await engine.enqueue(NewJob("a", unique="u")))

        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(one)

        assert len({one.key for one in found}) == 1
        assert sum(one.created for one in found) == 1


async def test_a_limit_holds_for_all_nodes(open_one):
    """Nodes that claim at once never get more of a limited type than its limit."""
    async with open_one(connections=2) as one, open_one(connections=2) as two:
        await put(one, *map(str, range(40)))
        await one.limit("a", 5)
        found = []

        async def claims(engine, by):
            for _ in range(4):
                found.extend(await engine.activate(claim(3, by=by)))

        async with trio.open_nursery() as nursery:
            for n in range(4):
                nursery.start_soon(claims, one, f"one {n}")
                nursery.start_soon(claims, two, f"two {n}")

        assert len(found) == len({job.key for job in found}) == 5


async def test_a_period_fires_once_on_many_nodes(open_one):
    """Of nodes that look at a schedule at once, one enqueues its job."""
    async with open_one(connections=3) as one, open_one(connections=3) as two:
        found = []

        async def look(engine):
            found.append(await engine.fire("nightly", 1e6, 0, NewJob("a")))

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(look, one)
                nursery.start_soon(look, two)

        assert sum(fired.key is not None for fired in found) == 1
        assert await states(one) == {"ready": 1}


async def test_the_callers_own_connection(open_one):
    """A job enqueued on a connection of the caller's is there when the caller commits, whatever the engine does meanwhile."""
    async with open_one() as engine:
        with psycopg.connect(open_one.where) as db:
            engine.enqueue_in(
                db, NewJob("a", {"name": "x"}), NewJob("a", {"name": "y"}, unique="u")
            )
            assert await take(engine) == {}
            db.commit()

        assert list(await take(engine)) == ["x", "y"]


async def test_texts_that_no_database_takes(open_one):
    """What PostgreSQL has no character for is refused in a name and kept in variables; in a reason it is replaced."""
    async with open_one() as engine:
        for job in (NewJob("\0"), NewJob("a", unique="\0"), NewJob("a", idempotency_key="\0")):
            with pytest.raises(NotStorable, match="no character"):
                await engine.enqueue(job)
        key = (await engine.enqueue(NewJob("a", {"name": "\0"}))).key
        job = (await take(engine))["\0"]
        await engine.settle(job.lease, PutBack(Why.SNOOZED, "a\0b"))

        assert (await engine.find(key)).error == "a\ufffdb"


async def test_stored_variables_that_are_no_object(open_one):
    """Variables that somebody else has spoilt in the database set their job aside instead of stopping the worker."""
    async with open_one() as engine:
        await put(engine, *"ab")
        await ask(engine, "UPDATE {s}jobs SET variables = '[1]' WHERE variables ->> 'name' = 'a'")

        found = await engine.exchange((), claim())

        assert [job.variables for job in found.jobs] == [{"name": "b"}]
        assert [(one.variables, one.deliveries) for one in found.poisoned] == [("[1]", 1)]
        assert await engine.poison() == found.poisoned
        assert await states(engine) == {"active": 1, "incident": 1}


async def test_pruned_in_batches(open_one, monkeypatch):
    """More finished jobs than one batch are deleted all the same."""
    monkeypatch.setattr(admin, "PRUNED_AT_ONCE", 3)
    async with open_one() as engine:
        keys = await put(engine, *"abcdefgh")
        for key in keys[:7]:
            await engine.cancel(key)
        await ask(engine, "UPDATE {s}jobs SET finished_at = finished_at - interval '1 h'")

        assert await engine.prune(60) == 7
        assert await states(engine) == {"ready": 1}


async def test_hot_statements_go_by_index(open_untouched):
    """What workers ask for reads no table from end to end, also when the planner knows nothing of it."""
    async with open_untouched(connections=1) as engine:
        await put(engine, *map(str, range(50)))
        for _ in range(3):
            jobs = await engine.activate(claim(5, by="w"))
            await engine.extend([job.lease for job in jobs], 60)
            await engine.exchange([Settlement(job.lease, Completed()) for job in jobs], claim(5))
        rows = await ask(engine, "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'jobs'")
        assert rows  # the statistics of the connections that ran them come when those end

    with psycopg.connect(open_untouched.where) as db:
        (scans,) = db.execute(
            "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'jobs' AND schemaname = 'treewarden'"
        ).fetchone()
        assert scans <= rows[0][0] + 1


FEW = (State.READY, State.SCHEDULED, State.ACTIVE, State.INCIDENT)


async def test_lists_go_by_index(open_untouched):
    """To list what is not finished reads no table from end to end, whether or not the planner knows anything."""
    plans = admin.Admin("shop", "treewarden", {}, None)
    steps = [next(plans.jobs(state, of, 100)) for state in FEW for of in (None, "a")]

    def looked_at(db):
        explained = []
        for step in steps:
            rows = db.execute(b"EXPLAIN " + step.sql, step.values).fetchall()
            explained.append("".join(row[0] for row in rows))
        return explained

    async with open_untouched() as engine:
        # Else the server may look at the table in between, and believe that most jobs are ready.
        await ask(engine, "ALTER TABLE {s}jobs SET (autovacuum_enabled = false)")
        await put(engine, *map(str, range(3000)))
        await ask(engine, "UPDATE {s}jobs SET state = 'completed', finished_at = now()")
        for _ in ("unknown", "known"):
            for text in await engine.run(looked_at):
                assert "Seq Scan" not in text, text
            await ask(engine, "ANALYZE {s}jobs")


async def test_lists_and_writers_leave_each_other_alone(open_one):
    """While others have all jobs locked they are listed as they were, and nobody waits."""
    async with open_one() as engine, open_one() as other:
        keys = await put(engine, "x", "y")
        begun, over = trio.Event(), threading.Event()

        def hold(db):
            db.execute("UPDATE treewarden.jobs SET state = 'incident'")
            trio.from_thread.run_sync(begun.set, trio_token=token)
            over.wait()

        token = trio.lowlevel.current_trio_token()
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.run, hold)
                await begun.wait()
                try:
                    assert [info.key for info in await engine.jobs("ready")] == keys
                    assert await engine.jobs("incident") == ()
                finally:
                    over.set()
            assert [info.key for info in await engine.jobs("incident")] == keys


async def test_calls_that_wait_share_a_commit(where):
    """What several workers ask for while the connection is busy is one commit."""
    async with open_postgres(where, connections=1) as engine:
        await put(engine, "first")
        before = (await engine.statistics()).workers.commits
        async with trio.open_nursery() as nursery:
            for n in range(12):
                nursery.start_soon(engine.activate, claim(1, by=f"w{n}"))
        commits = (await engine.statistics()).workers.commits - before

    assert commits <= 4


async def test_one_that_fails_takes_nothing_with_it(where):
    """A call that the server refuses fails alone, though it waited with others for one commit."""
    async with open_postgres(where, connections=1) as engine:
        await put(engine, "x")
        lease = (await take(engine))["x"].lease
        heard = []

        async def too_far():
            with pytest.raises(psycopg.Error):
                await engine.extend([lease], 1e300)
            heard.append("refused")

        async def fine(n):
            await put(engine, f"n{n}")
            heard.append("stored")

        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(fine, n)
            nursery.start_soon(too_far)

        assert sorted(heard) == ["refused", *["stored"] * 5]
        assert await states(engine) == {"active": 1, "ready": 5}


async def test_nothing_to_say_among_others(where):
    """Calls that need no statement at all may wait with others for one commit."""
    async with open_postgres(where, connections=1) as engine:
        await put(engine, "x")
        async with trio.open_nursery() as nursery:
            for n in range(6):
                nursery.start_soon(engine.exchange)
                nursery.start_soon(put, engine, f"n{n}")

        assert await states(engine) == {"ready": 7}


async def test_a_frozen_server_and_trio(where, monkeypatch):
    """Driven by Trio, a server that says nothing for long is taken to be gone, and what it was at may be done."""
    monkeypatch.setattr(native, "_SILENCE", 0.3)
    with trio.fail_after(30):
        async with open_postgres(where, driver="native", connections=1) as engine:
            await put(engine, "x")
            pids = await ask(
                engine,
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND query LIKE ?",
                "%INSERT INTO treewarden.jobs%",
            )
            (pid,) = {pid for (pid,) in pids} - {os.getpid()}
            os.kill(pid, signal.SIGSTOP)
            try:
                with pytest.raises(EngineUnreachable, match="no answer") as info:
                    await put(engine, "y")
                assert info.value.unsure
            finally:
                os.kill(pid, signal.SIGCONT)
            await put(engine, "z")


async def test_a_frozen_server(where, monkeypatch):
    """A cancelled caller of a server that does not answer hears after a while that nothing is known, and the program ends."""
    monkeypatch.setattr(threads, "_PATIENCE", 0.2)
    with trio.fail_after(30):
        async with open_postgres(where, connections=1) as engine:
            ((pid,),) = await ask(engine, "SELECT pg_backend_pid()")
            os.kill(pid, signal.SIGSTOP)
            try:
                with pytest.raises(EngineUnreachable, match="no answer") as info:
                    with trio.move_on_after(0.1):
                        await ask(engine, "SELECT 1")
                assert info.value.unsure
                await engine.aclose()
            finally:
                os.kill(pid, signal.SIGCONT)


async def test_it_shows_its_state(open_one):
    """Its statistics count the jobs and show the connections."""
    async with open_one(connections=3) as engine:
        await put(engine, "x")
        seen = await engine.statistics()
        assert (seen.workers.size, seen.workers.open, seen.workers.calls) == (3, 1, 1)
        assert (seen.calls.size, seen.calls.open, seen.calls.waiting) == (3, 1, 0)
        assert "1 of 3 connections" in repr(engine)
    assert "closed" in repr(engine)
    with pytest.raises(trio.ClosedResourceError):
        await put(engine, "y")
