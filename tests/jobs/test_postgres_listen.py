"""Wake-up by NOTIFY: who waits for work on another node hears of it, and where that cannot be, workers poll."""

from __future__ import annotations

import psycopg
import pytest
import trio

from actors.jobs import Failed, JobWorker, NewJob, PutBack, Why
from actors.jobs.postgres import listener
from supervision import Supervisor, Worker, supervisor
from tests.jobs.kit import ask, on_postgres, put, take

PATIENCE = 20.0


class Rings:
    """A listener for one type, and how often it was rung."""

    def __init__(self, engine, of="a"):
        self.count = 0
        self.end = engine.listen(of, self.ring)

    def ring(self):
        self.count += 1

    async def reach(self, count):
        with trio.fail_after(PATIENCE):
            while self.count < count:
                await trio.sleep(0.005)


async def listening(engine, connects=1):
    """Return when it has begun to listen so often."""
    with trio.fail_after(PATIENCE):
        while True:
            seen = (await engine.statistics()).listener
            if seen.listening and seen.connects >= connects:
                return seen
            await trio.sleep(0.005)


@pytest.fixture
async def nodes(where, driver):
    async with on_postgres(where, driver) as one, on_postgres(where, driver) as two:
        await listening(one)
        await listening(two)
        yield one, two


async def test_work_from_elsewhere(nodes):
    """A job enqueued on another node rings once for its type, and once for a whole batch."""
    one, two = nodes
    rings, others = Rings(one), Rings(one, "b")

    await put(two, "x", "y", "z")
    await rings.reach(1)
    await two.enqueue_many(NewJob("a") for _ in range(600))  # by COPY
    await rings.reach(2)
    await put(two, "later", delay=100)
    await put(two, "x")
    await rings.reach(3)

    assert (rings.count, others.count) == (3, 0)


async def test_ones_own_work(nodes):
    """What this node enqueues rings here at once, and not again when its own notification comes."""
    one, two = nodes
    rings = Rings(one)
    await put(one, "x")
    assert rings.count == 1
    await put(two, "y")
    await rings.reach(2)

    assert rings.count == 2


async def test_work_that_goes_back(nodes):
    """A job that is given back, retried at once, resolved, resumed or run early rings on other nodes."""
    one, two = nodes
    await put(two, *"abc")
    jobs = await take(two)
    rings = Rings(one)
    await two.settle(jobs["a"].lease, PutBack(Why.INTERRUPTED))
    await rings.reach(1)
    await two.settle(jobs["b"].lease, Failed("again", 2))
    await rings.reach(2)
    await two.settle(jobs["c"].lease, Failed("no more", 0))
    await two.resolve(jobs["c"].key, 1)
    await rings.reach(3)
    await two.resume("a")
    await rings.reach(4)
    (late,) = await put(two, "late", delay=60.0)
    await two.run_now(late)
    await rings.reach(5)

    assert rings.count == 5


async def test_with_the_callers_commit(nodes, where):
    """A job in the caller's own transaction rings when that is committed, not before."""
    one, two = nodes
    rings = Rings(one)
    with psycopg.connect(where) as db:
        two.enqueue_in(db, NewJob("a"))
        await put(two, "x", of="other")  # a notification that passes by
        heard = (await one.statistics()).listener.heard
        with trio.fail_after(PATIENCE):
            while heard == 0:
                await trio.sleep(0.005)
                heard = (await one.statistics()).listener.heard
        assert rings.count == 0
        db.commit()
    await rings.reach(1)


async def test_a_dead_connection_is_replaced(nodes):
    """When the listening connection dies, another is made, and all workers look once for what was missed."""
    one, two = nodes
    rings = Rings(one)
    await ask(
        one,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE ?",
        "%pg_notify%",
    )
    await listening(one, 2)
    await rings.reach(1)

    before = rings.count
    await put(two, "x")
    await rings.reach(before + 1)


async def test_where_nothing_can_be_heard(where, driver, monkeypatch):
    """Behind a pooler of transactions, which forgets a LISTEN, the engine says that it does not listen, and workers poll."""
    monkeypatch.setattr(listener, "_HEARD_WITHIN", 0.05)
    real = psycopg.Connection.execute

    def forget(db, query, *args, **more):
        if str(query).startswith("b'LISTEN"):
            query = b"SELECT 1"
        return real(db, query, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", forget)
        async with on_postgres(where, driver) as engine:
            with trio.fail_after(PATIENCE):
                while "pooler" not in (await engine.statistics()).listener.problem:
                    await trio.sleep(0.01)
            assert not (await engine.statistics()).listener.listening
            assert "not listening" in repr(engine)
            async with on_postgres(where, driver, pooler=True) as other:
                done = trio.Event()

                async def handler(job, ctx):
                    done.set()

                worker = JobWorker("a", handler, engine=engine, poll=0.05)
                tree = Supervisor("t", [Worker("w", worker)])
                async with supervisor.running(tree, log=False):
                    await put(other, "x")
                    with trio.fail_after(PATIENCE):
                        await done.wait()


async def test_an_idle_worker_is_woken(nodes):
    """A worker that would look for work in an hour takes what another node enqueues at once."""
    one, two = nodes
    done = trio.Event()

    async def handler(job, ctx):
        done.set()

    worker = JobWorker("a", handler, engine=one, poll=3600.0)
    async with supervisor.running(Supervisor("t", [Worker("w", worker)]), log=False) as pool:
        await pool.wait_ready()
        await put(two, "x")
        with trio.fail_after(PATIENCE):
            await done.wait()
