"""Job workers under whatever comes: failures, snoozes, long handlers, stops, restarts, and an engine that stumbles."""

from __future__ import annotations

from random import Random

import trio
from hypothesis import given, settings, strategies as st

from actors.errors import FailWithRetry
from actors.jobs import MemoryEngine, NewJob
from tests.jobs.kit import states
from tests.jobs.tree import EVERY_SECOND, at_work, worker

WAYS = st.sampled_from(["fail", "snooze", "slow", "long", "deaf", "after"])
SCRIPTS = st.lists(st.lists(WAYS, max_size=3), min_size=1, max_size=12)
SPECS = st.lists(
    st.fixed_dictionaries(
        {
            "concurrency": st.integers(1, 4),
            "more": st.integers(0, 4),
            "renew": st.booleans(),
            "grace": st.sampled_from([None, 0.5, 3.0]),
        }
    ),
    min_size=1,
    max_size=3,
)
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["restart", "stumble", "lapse", "wait"]),
        st.sampled_from([0.0, 0.3, 2.0, 7.0]),
    ),
    max_size=8,
)


class World:
    """The handlers' side: what each run of each job does, and what was seen of it."""

    def __init__(self, engine: MemoryEngine, scripts: list[list[str]]) -> None:
        self.engine = engine
        self.scripts = scripts
        self.runs = [0] * len(scripts)
        self.running: dict[str, int] = {}
        self.most: dict[str, int] = {}

    async def handle(self, job, ctx):
        self.running[ctx.path] = self.running.get(ctx.path, 0) + 1
        self.most[ctx.path] = max(self.most.get(ctx.path, 0), self.running[ctx.path])
        try:
            await self._act(job)
        finally:
            self.running[ctx.path] -= 1

    async def _act(self, job):
        n = job.variables["n"]
        script, run = self.scripts[n], self.runs[n]
        self.runs[n] += 1
        way = script[run] if run < len(script) else "well"
        if way == "fail":
            raise ValueError
        if way == "snooze":
            raise FailWithRetry(retry_in=1)
        if way in ("slow", "long"):
            await trio.sleep(2 if way == "slow" else 12)
        if way == "deaf":
            with trio.CancelScope(shield=True):
                await trio.sleep(7)
        await job.transaction(self._effect, n)
        if way == "after":
            raise ValueError

    @staticmethod
    def _effect(db, n):
        db.execute("INSERT INTO effects VALUES (?)", (n,))


def stumbling(engine):
    """Make the engine fail for a while, on demand."""
    down = [0.0]
    exchange, extend = engine.exchange, engine.extend

    def guarded(real):
        async def call(*args):
            await trio.lowlevel.checkpoint()
            if trio.current_time() < down[0]:
                raise OSError("stumbled")
            return await real(*args)

        return call

    engine.exchange, engine.extend = guarded(exchange), guarded(extend)
    return down


@settings(max_examples=max(20, settings.default.max_examples // 2))
@given(scripts=SCRIPTS, specs=SPECS, acts=ACTS)
async def test_every_job_ends_once(autojump_clock, scripts, specs, acts):
    """Whatever happens, each job is completed, its effect is there once, and no worker has more than its places."""
    engine = MemoryEngine("shop")
    await engine.run(lambda db: db.execute("CREATE TABLE effects (n)"))
    world, down = World(engine, scripts), stumbling(engine)
    workers = [
        worker(
            world.handle,
            engine,
            concurrency=spec["concurrency"],
            max_jobs_activated=min(spec["concurrency"] + spec["more"], 2 * spec["concurrency"]),
            renew=spec["renew"],
            grace=spec["grace"],
            timeout=6,
            max_deliveries=1000,
            backoff=EVERY_SECOND,
            random=Random(n),
        )
        for n, spec in enumerate(specs)
    ]
    await engine.enqueue_many(NewJob("a", {"n": n}, retries=9) for n in range(len(scripts)))
    async with at_work(*workers, shutdown=5) as seen:
        for act, wait in acts:
            if act == "restart":
                await seen.pool.restart("shop/w0")
            elif act == "stumble":
                down[0] = trio.current_time() + wait
            elif act == "lapse":
                await engine.run(lambda db: db.execute("UPDATE jobs SET lease_until = 0"))
                engine.wake("a")
            await trio.sleep(wait)
        with trio.fail_after(3000):
            while (await states(engine)) != {"completed": len(scripts)}:
                await trio.sleep(1)
    rows = await engine.run(lambda db: db.execute("SELECT n FROM effects ORDER BY n").fetchall())

    assert [row[0] for row in rows] == list(range(len(scripts)))
    assert all(n == 0 for n in world.running.values())
    for path, most in world.most.items():
        assert most <= specs[int(path.split("/")[1][1:])]["concurrency"]
    assert seen.outcomes().count("completed") == len(scripts)
    assert "Failed" not in seen.kinds()
