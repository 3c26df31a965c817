"""Database: one SQLite connection on one thread of its own, for Trio.

Floor: the lowest of this room. Theory:

* The unit of work is a function of the connection, run whole on the thread: no two transactions interleave, and none is ever
  left half done by a cancellation, which could only come between statements.
* What tasks have asked for while the thread was busy is one commit (group commit), each function in a savepoint of its own, so
  that one which fails takes nothing else with it.
* A write that has begun is waited for, whatever happens; one that has not is withdrawn. A read is interrupted.
* The thread is a daemon: a database that nobody closed does not keep the process.
* A file that was deleted, or has another in its place, still takes what is written to it, and nobody will ever read that. So it is
  looked at before each commit.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

import attrs
import outcome
import trio

from actors.jobs.errors import DatabaseMoved
from actors.records import Record, record

__all__ = ["Connection", "Database", "DatabaseStatistics", "Inline", "Runner", "connect", "lend"]

T = TypeVar("T")
_GROUP: Final = 100
"""Writes in one commit at most."""
_LOOK: Final = 10_000
"""Steps of SQLite's machine, far less than a millisecond, between two looks at whether a read is still wanted."""


@record
class DatabaseStatistics(Record):
    """One look at a database and its thread."""

    open: bool
    waiting: int
    """Calls that wait for the thread."""
    calls: int
    """Calls so far."""
    commits: int
    """Transactions so far; fewer than the writes that they hold."""


class Runner(Protocol):
    """Runs functions on a connection."""

    async def write(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Run `fn(connection)` in a transaction that has the write lock, and commit."""
        ...

    async def read(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Run `fn(connection)`, which only reads."""
        ...

    async def aclose(self) -> None:
        """Close the connection; what was asked for before is done first."""


_ENDS: Final = re.compile(r"\s*(COMMIT|END|ROLLBACK(?!\s+(TRANSACTION\s+)?TO))\b", re.IGNORECASE)
_KEPT: Final = (
    "this connection is in a transaction that is committed when the function returns and rolled back when it raises: leave out"
    " 'with connection:', commit(), rollback() and close(), and give each statement of a script to execute()"
)


class Lent(sqlite3.Cursor):
    """A cursor of a connection that a function of a user's has."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        if _ENDS.match(sql):
            raise sqlite3.ProgrammingError(_KEPT)
        return super().execute(sql, parameters)

    def executescript(self, sql_script: str, /) -> Self:
        raise sqlite3.ProgrammingError(_KEPT)  # it commits what is open before it begins


class Connection(sqlite3.Connection):
    """Ours. While a function of a user's has it, what would end its transaction is refused: it is not the function's to end."""

    lent = False

    def lend(self) -> None:
        """Look at each statement from now on; what is the engine's own need not be looked at."""
        self.lent = True
        vars(self).update(cursor=self._cursor, execute=self._execute, executescript=self._script)

    def take_back(self) -> None:
        """End `lend`."""
        self.lent = False
        for name in ("cursor", "execute", "executescript"):
            vars(self).pop(name, None)

    def _cursor(self, factory: Any = Lent) -> Any:
        return super().cursor(factory)

    def _execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self._cursor().execute(sql, parameters)

    def _script(self, sql_script: str, /) -> Any:
        return self._cursor().executescript(sql_script)

    def __enter__(self) -> Self:
        self._keep()
        return super().__enter__()

    def commit(self) -> None:
        self._keep()
        super().commit()

    def rollback(self) -> None:
        self._keep()
        super().rollback()

    def close(self) -> None:
        self._keep()
        super().close()

    def _keep(self) -> None:
        if self.lent:
            raise sqlite3.ProgrammingError(_KEPT)


def lend(db: sqlite3.Connection, fn: Callable[..., T], *args: object) -> T:
    """Call `fn(db, *args)`, a function of a user's. How it wants its rows is its own affair, and over with it."""
    kept = db.row_factory, db.text_factory
    if isinstance(db, Connection):
        db.lend()
    try:
        result = fn(db, *args)
        if not db.in_transaction:
            # As it is after "OR ROLLBACK": what came now would be written piece by piece.
            raise sqlite3.OperationalError(
                "the transaction was rolled back while the function had it: nothing of it was written"
            )
        return result
    finally:
        if isinstance(db, Connection):
            db.take_back()
        db.row_factory, db.text_factory = kept


def connect(path: str | Path, synchronous: str = "NORMAL") -> sqlite3.Connection:
    """Open a file (WAL) or `:memory:` for use by one thread at a time."""
    db = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=10.0, factory=Connection
    )
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA journal_mode = WAL").fetchone()
    db.execute(f"PRAGMA synchronous = {synchronous}")
    # Pages: 16 MB, four times the usual. Whoever commits the last of them waits for the disk twice.
    db.execute("PRAGMA wal_autocheckpoint = 4000").fetchone()
    return db


class Inline:
    """Runs at once, in the calling task: for a database in memory, which never keeps anybody waiting."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    async def write(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        await trio.lowlevel.checkpoint()
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            result = fn(db)
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
        return result

    async def read(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        await trio.lowlevel.checkpoint()
        return fn(self._db)

    async def aclose(self) -> None:
        self._db.close()
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class _Order:
    fn: Callable[[sqlite3.Connection], Any]
    write: bool
    task: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken
    begun: bool = False
    raise_cancel: Callable[[], Any] | None = None
    result: outcome.Outcome[Any] | None = None


class Database:
    """The connection and its thread."""

    def __init__(self, db: sqlite3.Connection, name: str) -> None:
        self._db = db
        self._path = str(db.execute("PRAGMA database_list").fetchone()[2])  # empty if in memory
        self._file = _file(self._path) if self._path else None
        self._orders: deque[_Order] = deque()
        self._lock = threading.Condition()
        self._closing = False
        self._ended = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._calls = 0
        self.commits = 0
        """Transactions so far; fewer than the writes they hold."""
        self._thread = threading.Thread(target=self._run, name=f"sqlite {name}", daemon=True)
        self._thread.start()

    async def write(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        return await self._ask(fn, write=True)

    async def read(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        return await self._ask(fn, write=False)

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            with self._lock:
                self._closing = True
                self._lock.notify()
            await self._ended.wait()

    async def _ask(self, fn: Callable[[sqlite3.Connection], T], *, write: bool) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        order = _Order(fn, write, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token())
        with self._lock:
            if self._closing:
                raise trio.ClosedResourceError("this database was closed")
            self._calls += 1
            self._orders.append(order)
            self._lock.notify()

        def abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            with self._lock:
                if not order.begun:
                    self._orders.remove(order)
                    return trio.lowlevel.Abort.SUCCEEDED
                order.raise_cancel = raise_cancel
            return trio.lowlevel.Abort.FAILED

        value: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return value

    # -- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while orders := self._next():
            if orders[0].write:
                self._commit(orders)
            else:
                self._read(orders[0])
            _deliver(orders)
        self._db.close()
        try:
            self._token.run_sync_soon(self._ended.set)
        except trio.RunFinishedError:
            pass

    def _next(self) -> list[_Order]:
        """A read, or the writes before the next read; nothing when it is over."""
        with self._lock:
            while not self._orders and not self._closing:
                self._lock.wait()
            orders: list[_Order] = []
            while self._orders and len(orders) < _GROUP:
                order = self._orders[0]
                if orders and not (order.write and orders[0].write):
                    break
                self._orders.popleft().begun = True
                orders.append(order)
                if not order.write:
                    break
            return orders

    def _read(self, order: _Order) -> None:
        # Asked while it runs: an interrupt from outside that comes just before it begins would change nothing.
        self._db.set_progress_handler(lambda: order.raise_cancel is not None, _LOOK)
        order.result = outcome.capture(order.fn, self._db)
        self._db.set_progress_handler(None, _LOOK)

    def _commit(self, orders: list[_Order]) -> None:
        db, alone = self._db, len(orders) == 1
        try:
            self._look_at_file()
            db.execute("BEGIN IMMEDIATE")
            for order in orders:
                order.result = (
                    outcome.capture(order.fn, db) if alone else _in_savepoint(db, order.fn)
                )
            failed = alone and isinstance(orders[0].result, outcome.Error)
            db.execute("ROLLBACK" if failed else "COMMIT")
            self.commits += 1
        except Exception as error:
            # The lock was not to be had, or the disk is full: nothing of this group was written.
            if db.in_transaction:
                db.execute("ROLLBACK")
            for order in orders:
                if not isinstance(order.result, outcome.Error):
                    order.result = outcome.Error(error)

    def _look_at_file(self) -> None:
        if self._file is not None and _file(self._path) not in (self._file, None):
            raise DatabaseMoved(self._path)

    def statistics(self) -> DatabaseStatistics:
        """One look."""
        with self._lock:
            return DatabaseStatistics(
                open=not self._closing,
                waiting=len(self._orders),
                calls=self._calls,
                commits=self.commits,
            )

    def __repr__(self) -> str:
        state = "closed" if self._closing else "open"
        return f"<Database {state}, {len(self._orders)} waiting, {self.commits} commits>"


def _file(path: str) -> tuple[int, int] | None:
    """Which file stands there; None if that cannot be told, and zeros if there is none."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return 0, 0
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _in_savepoint(
    db: sqlite3.Connection, fn: Callable[[sqlite3.Connection], Any]
) -> outcome.Outcome[Any]:
    db.execute("SAVEPOINT one_of_several")
    result: outcome.Outcome[Any] = outcome.capture(fn, db)
    if isinstance(result, outcome.Error):
        if not db.in_transaction:
            raise result.error  # SQLite has undone all of the transaction, as it does when the disk is full
        db.execute("ROLLBACK TO one_of_several")
    db.execute("RELEASE one_of_several")
    return result


def _deliver(orders: list[_Order]) -> None:
    """Hand the results to the tasks that wait, all of one run in one step."""

    def wake() -> None:
        for order in orders:
            result = order.result
            assert result is not None
            # A write is done or not done whoever was cancelled meanwhile: its caller hears which.
            if order.raise_cancel is not None and not order.write:
                result = outcome.capture(order.raise_cancel)
            trio.lowlevel.reschedule(order.task, result)

    try:
        orders[0].token.run_sync_soon(wake)
    except trio.RunFinishedError:
        pass  # the run is over, and so are those who waited
