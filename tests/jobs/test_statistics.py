"""What job workers and the file engine say of themselves."""

from __future__ import annotations

import attrs
import trio

from actors.jobs import FailWithRetry, MemoryEngine, NewJob, open_sqlite
from tests.jobs.tree import at_work, one, worker


async def test_a_job_worker_at_work(autojump_clock):
    """A job worker counts its runs, what they have in hand, and how its jobs have ended, also in runs that are over."""
    engine = MemoryEngine("shop")

    async def handler(job, ctx):
        if job.variables.get("later"):
            raise FailWithRetry("later", retry_in=1000)
        await trio.sleep(10)

    spec = worker(handler, engine, concurrency=1, max_jobs_activated=2)
    assert repr(spec).startswith("JobWorker('a', test_a_job_worker_at_work")
    assert "0x" not in repr(spec)
    seen = spec.statistics()
    assert (seen.runs, seen.places, seen.settled) == (0, 0, {})

    async with at_work(spec, replicas=2):
        await engine.enqueue(NewJob("a", {"later": True}))
        await trio.sleep(1)
        await engine.enqueue_many(NewJob("a") for _ in range(4))
        await trio.sleep(1)
        seen = spec.statistics()
        assert (seen.runs, seen.places) == (2, 2)
        assert (seen.running, seen.waiting, seen.untold, seen.failing) == (2, 2, 0, 0)
        assert (seen.closed_by, seen.settled) == (frozenset(), {"snoozed": 1})
        await trio.sleep(30)
    seen = spec.statistics()

    assert (seen.runs, seen.running) == (0, 0)
    assert seen.settled == {"snoozed": 1, "completed": 4}


async def test_a_worker_whose_engine_fails(autojump_clock, monkeypatch):
    """A run whose engine fails is counted while it does."""
    engine = MemoryEngine("shop")
    real = engine.exchange

    async def fail(*args):
        await trio.lowlevel.checkpoint()
        raise OSError("down")

    async def handler(job, ctx):
        pass

    spec = worker(handler, engine)
    async with at_work(spec):
        await trio.sleep(1)
        monkeypatch.setattr(engine, "exchange", fail)
        await one(engine)
        await trio.sleep(10)
        assert spec.statistics().failing == 1
        monkeypatch.setattr(engine, "exchange", real)
        await trio.sleep(10)
        assert spec.statistics().failing == 0


async def test_a_database_and_its_thread(tmp_path):
    """The file engine counts its calls and commits, and shows its thread."""
    async with open_sqlite(tmp_path / "x.db") as engine:
        await engine.enqueue(NewJob("a"))
        await engine.find("1")
        seen = await engine.statistics()
        assert (seen.database.open, seen.database.waiting) == (True, 0)
        assert (seen.database.calls, seen.database.commits) == (3, 1)
        assert "open" in repr(engine)
    assert "closed" in repr(engine)


async def test_an_end_that_was_not_heard_of(autojump_clock):
    """A completion whose answer was lost counts as one, whatever a renewal meanwhile made of a lease that is over."""
    renewals = []

    class Lossy(MemoryEngine):
        """Loses the answer to the first settlement, and knows it again, as engines do that keep what is in doubt."""

        doubtful = frozenset()

        async def exchange(self, settlements=(), claim=None):
            found = await super().exchange(settlements, claim)
            if settlements and not self.doubtful:
                self.doubtful = frozenset(one.lease for one in settlements)
                await trio.sleep(2)
                raise ConnectionError("lost")
            return attrs.evolve(found, refused=found.refused - self.doubtful)

        async def extend(self, leases, seconds):
            renewals.append(lost := await super().extend(leases, seconds))
            return lost

    engine = Lossy("shop")

    async def handler(job, ctx):
        pass

    async with at_work(worker(handler, engine, timeout=3)) as seen:
        key = await one(engine)
        await trio.sleep(5)

    assert any(renewals)
    assert (await engine.find(key)).state == "completed"
    assert seen.outcomes(key) == ["completed"]
