"""Bulkhead: at most so many calls to one dependency at once, and a bounded line of those that wait.

Floor: above guard. Theory: a place is handed over by whoever gives it back, in the same step, to the first in line. A waiter
that is cancelled leaves the line itself; one that was handed a place owns it from that step on, cancelled or not, and gives
it back like any other. So no place can be lost or doubled. With a free place and nobody waiting, entering does not wait at all.
A call that takes several places gets them in one step, in its turn: nobody behind it is let in before, so it cannot starve.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf

import attrs
import trio
from outcome import Error
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from actors.errors import BulkheadFull
from actors.options import OptionError, count, more_seconds
from actors.records import Record, record
from actors.resilience.guard import Guard
from actors.resilience.signals import CallRejected, current_worker, noticed, report

__all__ = ["Bulkhead", "BulkheadStatistics", "Taking"]


@record
class BulkheadStatistics(Record):
    """One look at a bulkhead."""

    name: str
    limit: int
    running: int
    """Places taken; a call takes one unless it says more."""
    free: int
    """Places free now; 0 while it drains after a resize."""
    waiting: int
    admitted: int
    """Calls admitted so far."""
    rejected: int
    """Calls refused so far, at once or after waiting."""
    peak_waiting: int


@attrs.frozen(kw_only=True)
class _Options:
    limit: int = attrs.field(validator=count)
    max_waiting: int = attrs.field(validator=count)
    max_wait: float = attrs.field(validator=more_seconds)


class Bulkhead(Guard[trio.lowlevel.Task]):
    """Places for calls to one dependency: `await bulkhead.call(fn)`, `async with bulkhead:`, or a decorator.

    Args:
        name: of the dependency.
        limit: calls that may run at once; 0 pauses it.
        max_waiting: calls that may wait for a place, first come first served.
        max_wait: seconds that each may wait.

    Raises (by a guarded call):
        BulkheadFull: the line was full, or no place came free in time; the call was not made.
        RuntimeError: the task holds a place already and would wait for itself.
    """

    def __init__(
        self, name: str, limit: int, *, max_waiting: int = 0, max_wait: float = inf
    ) -> None:
        super().__init__(name)
        try:
            _Options(limit=limit, max_waiting=max_waiting, max_wait=max_wait)
        except OptionError as problem:
            raise OptionError(
                problem.text, where=f"bulkhead {name!r}", option=problem.option
            ) from None
        self.max_waiting = max_waiting
        self.max_wait = max_wait
        self._limit = limit
        self._running = 0
        self._line: OrderedDict[trio.lowlevel.Task, int] = OrderedDict()  # and the places they want
        self._holders: dict[trio.lowlevel.Task, int] = {}
        self._admitted = self._rejected = self._peak = 0

    @property
    def limit(self) -> int:
        """Calls that may run at once."""
        return self._limit

    def resize(self, limit: int) -> None:
        """Change the limit now. Growing admits waiters in order; shrinking lets what runs end; 0 pauses.

        Who waits for more places than there are now is refused, or everybody behind would wait for ever.
        """
        _Options(limit=limit, max_waiting=0, max_wait=0)
        self._limit = limit
        for task, places in list(self._line.items()):
            if 0 < limit < places:
                del self._line[task]
                reschedule(task, Error(self._refusal(None, places)))
        self._admit()

    def take(self, places: int) -> Taking:
        """A guard for calls that take so many places at once: `async with bulkhead.take(3):`, or any other form.

        Raises (by a guarded call):
            BulkheadFull: also if there are not so many places at all.
        """
        if isinstance(places, bool) or not isinstance(places, int) or places < 1:
            raise OptionError(
                f"places must be a whole number, 1 or more, not {places!r}",
                where=f"bulkhead {self.name!r}",
                option="places",
            )
        return Taking(self, places)

    def enter(self) -> trio.lowlevel.Task:
        """Take a place if one is free and nobody waits, or raise `BulkheadFull`."""
        place = self.enter_at_once()
        if place is None:
            raise self._refusal(None)
        return place

    def enter_at_once(self) -> trio.lowlevel.Task | None:
        """Take a place if one is free and nobody waits."""
        if self._running >= self._limit or self._line:
            return None
        task = current_task()  # raises outside of Trio, where no place must be lost
        self._running += 1
        return self._hold(task)

    async def enter_waiting(self, until: float = inf) -> trio.lowlevel.Task:
        """Take a place, waiting for one no longer than `max_wait` and `until`, a time of Trio's clock."""
        place = self.enter_at_once()
        return place if place is not None else await self._wait(1, until)

    async def _wait(self, places: int, until: float) -> trio.lowlevel.Task:
        if len(self._line) >= self.max_waiting or 0 < self._limit < places:
            raise self._refusal(None, places)
        task = current_task()
        if task in self._holders:
            raise RuntimeError(
                f"this task holds a place of bulkhead {self.name} and would wait for itself to give it back"
            )
        noticed(self, self.home)
        began = trio.current_time()
        with trio.move_on_at(min(until, began + self.max_wait)) as scope:
            self._line[task] = places
            self._peak = max(self._peak, len(self._line))

            def leave_line(_: object) -> Abort:
                del self._line[task]
                self._admit()  # who is behind may want less
                return Abort.SUCCEEDED

            await wait_task_rescheduled(leave_line)
        if scope.cancelled_caught:
            raise self._refusal(trio.current_time() - began, places)
        try:
            # Cancelled in the instant it was handed over: the call must not begin.
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            self._give_back(places)
            raise
        return self._hold(task)

    def _hold(self, task: trio.lowlevel.Task) -> trio.lowlevel.Task:
        self._admitted += 1
        self._holders[task] = self._holders.get(task, 0) + 1
        return task

    def _admit(self) -> None:
        """Hand places over to those in line, in their order, as long as the first one's fit."""
        while self._line and self._running + next(iter(self._line.values())) <= self._limit:
            task, places = self._line.popitem(last=False)
            self._running += places
            reschedule(task)

    def _release(self, task: trio.lowlevel.Task, places: int = 1) -> None:
        held = self._holders[task] - 1
        if held:
            self._holders[task] = held
        else:
            del self._holders[task]
        self._give_back(places)

    def _give_back(self, places: int) -> None:
        self._running -= places
        if self._line:
            self._admit()

    def succeeded(self, ticket: trio.lowlevel.Task, result: object) -> None:
        self._release(ticket)

    def failed(self, ticket: trio.lowlevel.Task, error: Exception) -> None:
        self._release(ticket)

    def left(self, ticket: trio.lowlevel.Task) -> None:
        self._release(ticket)

    def _refusal(self, waited: float | None, places: int = 1) -> BulkheadFull:
        self._rejected += 1
        noticed(self, self.home)
        wait = self.max_wait if 0 < self.max_wait < inf else 1.0
        reason = "bulkhead_full" if waited is None else "bulkhead_wait"
        report(
            CallRejected,
            home=self.home,
            count=("wf_worker_backpressure_events_total", current_worker(), reason),
            dependency=self.name,
            reason="bulkhead",
            retry_after=wait,
        )
        return BulkheadFull(
            self.name,
            limit=self._limit,
            waiting=len(self._line),
            waited=waited,
            retry_after=wait,
            places=places,
        )

    def statistics(self) -> BulkheadStatistics:
        """One look."""
        return BulkheadStatistics(
            name=self.name,
            limit=self._limit,
            running=self._running,
            free=max(0, self._limit - self._running),
            waiting=len(self._line),
            admitted=self._admitted,
            rejected=self._rejected,
            peak_waiting=self._peak,
        )

    def __repr__(self) -> str:
        return f"<Bulkhead {self.name} {self._running}/{self._limit} running, {len(self._line)} waiting>"


class Taking(Guard[trio.lowlevel.Task]):
    """Several places of a bulkhead for each call, made by `Bulkhead.take`."""

    def __init__(self, bulkhead: Bulkhead, places: int) -> None:
        super().__init__(bulkhead.name)
        self.bulkhead = bulkhead
        self.places = places

    def enter(self) -> trio.lowlevel.Task:
        """Take the places if they are free and nobody waits, or raise `BulkheadFull`."""
        ticket = self.enter_at_once()
        if ticket is None:
            raise self.bulkhead._refusal(None, self.places)
        return ticket

    def enter_at_once(self) -> trio.lowlevel.Task | None:
        """Take the places if they are free and nobody waits."""
        bulkhead = self.bulkhead
        if bulkhead._line or bulkhead._running + self.places > bulkhead._limit:
            return None
        task = current_task()
        bulkhead._running += self.places
        return bulkhead._hold(task)

    async def enter_waiting(self, until: float = inf) -> trio.lowlevel.Task:
        """Take the places, all in one step, waiting for them in the bulkhead's line."""
        ticket = self.enter_at_once()
        return ticket if ticket is not None else await self.bulkhead._wait(self.places, until)

    def succeeded(self, ticket: trio.lowlevel.Task, result: object) -> None:
        self.bulkhead._release(ticket, self.places)

    def failed(self, ticket: trio.lowlevel.Task, error: Exception) -> None:
        self.bulkhead._release(ticket, self.places)

    def left(self, ticket: trio.lowlevel.Task) -> None:
        self.bulkhead._release(ticket, self.places)

    def __repr__(self) -> str:
        return f"<{self.places} places of {self.bulkhead!r}>"
