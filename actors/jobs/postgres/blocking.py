"""Blocking: one psycopg connection, for use by one thread at a time.

Floor: above steps. The rules: it is in autocommit, so what one statement or one pipeline holds is one transaction without any
BEGIN; it is looked at before it is used and replaced if it has died; what it cannot do raises `EngineUnreachable`, which says
whether something may have been done.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import outcome
import psycopg
from psycopg import errors, pq
from psycopg.rows import tuple_row

from actors.jobs.errors import EngineUnreachable
from actors.jobs.postgres.steps import Copy, Plan, Rows, Step, Steps, Task

__all__ = [
    "AGAIN",
    "STALE",
    "TRIES",
    "UNDONE",
    "Link",
    "carry_out",
    "has_rows",
    "is_dead",
    "lost_by",
]

T = TypeVar("T")
AGAIN: Final = (errors.DeadlockDetected, errors.SerializationFailure)
"""The server has undone the transaction and asks for it to be tried again."""
STALE: Final = (errors.ReadOnlySqlTransaction,)
"""The server, or its database, became one that only reads: a new connection may find another, or that this is over."""
UNDONE: Final = (errors.AdminShutdown,)
"""Told to end, a server process says so, and has undone what it was at: it may be begun anew on another connection."""
ISOLATION: Final = b"SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""Our plans look again after they have waited for a lock, which sees nothing new with what a database may have as its default."""
TRIES: Final = 5
"""Times that such a transaction is carried out."""
_CANCEL_WITHIN: Final = 5.0


class Link:
    """A connection that is there when it is needed.

    Args:
        connect: makes one, in autocommit; raises `EngineUnreachable`.
        where: which server and database this is.
        prepared: prepare the statements that are hot.
    """

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], where: str, *, prepared: bool
    ) -> None:
        self._make = connect
        self._where = where
        self._prepared = prepared
        self._db: psycopg.Connection[Any] | None = None
        self._cancelling: threading.Thread | None = None
        self.connects = 0
        self.commits = 0
        self.failures = 0

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._db is not None

    # -- work ------------------------------------------------------------------------------------

    def run(self, task: Task[T]) -> T:
        """Carry out a plan."""
        if task.atomic:
            return self._repeated(lambda db: self._in_transaction(db, task))
        return drive(task.make(), self._perform)

    def call(self, fn: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Run a function in a transaction."""
        with _Watched(self) as db:
            kept = db.row_factory, db.cursor_factory
            try:
                with db.transaction():
                    return fn(db)
            finally:  # how a function wants its rows is its own affair, and over with it
                db.row_factory, db.cursor_factory = kept

    def _in_transaction(self, db: psycopg.Connection[Any], task: Task[T]) -> T:
        with db.transaction():
            db.execute(ISOLATION)
            return drive(task.make(), lambda step: perform(db, step, self._prepare))

    def _perform(self, step: Steps) -> Any:
        return self._repeated(lambda db: perform(db, step, self._prepare))

    def _repeated(self, fn: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Do what is one transaction, anew if the server says that it has undone it."""
        tries = 0
        while True:
            tries += 1
            try:
                with _Watched(self) as db:
                    return fn(db)
            except AGAIN:
                if tries == TRIES:
                    raise
            except EngineUnreachable as error:
                if tries == TRIES or not isinstance(error.__cause__, UNDONE):
                    raise

    def run_together(self, tasks: Sequence[Task[Any]]) -> list[outcome.Outcome[Any]] | None:
        """Carry out the beginnings of several plans in one commit, and then the rest of each.

        None if one of them stood in the way of the others: nothing was done.
        """
        plans = [task.make() for task in tasks]
        results: dict[int, outcome.Outcome[Any]] = {}
        steps: dict[int, Step | list[Step]] = {}
        for n, plan in enumerate(plans):
            try:
                first = next(plan)
            except StopIteration as end:
                results[n] = outcome.Value(end.value)
            except Exception as error:
                results[n] = outcome.Error(error)
            else:
                if isinstance(first, Copy):
                    return None
                steps[n] = first
        each = [step if isinstance(step, list) else [step] for step in steps.values()]
        try:
            with _Watched(self) as db:
                rows = iter(_pipeline(db, [one for some in each for one in some], self._prepare))
        except EngineUnreachable as error:
            results.update((n, outcome.Error(error)) for n in steps)
        except psycopg.Error:
            return None
        else:
            for (n, step), some in zip(steps.items(), each, strict=True):
                answers = [next(rows) for _ in some]
                answer: Any = answers if isinstance(step, list) else answers[0]
                results[n] = outcome.capture(self._go_on, plans[n], answer)
        return [results[n] for n in range(len(plans))]

    def _go_on(self, plan: Plan[T], answer: object) -> T:
        try:
            step = plan.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        return drive(plan, self._perform, step)

    @property
    def _prepare(self) -> bool | None:
        return True if self._prepared else None

    # -- the connection --------------------------------------------------------------------------

    def ready(self) -> psycopg.Connection[Any]:
        """A connection that was alive just now.

        Raises:
            EngineUnreachable: there is none to be had. Nothing was done.
        """
        if self._db is not None and is_dead(self._db):
            self.close()
        if self._db is None:
            try:
                self._db = self._make()
            except EngineUnreachable:
                self.failures += 1
                raise
            self.connects += 1
        return self._db

    def lost(self, error: psycopg.Error) -> EngineUnreachable | None:
        """What an error means if the connection died of it."""
        found = None if self._db is None else lost_by(self._db, error, self._where)
        if found is not None:
            self.failures += 1
            self.close()
        return found

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    # -- cancelling, from another thread ---------------------------------------------------------

    def cancel(self) -> None:
        """Ask the server to end what runs now, without waiting."""
        db = self._db
        if db is not None and self._cancelling is None:
            self._cancelling = threading.Thread(target=_cancel, args=(db,), daemon=True)
            self._cancelling.start()

    def settle_down(self) -> None:
        """Wait until a request to cancel has been delivered, so that it cannot hit what comes next."""
        thread, self._cancelling = self._cancelling, None
        if thread is None:
            return
        thread.join()
        try:
            if self._db is not None:
                self._db.execute("SELECT 1")
        except errors.QueryCanceled:
            pass
        except psycopg.Error:
            self.close()

    def __repr__(self) -> str:
        return f"<Link to {self._where}, {'open' if self.connected else 'closed'}>"


class _Watched:
    """Hands out the connection, counts the commit, and tells a lost connection from a failed statement."""

    __slots__ = ("_link",)

    def __init__(self, link: Link) -> None:
        self._link = link

    def __enter__(self) -> psycopg.Connection[Any]:
        return self._link.ready()

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None:
            self._link.commits += 1
        elif isinstance(error, STALE):
            self._link.close()
        elif isinstance(error, psycopg.Error):
            lost = self._link.lost(error)
            if lost is not None:
                raise lost from error


def carry_out(db: psycopg.Connection[Any], plan: Plan[T]) -> T:
    """Run a plan in the transaction that is open on a connection of somebody else's."""
    return drive(plan, lambda step: perform(db, step, None, pipeline=False))


def drive(plan: Plan[T], do: Callable[[Steps], Any], step: Steps | None = None) -> T:
    """Run a plan, from the start or from a step on."""
    try:
        if step is None:
            step = next(plan)
        while True:
            step = plan.send(do(step))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        plan.close()


def perform(
    db: psycopg.Connection[Any], step: Steps, prepare: bool | None, *, pipeline: bool = True
) -> Any:
    """Do one step; its rows."""
    if isinstance(step, Step):
        return _rows(db, step, prepare)
    if isinstance(step, Copy):
        with db.cursor() as cursor, cursor.copy(step.sql) as copy:
            for row in step.rows:
                copy.write_row(row)
        return []
    if len(step) == 1 or not pipeline:
        return [_rows(db, one, prepare) for one in step]
    return _pipeline(db, step, prepare)


def _rows(db: psycopg.Connection[Any], step: Step, prepare: bool | None) -> Rows:
    # The connection may be somebody else's, and so what it makes of rows and of placeholders.
    cursor = psycopg.Cursor(db, row_factory=tuple_row)
    cursor.execute(step.sql, step.values, prepare=prepare if step.hot else None)
    if cursor.pgresult is None:  # and so may be a pipeline, in which answers come later
        with db.pipeline() as pipeline:
            pipeline.sync()
    return cursor.fetchall() if has_rows(cursor) else []


def _pipeline(
    db: psycopg.Connection[Any], steps: Sequence[Step], prepare: bool | None
) -> list[Rows]:
    # All or none of them: what stands between two syncs is one transaction.
    with db.pipeline():
        cursors = [
            db.execute(one.sql, one.values, prepare=prepare if one.hot else None) for one in steps
        ]
    return [one.fetchall() if has_rows(one) else [] for one in cursors]


def has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """Whether a statement was one that returns rows: asked of the result, since to describe its columns takes a while."""
    return cursor.pgresult is not None and cursor.pgresult.status == pq.ExecStatus.TUPLES_OK


def is_dead(db: psycopg.BaseConnection[Any]) -> bool:
    """Whether an idle connection is known to be gone: then something is there to be read, in the end the end."""
    if db.closed:
        return True
    poll = select.poll()
    poll.register(db.pgconn.socket, select.POLLIN)
    for _ in range(8):
        if not poll.poll(0):
            return False
        try:
            db.pgconn.consume_input()
        except psycopg.Error:
            return True
    return db.pgconn.status == pq.ConnStatus.BAD


def lost_by(
    db: psycopg.BaseConnection[Any], error: psycopg.Error, where: str
) -> EngineUnreachable | None:
    """What an error of a statement means, if the connection died of it."""
    if not db.closed and db.pgconn.status != pq.ConnStatus.BAD:
        return None
    reason = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return EngineUnreachable(where, reason, unsure=not isinstance(error, UNDONE))


def _cancel(db: psycopg.Connection[Any]) -> None:
    try:
        db.cancel_safe(timeout=_CANCEL_WITHIN)
    except psycopg.Error:
        pass  # it has ended by itself, or the server is gone; either way nothing is left to cancel
