"""The SQL engines: one in memory, for tests and for work that may be forgotten, and one in an SQLite file.

Floor: above store, admin and database. Both are the same statements; they differ in who runs them and by which clock.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import trio

from actors.jobs.database import DatabaseEngine
from actors.jobs.engine import (
    Claim,
    EngineStatistics,
    Enqueued,
    Exchange,
    Fired,
    JobInfo,
    Settlement,
)
from actors.jobs.job import MAX_BYTES, Lease, NewJob
from actors.jobs.outcomes import Failed, PutBack, State
from actors.jobs.poison import PoisonJob
from actors.jobs.sqlite import admin, store
from actors.jobs.sqlite.database import (
    Database,
    DatabaseStatistics,
    Inline,
    Runner,
    connect,
    lend,
)
from actors.jobs.sqlite.schema import migrate
from actors.jobs.wishes import (
    one_type,
    the_age,
    the_limit,
    the_most,
    the_retries,
    the_state,
    the_type,
)
from actors.options import OptionError
from actors.records import record

__all__ = ["MemoryEngine", "SQLEngine", "SQLiteEngine", "SQLiteStatistics", "open_sqlite"]

T = TypeVar("T")


class SQLEngine(DatabaseEngine):
    """What both have in common."""

    def __init__(
        self, runner: Runner, *, name: str, clock: Callable[[], float], max_bytes: int = MAX_BYTES
    ) -> None:
        super().__init__(name, max_bytes)
        self._runner = runner
        self._clock = clock

    # -- transactions of one's own ---------------------------------------------------------------

    async def run(self, fn: Callable[..., T], *args: object) -> T:
        return await self._runner.write(lambda db: lend(db, fn, *args))

    def enqueue_in(self, connection: sqlite3.Connection, *jobs: NewJob) -> list[Enqueued]:
        found = store.prepare(jobs, self.max_bytes)
        return store.enqueue(connection, self._clock(), found)

    # -- putting jobs in -------------------------------------------------------------------------

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        found = store.prepare(jobs, self.max_bytes)
        done = await self.at_now(store.enqueue, found)
        self.wake(*{job.type for job, _ in found})
        return done

    async def fire(self, schedule: str, every: float, offset: float, job: NewJob) -> Fired:
        (prepared,) = store.prepare([job], self.max_bytes)
        fired = await self.at_now(store.fire, schedule, every, offset, prepared)
        if fired.key is not None:
            self.wake(job.type)
        return fired

    # -- for workers -----------------------------------------------------------------------------

    async def exchange(
        self, settlements: Sequence[Settlement] = (), claim: Claim | None = None
    ) -> Exchange:
        found = await self.at_now(store.exchange, self.name, tuple(settlements), claim)
        for job in found.jobs:
            job.engine = self
        if any(isinstance(one.outcome, (Failed, PutBack)) for one in settlements):
            # What was put back may be taken by anybody, as soon as it is due.
            self.wake_all()
        return found

    async def extend(self, leases: Sequence[Lease], seconds: float) -> frozenset[Lease]:
        return await self.at_now(store.extend, tuple(leases), seconds)

    async def transact(self, lease: Lease, fn: Callable[..., Any], *args: object) -> Any:
        return await self.at_now(store.transact, self.max_bytes, lease, fn, args)

    # -- for operators ---------------------------------------------------------------------------

    async def find(self, key: str) -> JobInfo:
        return await self._runner.read(lambda db: admin.find(db, self._clock(), key))

    async def jobs(
        self, state: State | str, job_type: str | None = None, *, most: int = 100
    ) -> tuple[JobInfo, ...]:
        wanted, kind, number = the_state(state), the_type(job_type), the_most(most)
        return await self._runner.read(
            lambda db: admin.jobs(db, self._clock(), wanted, kind, number)
        )

    async def cancel(self, key: str) -> bool:
        return await self.at_now(admin.cancel, key) is not None

    async def set_retries(self, key: str, retries: int) -> None:
        left = the_retries(retries)
        await self._runner.write(lambda db: admin.set_retries(db, key, left))

    async def resolve(self, key: str, retries: int | None = None) -> None:
        left = None if retries is None else the_retries(retries)
        self.wake(await self.at_now(admin.resolve, key, left))

    async def run_now(self, key: str) -> None:
        self.wake(await self.at_now(admin.run_now, key))

    async def poison(
        self, job_type: str | None = None, *, most: int = 100
    ) -> tuple[PoisonJob, ...]:
        kind, number = the_type(job_type), the_most(most)
        return await self._runner.read(lambda db: admin.poison(db, kind, number))

    async def drop(self, key: str) -> None:
        await self.at_now(admin.drop, key)

    async def pause(self, job_type: str) -> None:
        kind = one_type(job_type)
        await self._runner.write(lambda db: admin.pause(db, kind, True))

    async def resume(self, job_type: str) -> None:
        kind = one_type(job_type)
        await self._runner.write(lambda db: admin.pause(db, kind, False))
        self.wake(job_type)

    async def limit(self, job_type: str, most: int | None) -> None:
        kind, number = one_type(job_type), the_limit(most)
        await self._runner.write(lambda db: admin.limit(db, kind, number))
        self.wake(job_type)

    async def prune(self, older_than: float) -> int:
        age, total = the_age(older_than), 0
        while True:
            gone = await self.at_now(admin.prune, age)
            total += gone
            if gone < admin.PRUNED_AT_ONCE:
                return total

    async def statistics(self) -> EngineStatistics:
        return await self._runner.read(lambda db: admin.statistics(db, self.name))

    async def at_now(self, fn: Callable[..., T], *args: object) -> T:
        """Run `fn(connection, now, *args)` in a transaction, `now` being the time of this engine's clock."""
        # The time is read inside, when the lock is held: it may have taken a while to get it.
        return await self._runner.write(lambda db: fn(db, self._clock(), *args))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class MemoryEngine(SQLEngine):
    """Jobs in memory, gone with the process. It runs in the calling task, so virtual time works with it.

    Args:
        name: in idempotency keys.
        clock: seconds; Trio's clock if not given.
        max_bytes: the longest JSON text of variables.
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        clock: Callable[[], float] = trio.current_time,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        db = connect(":memory:")
        migrate(db, name)
        super().__init__(Inline(db), name=name, clock=clock, max_bytes=max_bytes)


@record
class SQLiteStatistics(EngineStatistics):
    """One look at the engine and at its thread."""

    database: DatabaseStatistics


class SQLiteEngine(SQLEngine):
    """Jobs in an SQLite file, for any number of processes on one machine. Made by `open_sqlite`."""

    def __init__(
        self,
        database: Database,
        *,
        name: str,
        clock: Callable[[], float],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        super().__init__(database, name=name, clock=clock, max_bytes=max_bytes)
        self._database = database

    async def statistics(self) -> SQLiteStatistics:
        """One look at the jobs, which are counted, and at the thread."""
        counts = await super().statistics()
        return SQLiteStatistics(
            name=counts.name,
            jobs=counts.jobs,
            poison=counts.poison,
            paused=counts.paused,
            limits=counts.limits,
            database=self._database.statistics(),
        )

    def __repr__(self) -> str:
        return f"<SQLiteEngine {self.name!r}, {self._database!r}>"


@asynccontextmanager
async def open_sqlite(
    path: str | Path,
    *,
    name: str | None = None,
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
    clock: Callable[[], float] = time.time,
    max_bytes: int = MAX_BYTES,
) -> AsyncGenerator[SQLiteEngine]:
    """Open an engine, and close it at the end of the block: `async with open_sqlite("jobs.db") as engine:`.

    Args:
        path: the file; made if it is not there, brought up to date if it is older.
        name: in idempotency keys; the file's name without its ending if not given. Keep it when the file moves.
        synchronous: `NORMAL` survives the end of the process; a power cut may take the last commits, so that a finished job
            runs again. `FULL` waits for the disk at each commit.
        clock: seconds, the same for all processes that share the file.
        max_bytes: the longest JSON text of variables.

    Raises:
        OptionError: there is no path.
        SchemaTooNew: a later version of this library wrote it.
        sqlite3.DatabaseError: it cannot be opened, or is something else.
    """
    if not str(path):
        # For SQLite that is a file without a name, which is gone with the connection, and the jobs with it.
        raise OptionError("path is empty: name a file, or use MemoryEngine()", option="path")
    found = await trio.to_thread.run_sync(partial(_open, path, synchronous))
    database = Database(found, str(path))
    try:
        yield SQLiteEngine(database, name=name or Path(path).stem, clock=clock, max_bytes=max_bytes)
    finally:
        await database.aclose()


def _open(path: str | Path, synchronous: str) -> sqlite3.Connection:
    db = _connect(path, synchronous, time.monotonic() + 10.0)
    try:
        migrate(db, str(path))
    except BaseException:
        db.close()
        raise
    return db


def _connect(path: str | Path, synchronous: str, deadline: float) -> sqlite3.Connection:
    while True:
        try:
            return connect(path, synchronous)
        except sqlite3.DatabaseError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                error.add_note(f"while {str(path)!r} was opened as an engine of jobs")
                raise
            # To change to WAL is refused, not queued, while another process does the same. This runs in a worker thread,
            # so it may sleep, and what it waits for is another process, which no virtual clock drives.
            time.sleep(0.01)
