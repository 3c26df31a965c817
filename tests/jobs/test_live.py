"""Job workers on a real file, in real time: threads, several engines on one file, and what is counted."""

from __future__ import annotations

import pytest
import trio

from actors.jobs import JobWorker, NewJob, SQLIdempotencyStore, State, open_sqlite
from supervision import Supervisor, Worker, supervisor
from supervision.metrics import TreeMeter
from supervision.tree import Tree
from tests.jobs.kit import put, states


def shop(*workers: JobWorker) -> Supervisor:
    return Supervisor("shop", [Worker(f"w{n}", run) for n, run in enumerate(workers)])


async def all_done(engine, n):
    with trio.fail_after(30):
        while (await states(engine)).get("completed") != n:
            await trio.sleep(0.01)


async def test_two_engines_on_one_file(tmp_path):
    """Workers of two engines on one file share its jobs, and each job is handled once, its effect stored once."""
    handled = []

    async def handler(job, ctx):
        handled.append((ctx.name, job.key))
        await job.transaction(
            lambda db: db.execute("INSERT INTO effects VALUES (?)", (job.key,)) and None
        )

    async with open_sqlite(tmp_path / "x.db") as one, open_sqlite(tmp_path / "x.db") as two:
        await one.run(lambda db: db.execute("CREATE TABLE effects (key)"))
        tree = shop(*[JobWorker("a", handler, engine=e, poll=0.02) for e in (one, two)])
        async with supervisor.running(tree, log=False):
            await put(one, *map(str, range(200)))
            await all_done(one, 200)
        rows = await two.run(lambda db: db.execute("SELECT key FROM effects").fetchall())

    assert sorted(int(row[0]) for row in rows) == list(range(1, 201))
    assert len(handled) == 200


async def test_a_stop_leaves_nothing_active(tmp_path):
    """After a stop in the middle of work no job is active, and what was interrupted has its attempt back."""

    async def handler(job, ctx):
        await trio.sleep_forever()

    async with open_sqlite(tmp_path / "x.db") as engine:
        keys = await put(engine, *map(str, range(20)))
        worker = JobWorker("a", handler, engine=engine, max_jobs_activated=8, grace=0.05)
        async with supervisor.running(shop(worker), log=False):
            with trio.fail_after(30):
                while (await states(engine)).get("active") != 8:
                    await trio.sleep(0.01)
        infos = [await engine.find(key) for key in keys]

    assert {(i.state, i.attempt, i.deliveries, i.retries) for i in infos} == {
        (State.READY, 0, 0, 3)
    }


async def test_one_commit_for_a_batch(tmp_path):
    """Quick jobs are settled and claimed by the batch: far fewer commits than jobs."""

    async def handler(job, ctx):
        pass

    async with open_sqlite(tmp_path / "x.db") as engine:
        await engine.enqueue_many(NewJob("a", {"n": n}) for n in range(500))
        before = engine._runner.commits
        async with supervisor.running(
            shop(JobWorker("a", handler, engine=engine, concurrency=50)), log=False
        ):
            await all_done(engine, 500)
        commits = engine._runner.commits - before

    assert commits <= 50


@pytest.fixture
def meters(monkeypatch):
    """The numbers of each tree that is made."""
    found = []
    begin = Tree.__init__

    def watched(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        found.append(TreeMeter(self))

    monkeypatch.setattr(Tree, "__init__", watched)
    return found


async def test_what_is_counted(tmp_path, meters):
    """Jobs are counted by type and outcome, and results that were there already by type."""

    async def act():
        return 1

    async with open_sqlite(tmp_path / "x.db") as engine:
        store = SQLIdempotencyStore(engine)

        async def handler(job, ctx):
            await store.once("the same for all", act)
            if job.variables["name"] == "bad":
                raise ValueError

        await put(engine, "good", "fine", "bad", retries=1)
        worker = JobWorker("a", handler, engine=engine, concurrency=1)
        async with supervisor.running(shop(worker), log=False):
            await all_done(engine, 2)
            with trio.fail_after(30):
                while (await states(engine)).get("incident") != 1:
                    await trio.sleep(0.01)
            values = meters[0].read().values

    assert values["wf_worker_jobs_handled_total"] == {
        ("a", "success"): 2,
        ("a", "incident"): 1,
    }
    assert values["wf_worker_idempotency_cache_hits_total"] == {("w0",): 2}
