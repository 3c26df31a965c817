"""JobsMachine: job workers and their engine, under all that can befall a tree, and jobs that end in every way.

The engine is one in memory; it can be down or silent for a while, which is when leases run out under those who hold them. What one
worker says can be late, and arrive when somebody else has its jobs.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any, Final

import trio
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from actors.context import Context
from actors.errors import FailWithRetry, IncidentError, PoisonMessage
from actors.jobs.job import Job, NewJob
from actors.jobs.worker import JobWorker
from actors.ref import running
from actors.resilience.backoff import Backoff
from supervision.restart import RestartPolicy
from supervision.specs import AutoShutdown, Supervisor, Worker
from supervision.testing.doubles import Line
from supervision.testing.errors import InjectedFault
from supervision.testing.machine import precondition, rule
from supervision.testing.strategies import STEP
from supervision.testing.tree_machine import TreeMachine

__all__ = ["JobsMachine"]

LEASE: Final = 4.0
_ENDS: Final = ("ok", "ok", "writes", "fails", "snoozes", "deaf", "incident", "poison")
_WAITS: Final = (0.0, 0.5, LEASE, LEASE + 1, 2 * LEASE + 1)


def _nothing(_connection: object) -> None:
    """The effect of a job that writes."""


class JobsMachine(TreeMachine):
    """Two replicas of a job worker, on one engine in memory.

    Override `make` for a tree of your own: it has to set `self.engine`, and the type of its jobs is `self.type`. The handler is
    `handle` unless you bring one.
    """

    schedule_kind = "pct"
    """Jobs make many small steps; of a few large changes of order a failure stays small."""
    type = "job"
    engine: Any

    def __init__(self) -> None:
        super().__init__()
        self.line = Line()
        """The way between workers and engine."""
        self.lines: defaultdict[str, Line] = defaultdict(Line)
        """The part of it that only one replica uses, by path."""
        self.keys: list[str] = []

    def make(self, data: DataObject) -> Supervisor:
        from actors.jobs.sqlite.engines import MemoryEngine

        self.engine = MemoryEngine()
        self.through(self.engine)
        worker = JobWorker(
            self.type,
            self.handle,
            engine=self.engine,
            concurrency=data.draw(st.integers(1, 2)),
            timeout=LEASE,
            renew=data.draw(st.booleans()),
            max_deliveries=3,
            backoff=Backoff(initial=1.0, jitter=0.0),
            random=Random(0),
        )
        policy = RestartPolicy(jitter=0, initial_backoff=0.5, max_restarts=0)
        return Supervisor(
            "t",
            [Worker("w", worker, replicas=2, restart=policy, shutdown=3)],
            auto_shutdown=AutoShutdown.NEVER,
        )

    def through(self, engine: Any) -> None:
        """Let what workers say to an engine go over the line."""
        for name in ("exchange", "extend"):
            setattr(engine, name, self._crossing(getattr(engine, name)))

    def _crossing(self, real: Any) -> Any:
        async def call(*args: Any) -> Any:
            run = running.get()
            if run is not None:
                await self.lines[run.mailbox.path].cross()
            await self.line.cross()
            return await real(*args)

        return call

    async def handle(self, job: Job, _ctx: Context) -> None:
        """What becomes of a job, as its variables say."""
        end, seconds = job.variables["end"], job.variables["seconds"]
        with trio.CancelScope(shield=end == "deaf"):
            await trio.sleep(seconds)
        if end == "writes":
            await job.transaction(_nothing)
        elif end == "fails":
            raise InjectedFault(f"job {job.key}")
        elif end == "snoozes" and not job.snoozes:
            raise FailWithRetry("later", retry_in=1.0)
        elif end == "incident":
            raise IncidentError("somebody has to look")
        elif end == "poison":
            raise PoisonMessage("it never works")

    # -- rules -----------------------------------------------------------------------------------

    @rule(data=st.data(), count=st.sampled_from([0, 1, 1, 2, 2, 3, 3]))
    def put(self, data: DataObject, count: int) -> None:
        """Jobs come."""
        if count:
            self.enqueue(
                count, data.draw(st.sampled_from(_ENDS)), data.draw(st.sampled_from(_WAITS))
            )

    def enqueue(self, count: int, end: str, seconds: float) -> None:
        """Give the engine jobs that end like that, after so long."""
        jobs = [NewJob(self.type, {"end": end, "seconds": seconds})] * count
        self.keys += [one.key for one in self.sim.run(self.engine.enqueue_many, jobs)]

    @rule(seconds=st.sampled_from([0.5, LEASE, LEASE + 1, 2 * LEASE + 1]))
    def work(self, seconds: float) -> None:
        """Time passes, as long as jobs take and leases last."""
        self.sim.advance(seconds)

    @rule(silent=st.booleans(), seconds=st.sampled_from([LEASE + 1, 1.0, LEASE]))
    def outage(self, seconds: float, *, silent: bool) -> None:
        """The engine fails for a while, or answers nobody."""
        self.line.down, self.line.silent = not silent, silent
        self.sim.advance(seconds)
        self.line.down = self.line.silent = False

    @precondition(lambda self: self.running and self.workers())
    @rule(
        which=st.integers(0, 1),
        end=st.sampled_from(["ok", "fails", "snoozes"]),
        seconds=st.sampled_from([1.0, 0.5, LEASE - STEP]),
        late=st.sampled_from([LEASE + STEP, LEASE - STEP]),
    )
    def overtake(self, which: int, end: str, seconds: float, late: float) -> None:
        """A job comes, and what one worker says then arrives late: somebody else may have the job by then."""
        self.enqueue(1, end, seconds)
        workers = self.workers()
        line = self.lines[workers[which % len(workers)]]
        line.held = True
        self.sim.advance(late)
        line.held = False

    @precondition(lambda self: self.keys)
    @rule(which=st.integers(0, 3))
    def cancel(self, which: int) -> None:
        """An operator ends one of the last jobs; nothing happens if there are not so many."""
        if which < len(self.keys):
            self.sim.run(self.engine.cancel, self.keys[-1 - which])
