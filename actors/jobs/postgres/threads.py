"""Threads: PostgreSQL connections, each on a thread of its own, for Trio.

Floor: above steps and blocking. Theory:

* The unit of work is a plan or a function of the connection, run whole on a thread, so a cancellation never comes between two
  statements of a transaction: BEGIN, COMMIT and ROLLBACK are out of its reach.
* All threads take from one line. A thread takes its share of what waits there; plans that are one statement, or one list of
  them, then go out in one pipeline and are one commit, so that several workers share the wait for the disk.
* A write that has begun is waited for; one that has not is withdrawn. A read is cancelled on the server, and its thread takes
  nothing else before the server has heard that.
* A server that is frozen must not keep a program from ending: when nobody wants the result of a write any more, it is waited for
  a while longer, and then its caller hears that nothing is known about it. Time is that of the machine there, as the server's is.
* A connection is looked at before it is used. One that has died meanwhile is replaced, and nothing was sent. One that dies
  in use fails the call, and the caller has to find out what became of it.
* The threads are daemons: a database that nobody closed does not keep the process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import attrs
import outcome
import trio

from actors.errors import EngineUnreachable
from actors.jobs.postgres.blocking import Link
from actors.jobs.postgres.runner import PoolStatistics
from actors.jobs.postgres.steps import Task

if TYPE_CHECKING:
    import psycopg

__all__ = ["Threads"]

T = TypeVar("T")
_GROUP: Final = 16
"""Plans in one commit at most."""
_PATIENCE: Final = 10.0
"""Seconds that a cancelled caller waits for a write that has begun."""


@attrs.define(eq=False)
class _Order:
    task: Task[Any] | None
    fn: Callable[[Any], Any] | None
    write: bool
    caller: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken
    begun: bool = False
    raise_cancel: Callable[[], Any] | None = None
    cancel: Callable[[], None] | None = None
    timer: threading.Timer | None = None
    told: bool = False
    """True once its caller knows."""
    result: outcome.Outcome[Any] | None = None


class Threads:
    """The connections and their threads, started when there is work for them."""

    def __init__(self, connect: Callable[[], Link], size: int, name: str) -> None:
        self._connect = connect
        self._size = size
        self._name = name
        self._orders: deque[_Order] = deque()
        self._begun: set[_Order] = set()
        self._lock = threading.Condition()
        self._closing = False
        self._links: list[Link] = []
        self._threads = 0
        self._idle = 0
        self._ended = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._calls = self._commits = self._failures = 0

    # -- asking ----------------------------------------------------------------------------------

    async def run(self, task: Task[T]) -> T:
        """Carry out a plan."""
        return cast("T", await self._ask(task, None, task.write))

    async def call(self, fn: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Run `fn(connection)` in a transaction and commit it."""
        return cast("T", await self._ask(None, fn, write=True))

    async def _ask(
        self, task: Task[Any] | None, fn: Callable[[Any], Any] | None, write: bool
    ) -> Any:
        await trio.lowlevel.checkpoint_if_cancelled()
        low = trio.lowlevel
        order = _Order(task, fn, write, low.current_task(), low.current_trio_token())
        with self._lock:
            if self._closing:
                raise trio.ClosedResourceError("this engine was closed")
            self._calls += 1
            self._orders.append(order)
            if self._idle >= len(self._orders) or self._threads == self._size:
                self._lock.notify()
            else:
                self._start()

        def abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            with self._lock:
                if not order.begun:
                    self._orders.remove(order)
                    return trio.lowlevel.Abort.SUCCEEDED
                order.raise_cancel = raise_cancel
                if order.cancel is not None:
                    order.cancel()
                elif order.write:
                    order.timer = threading.Timer(_PATIENCE, self._give_up, [order])
                    order.timer.daemon = True
                    order.timer.start()
            return trio.lowlevel.Abort.FAILED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    async def aclose(self) -> None:
        """Close the connections; what was asked for before is done first, unless the server is frozen."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
            if not self._threads:
                self._ended.set()
            frozen = any(order.told for order in self._begun)
        with trio.CancelScope(shield=True, deadline=trio.current_time() if frozen else inf):
            await self._ended.wait()

    # -- on the threads --------------------------------------------------------------------------

    def _start(self) -> None:
        self._threads += 1
        link = self._connect()
        self._links.append(link)
        name = f"postgres {self._name} {self._threads}"
        threading.Thread(target=self._run, args=(link,), name=name, daemon=True).start()

    def _run(self, link: Link) -> None:
        while orders := self._next():
            try:
                self._carry_out(link, orders)
            except Exception as error:
                # A fault of ours. The thread lives on, and nobody waits for ever.
                for order in orders:
                    order.result = order.result or outcome.Error(error)
                link.close()
            self._deliver(orders)
            with self._lock:
                self._begun.difference_update(orders)
        link.close()
        with self._lock:
            self._threads -= 1
            last = not self._threads
        if last:
            try:
                self._token.run_sync_soon(self._ended.set)
            except trio.RunFinishedError:
                pass

    def _next(self) -> list[_Order]:
        """Some work; nothing when it is over."""
        with self._lock:
            self._idle += 1
            while not self._orders and not self._closing:
                self._lock.wait()
            self._idle -= 1
            share = min(_GROUP, -(-len(self._orders) // (self._idle + 1)))
            orders: list[_Order] = []
            while self._orders and (not orders or len(orders) < share):
                order = self._orders[0]
                if orders and not (_shared(order) and _shared(orders[0])):
                    break
                self._orders.popleft().begun = True
                self._begun.add(order)
                orders.append(order)
            return orders

    def _carry_out(self, link: Link, orders: list[_Order]) -> None:
        if len(orders) > 1:
            tasks = [order.task for order in orders if order.task is not None]
            found = link.run_together(tasks)
            if found is not None:
                for order, result in zip(orders, found, strict=True):
                    order.result = result
                return
        for order in orders:
            if not order.write:
                with self._lock:
                    order.cancel = link.cancel
                    if order.raise_cancel is not None:
                        order.cancel()
            if order.task is not None:
                order.result = outcome.capture(link.run, order.task)
            elif order.fn is not None:
                order.result = outcome.capture(link.call, order.fn)
            with self._lock:
                order.cancel = None
            link.settle_down()

    def _deliver(self, orders: list[_Order]) -> None:
        """Hand the results to the tasks that wait, all of one run in one step."""

        def wake() -> None:
            for order in orders:
                result = order.result
                assert result is not None
                # A write is done or not done whoever was cancelled meanwhile: its caller hears which.
                if order.raise_cancel is not None and not order.write:
                    result = outcome.capture(order.raise_cancel)
                _tell(order, result)

        try:
            orders[0].token.run_sync_soon(wake)
        except trio.RunFinishedError:
            pass  # the run is over, and so are those who waited

    def _give_up(self, order: _Order) -> None:
        """Its server does not answer. The thread goes on waiting, since it can do nothing else."""
        reason = f"no answer within {_PATIENCE:g} s after the call was cancelled"
        error = EngineUnreachable(self._name, reason, unsure=True)

        def tell() -> None:
            _tell(order, outcome.Error(error))
            if self._closing:
                self._ended.set()

        try:
            order.token.run_sync_soon(tell)
        except trio.RunFinishedError:
            pass

    # -- seen from outside -----------------------------------------------------------------------

    def statistics(self) -> PoolStatistics:
        """One look."""
        with self._lock:
            links = list(self._links)
            return PoolStatistics(
                size=self._size,
                open=sum(link.connected for link in links),
                busy=self._threads - self._idle,
                waiting=len(self._orders),
                calls=self._calls,
                commits=sum(link.commits for link in links),
                connects=sum(link.connects for link in links),
                failures=sum(link.failures for link in links),
            )

    def __repr__(self) -> str:
        state = "closed" if self._closing else "open"
        return (
            f"<Threads {state}, {self._threads} of {self._size} connections,"
            f" {len(self._orders)} waiting>"
        )


def _tell(order: _Order, result: outcome.Outcome[Any]) -> None:
    if order.timer is not None:
        order.timer.cancel()
    if not order.told:
        order.told = True
        trio.lowlevel.reschedule(order.caller, result)


def _shared(order: _Order) -> bool:
    """Whether it may be in one commit with others."""
    return order.task is not None and order.write and not order.task.atomic
