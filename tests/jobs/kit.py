"""What the tests of jobs share: a clock by hand, an engine of each kind, and short forms."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import trio

from actors.jobs import (
    Claim,
    Completed,
    Engine,
    Failed,
    MemoryEngine,
    NewJob,
    PutBack,
    Why,
    open_postgres,
    open_sqlite,
)
from tests.jobs.server import shared_server

ON_POSTGRES = ("postgres-threads", "postgres-native")
ENGINES = ("memory", "sqlite", *ON_POSTGRES)


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
    """An engine of the kind, on this clock, with nothing in it."""
    if kind == "memory":
        yield MemoryEngine("shop", clock=clock, **more)
    elif kind == "sqlite":
        async with open_sqlite(folder / "shop.db", clock=clock, **more) as engine:
            yield engine
    else:
        async with database() as where, on_postgres(where, kind, clock=clock, **more) as engine:
            yield engine


def on_postgres(where: str, kind: str, **more):
    """Open a database on PostgreSQL, with the driver that the kind names."""
    driver = kind.removeprefix("postgres-")
    return open_postgres(where, driver=driver, **{"name": "shop", **more})


@asynccontextmanager
async def database(*, untouched: bool = False) -> AsyncGenerator[str, None]:
    """A database on PostgreSQL with our tables and nothing in them; how to connect to it.

    Args:
        untouched: nobody had it before and nobody has it afterwards. An emptied table still has the statistics
            and the settings of what it was, and the planner believes them.
    """
    server = shared_server()
    name = _idle.pop() if _idle and not untouched else await _made()
    try:
        yield server.conninfo(name)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.drop if untouched else _give_back, name)


_idle: list[str] = []


async def _made() -> str:
    server = shared_server()
    name = await trio.to_thread.run_sync(server.create)
    async with open_postgres(server.conninfo(name)):
        return name


def _give_back(name: str) -> None:
    """Empty it for the next test, which is quicker than to make another; if it cannot be emptied, drop it."""
    server = shared_server()
    try:
        server.sql(name, EMPTY)
    except psycopg.Error:
        server.drop(name)
    else:
        _idle.append(name)


EMPTY = """
SET lock_timeout = '2s';
TRUNCATE treewarden.jobs, treewarden.poison_jobs, treewarden.job_types, treewarden.job_schedules,
    treewarden.idempotency RESTART IDENTITY;
DROP SCHEMA public CASCADE;
CREATE SCHEMA public
"""


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


def sql(db, statement: str, *values: object):
    """Run a statement on a connection of any kind; `?` stands for a value, `{s}` for where our tables are."""
    lite = isinstance(db, sqlite3.Connection)
    statement = statement.format(s="" if lite else "treewarden.")
    return db.execute(statement if lite else statement.replace("?", "%s"), values)


async def ask(engine: Engine, statement: str, *values: object) -> list[tuple]:
    """Run a statement in a transaction of an engine; its rows."""

    def step(db):
        cursor = sql(db, statement, *values)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    return await engine.run(step)


DONE = Completed()


def back(why: Why, retry_in: float = 0.0) -> PutBack:
    """A job put back."""
    return PutBack(why, "a reason", retry_in)


def failed(retries: int, retry_in: float = 0.0) -> Failed:
    """A failure."""
    return Failed("it broke", retries, retry_in)


async def hears(engine: Engine) -> None:
    """Wait until an engine that hears of work elsewhere does so; it says once to everybody that there may be some."""
    with trio.fail_after(60):
        while (listener := getattr(await engine.statistics(), "listener", None)) is not None:
            if listener.listening:
                return
            await trio.sleep(0.01)
