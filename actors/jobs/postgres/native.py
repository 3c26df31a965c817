"""Native: PostgreSQL connections that Trio itself waits for, without threads.

Floor: above blocking and runner. Theory:

* psycopg's generators say what to wait for, and a connection has one method that waits. `Native` replaces that method and the
  lock, and nothing else; connections are made by the blocking driver, on a thread, and taken over. These two are not promised to
  stay as they are, so a version of psycopg that this was not tried with is refused.
* Trio cancels again and again, ROLLBACK and COMMIT too. A plan that writes is carried out under a shield as a whole, so nothing
  of a transaction is ever in reach of a cancellation.
* What is shielded has to end by itself: a server that says nothing for long is taken to be gone.
* A read that is cancelled is cancelled on the server, and its answer is taken in before anybody else has the connection.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final, TypeVar, cast

import psycopg
import trio
from psycopg import AsyncConnection, errors, pq, waiting
from psycopg.rows import tuple_row

from actors.jobs.errors import EngineUnreachable, NotSupported
from actors.jobs.postgres.blocking import AGAIN, STALE, TRIES, UNDONE, has_rows, is_dead, lost_by
from actors.jobs.postgres.runner import PoolStatistics
from actors.jobs.postgres.steps import Copy, Plan, Rows, Step, Steps, Task

__all__ = ["TRIED_WITH", "Native", "NativePool"]

T = TypeVar("T")
TRIED_WITH: Final = ("3.2", "3.3")
"""Versions of psycopg."""
_CANCEL_WITHIN: Final = 5.0
_SILENCE: Final = 30.0
"""Seconds that a server may say nothing while it is waited for; then it is taken to be gone."""


class Native(AsyncConnection[tuple[Any, ...]]):
    """A connection for tasks of Trio, taken over from a blocking one."""

    def __init__(self, blocking: psycopg.Connection[Any]) -> None:
        super().__init__(blocking.pgconn, row_factory=cast("Any", tuple_row))
        self.lock = cast("Any", trio.Lock())
        self.prepare_threshold = blocking.prepare_threshold
        self._autocommit = True
        self.blocking = blocking

    async def wait(
        self,
        gen: Generator[Any, Any, T],
        interval: float = 0.0,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's signature
    ) -> T:
        """Drive a generator of psycopg."""
        assert timeout is None
        try:
            return await _drive(gen, self.pgconn)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await self._cancel_and_drain(gen)
            raise

    async def _cancel_and_drain(self, gen: Generator[Any, Any, Any]) -> None:
        if self.pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
            return
        try:
            with trio.fail_after(2 * _CANCEL_WITHIN):
                cancel = self.blocking.cancel_safe
                await trio.to_thread.run_sync(lambda: cancel(timeout=_CANCEL_WITHIN))
                await _drive(gen, self.pgconn)
        except errors.QueryCanceled:
            pass
        except (psycopg.Error, trio.TooSlowError):
            self.pgconn.finish()  # it is in no known state


async def _drive(gen: Generator[Any, Any, T], pgconn: pq.abc.PGconn) -> T:
    try:
        wanted = next(gen)
        while True:
            since = time.monotonic()
            ready: Any = None
            while ready is None:
                fd = pgconn.socket  # libpq may have closed it meanwhile, which this reports
                with trio.CancelScope(deadline=trio.current_time() + _SILENCE):
                    if wanted == waiting.Wait.R:
                        await trio.lowlevel.wait_readable(fd)
                        ready = waiting.Ready.R
                    elif wanted == waiting.Wait.W:
                        await trio.lowlevel.wait_writable(fd)
                        ready = waiting.Ready.W
                    else:
                        ready = await _either(fd)
                # The server's time is the machine's: a virtual clock may have run ahead.
                if ready is None and time.monotonic() - since >= _SILENCE:
                    pgconn.finish()
                    raise psycopg.OperationalError(f"no answer within {_SILENCE:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _either(fd: int) -> Any:
    """A statement is longer than the socket takes at once, and the server may have something to say meanwhile."""
    ready = 0

    async def one(wait: Callable[[int], Any], flag: Any) -> None:
        nonlocal ready
        await wait(fd)
        ready |= flag
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, trio.lowlevel.wait_readable, waiting.Ready.R)
        nursery.start_soon(one, trio.lowlevel.wait_writable, waiting.Ready.W)
    return waiting.Ready(ready)


class _Link:
    """A connection that is there when it is needed."""

    __slots__ = ("db",)

    def __init__(self) -> None:
        self.db: Native | None = None


class NativePool:
    """Some connections, each used by one task at a time.

    Args:
        connect: makes a blocking one, in autocommit; raises `EngineUnreachable`.
        where: which server and database this is.
        size: connections at most.
        prepared: prepare the statements that are hot.

    Raises:
        NotSupported: this version of psycopg was not tried.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        where: str,
        size: int,
        *,
        prepared: bool,
    ) -> None:
        version = psycopg.__version__
        if version.rpartition(".")[0] not in TRIED_WITH:
            raise NotSupported(
                "postgres",
                f"driver='native' with psycopg {version}, only with {' and '.join(TRIED_WITH)}:"
                " use driver='threads'",
            )
        self._connect = connect
        self._where = where
        self._size = size
        self._prepare = True if prepared else None
        self._free = trio.Semaphore(size)
        self._links = [_Link() for _ in range(size)]
        self._idle = list(self._links)
        self._closed = False
        self._calls = self._commits = self._connects = self._failures = 0

    async def run(self, task: Task[T]) -> T:
        """Carry out a plan."""
        if self._closed:
            raise trio.ClosedResourceError("this engine was closed")
        self._calls += 1
        async with self._free:
            if self._closed:
                raise trio.ClosedResourceError("this engine was closed")
            link = self._idle.pop()
            try:
                if not task.write:  # it may be cut short
                    return await self._carry_out(link, task)
                await self._ready(link)
                result: list[T] = []
                # A write, from its first statement to its commit, may not.
                with trio.CancelScope(shield=True):
                    result.append(await self._carry_out(link, task))
                return result[0]
            finally:
                self._idle.append(link)

    async def _carry_out(self, link: _Link, task: Task[T]) -> T:
        prepare = self._prepare
        if task.atomic:
            return await self._repeated(link, lambda db: _in_transaction(db, task, prepare))

        async def do(step: Steps) -> Any:
            return await self._repeated(link, lambda db: _perform(db, step, prepare))

        return await _drive_plan(task.make(), do)

    async def _repeated(self, link: _Link, fn: Callable[[Native], Awaitable[T]]) -> T:
        """As `blocking.Link`: do what is one transaction, anew if the server says that it has undone it."""
        tries = 0
        while True:
            tries += 1
            db = await self._ready(link)
            try:
                result = await fn(db)
            except AGAIN:
                if tries == TRIES:
                    raise
            except STALE:
                link.db = None
                db.blocking.close()
                raise
            except psycopg.Error as error:
                lost = lost_by(db, error, self._where)
                if lost is None:
                    raise
                self._failures += 1
                link.db = None
                db.blocking.close()
                if tries == TRIES or not isinstance(error, UNDONE):
                    raise lost from error
            else:
                self._commits += 1
                return result

    async def _ready(self, link: _Link) -> Native:
        if link.db is not None and is_dead(link.db):
            link.db.blocking.close()
            link.db = None
        if link.db is None:
            try:
                link.db = Native(await trio.to_thread.run_sync(self._connect))
            except EngineUnreachable:
                self._failures += 1
                raise
            self._connects += 1
        return link.db

    async def aclose(self) -> None:
        """Close the connections; what was asked for before is done first."""
        self._closed = True
        with trio.CancelScope(shield=True):
            for _ in self._links:
                await self._free.acquire()
        for link in self._links:
            if link.db is not None:
                link.db.blocking.close()
                link.db = None
            self._free.release()

    def statistics(self) -> PoolStatistics:
        """One look."""
        return PoolStatistics(
            size=self._size,
            open=sum(link.db is not None for link in self._links),
            busy=self._size - len(self._idle),
            waiting=self._free.statistics().tasks_waiting,
            calls=self._calls,
            commits=self._commits,
            connects=self._connects,
            failures=self._failures,
        )

    def __repr__(self) -> str:
        seen = self.statistics()
        state = "closed" if self._closed else "open"
        return (
            f"<NativePool {state}, {seen.open} of {seen.size} connections, {seen.waiting} waiting>"
        )


async def _in_transaction(db: Native, task: Task[T], prepare: bool | None) -> T:
    await db.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED")
    try:
        result = await _drive_plan(task.make(), lambda step: _perform(db, step, prepare))
    except BaseException:
        if not db.closed:
            with trio.CancelScope(shield=True):
                await _roll_back(db)
        raise
    await db.execute(b"COMMIT")
    return result


async def _roll_back(db: Native) -> None:
    try:
        await db.execute(b"ROLLBACK")
    except psycopg.Error:
        db.pgconn.finish()  # the server rolls back when its client is gone


async def _drive_plan(plan: Plan[T], do: Callable[[Steps], Awaitable[Any]]) -> T:
    try:
        step = next(plan)
        while True:
            step = plan.send(await do(step))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        plan.close()


async def _perform(db: Native, step: Steps, prepare: bool | None) -> Any:
    if isinstance(step, Step):
        return await _rows(db, step, prepare)
    if isinstance(step, Copy):
        async with db.cursor() as cursor, cursor.copy(step.sql) as copy:
            for row in step.rows:
                await copy.write_row(row)
        return []
    if len(step) == 1:
        return [await _rows(db, step[0], prepare)]
    return await _pipeline(db, step, prepare)


async def _rows(db: Native, step: Step, prepare: bool | None) -> Rows:
    hot = prepare if step.hot else None
    cursor = await db.execute(step.sql, step.values, prepare=hot)
    return await cursor.fetchall() if has_rows(cursor) else []


async def _pipeline(db: Native, steps: Sequence[Step], prepare: bool | None) -> list[Rows]:
    async with db.pipeline():
        cursors = [
            await db.execute(one.sql, one.values, prepare=prepare if one.hot else None)
            for one in steps
        ]
    return [await one.fetchall() if has_rows(one) else [] for one in cursors]
