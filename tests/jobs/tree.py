"""A tree with job workers under test, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

import attrs

from actors import Backoff, Event
from actors.jobs import Engine, JobWorker, NewJob
from supervision import Pool, RestartPolicy, Supervisor, Worker, supervisor

EVERY_SECOND = Backoff(initial=1, factor=1, maximum=1, jitter=0)
AT_ONCE = RestartPolicy(type="permanent", initial_backoff=0, jitter=0, max_restarts=0)


@attrs.define
class Seen:
    """The pool, and what was reported."""

    pool: Pool
    events: list[Event]

    def outcomes(self, key: str | None = None) -> list[str]:
        """What became of jobs, in order."""
        return [e.outcome for e in self.events if e.kind == "JobSettled" and key in (None, e.job)]

    def times(self, kind: str, **fields) -> list[float]:
        """When events of this kind were reported."""
        return [
            e.time
            for e in self.events
            if e.kind == kind and all(getattr(e, k) == v for k, v in fields.items())
        ]

    def kinds(self) -> set[str]:
        return {e.kind for e in self.events}


def worker(handler, engine: Engine, job_type: str = "a", **options) -> JobWorker:
    """A job worker with exact waits."""
    options = {"backoff": EVERY_SECOND, "random": Random(1), **options}
    return JobWorker(job_type, handler, engine=engine, **options)


@asynccontextmanager
async def at_work(
    *workers: JobWorker, shutdown: float = 15, restart: RestartPolicy = AT_ONCE, **more
) -> AsyncGenerator[Seen]:
    """A tree with these workers, `w0`, `w1` and so on."""
    children = [
        Worker(f"w{n}", run, shutdown=shutdown, restart=restart, **more)
        for n, run in enumerate(workers)
    ]
    events: list[Event] = []
    tree = Supervisor("shop", children, intensity=100, period=60)
    async with supervisor.running(
        tree, log=False, stop_timeout=1000, listeners=[events.append]
    ) as pool:
        yield Seen(pool, events)


async def one(engine: Engine, of: str = "a", **more) -> str:
    """Enqueue one job and return its key."""
    return (await engine.enqueue(NewJob(of, **more))).key
