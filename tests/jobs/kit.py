"""What the tests of jobs share: a clock by hand, both engines, and short forms."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from actors.jobs import (
    Claim,
    Completed,
    Engine,
    Failed,
    MemoryEngine,
    NewJob,
    PutBack,
    Why,
    open_sqlite,
)

ENGINES = ("memory", "sqlite")


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@asynccontextmanager
async def opened(kind: str, folder: Path, clock: Clock, **more) -> AsyncGenerator[Engine, None]:
    """An engine of the kind, on this clock."""
    if kind == "memory":
        yield MemoryEngine("shop", clock=clock, **more)
    else:
        async with open_sqlite(folder / "shop.db", clock=clock, **more) as engine:
            yield engine


def claim(most: int = 10, *, of: str = "a", lease: float = 60.0, by: str = "w1", **more) -> Claim:
    """A claim."""
    return Claim(type=of, most=most, lease=lease, worker=by, **more)


async def put(engine: Engine, *names: str, of: str = "a", **more) -> list[str]:
    """Enqueue one job for each name and return their keys."""
    done = await engine.enqueue_many([NewJob(of, {"name": name}, **more) for name in names])
    return [one.key for one in done]


async def take(engine: Engine, most: int = 10, **more):
    """Claim jobs, by name."""
    return {job.variables["name"]: job for job in await engine.activate(claim(most, **more))}


async def states(engine: Engine, of: str = "a") -> dict[str, int]:
    """How many jobs are in which state."""
    return dict((await engine.statistics()).jobs.get(of, {}))


DONE = Completed()


def back(why: Why, retry_in: float = 0.0) -> PutBack:
    """A job put back."""
    return PutBack(why, "a reason", retry_in)


def failed(retries: int, retry_in: float = 0.0) -> Failed:
    """A failure."""
    return Failed("it broke", retries, retry_in)
