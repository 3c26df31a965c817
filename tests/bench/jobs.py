"""Jobs: a worker with 32 places whose handler does nothing, and putting jobs in, on each engine.

What is measured begins with a database that holds all jobs, and ends when a tree with the worker has started, done all of them and
stopped, so that the engine has every outcome.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import trio

from actors.context import Context
from actors.jobs import Engine, Job, JobWorker, NewJob, open_postgres, open_sqlite
from supervision import Supervisor, Worker, supervisor
from tests.bench.meter import Work
from tests.bench.servers import POSTGRES

__all__ = ["PLACES", "database", "fill", "postgres", "sqlite"]

PLACES = 32
"""Handlers at once, and jobs in a batch of those that are put in."""
Opener = Callable[[], AbstractAsyncContextManager[Engine]]


def sqlite(synchronous: Literal["NORMAL", "FULL"]) -> Opener:
    """A new file."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Engine]:
        with tempfile.TemporaryDirectory(prefix="treewarden-bench-") as folder:
            async with open_sqlite(Path(folder) / "jobs.db", synchronous=synchronous) as engine:
                yield engine

    return opened


def database() -> str:
    """The URL of a new database of the server that the benchmark has started."""
    import psycopg

    url = os.environ[POSTGRES]
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")
        db.execute("CREATE DATABASE bench")
        db.execute("CHECKPOINT")
    return f"{url.rpartition('/')[0]}/bench"


def postgres(driver: Literal["threads", "native"], connections: int = 1) -> Opener:
    """A new database."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Engine]:
        async with open_postgres(database(), driver=driver, connections=connections) as engine:
            yield engine

    return opened


async def fill(engine: Engine, n: int) -> None:
    """Put `n` jobs in, as fast as it goes."""
    for begin in range(0, n, 5_000):
        await engine.enqueue_many([_new(i) for i in range(begin, min(begin + 5_000, n))])


def _new(i: int) -> NewJob:
    return NewJob("noop", {"n": i})


async def _work(opener: Opener, n: int, replicas: int = 1) -> dict[str, float]:
    left, done = n, trio.Event()

    async def handler(job: Job, ctx: Context) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async with opener() as engine:
        await fill(engine, n)
        await _analyse(engine)
        worker = JobWorker("noop", handler, engine=engine, concurrency=PLACES)
        tree = Supervisor("bench", [Worker("noop", worker, replicas=replicas)])
        with Work(n) as work:
            async with supervisor.running(tree, log=False):
                await done.wait()
        counts = (await engine.statistics()).jobs["noop"]
        assert counts == {"completed": n}, counts
    return work.found


async def _analyse(engine: Engine) -> None:
    """What a server would do by itself, a minute after so many rows were put in."""
    from actors.jobs.postgres.engines import PostgresEngine

    if isinstance(engine, PostgresEngine):
        await engine.run(lambda db: db.execute("ANALYZE treewarden.jobs"))


async def _one_by_one(opener: Opener, n: int) -> dict[str, float]:
    async with opener() as engine:
        with Work(n) as work:
            for i in range(n):
                await engine.enqueue(_new(i))
    return work.found


async def _in_batches(opener: Opener, n: int, size: int = PLACES) -> dict[str, float]:
    async with opener() as engine:
        with Work(n) as work:
            for begin in range(0, n, size):
                await engine.enqueue_many([_new(i) for i in range(begin, min(begin + size, n))])
    return work.found


def _side(
    what: Callable[..., Any], opener: Opener, *args: int
) -> Callable[[int], dict[str, float]]:
    return lambda n: trio.run(partial(what, opener, n, *args))


sqlite_normal = _side(_work, sqlite("NORMAL"))
sqlite_full = _side(_work, sqlite("FULL"))
threads = _side(_work, postgres("threads"))
native = _side(_work, postgres("native"))
threads_4 = _side(_work, postgres("threads", 4), 4)
native_4 = _side(_work, postgres("native", 4), 4)

one_sqlite_normal = _side(_one_by_one, sqlite("NORMAL"))
one_sqlite_full = _side(_one_by_one, sqlite("FULL"))
one_postgres = _side(_one_by_one, postgres("threads"))
many_sqlite_normal = _side(_in_batches, sqlite("NORMAL"))
many_sqlite_full = _side(_in_batches, sqlite("FULL"))
many_postgres = _side(_in_batches, postgres("threads"))
bulk_postgres = _side(_in_batches, postgres("threads"), 1_000)
