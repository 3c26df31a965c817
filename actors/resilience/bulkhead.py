"""Bulkhead: at most so many calls to one dependency at once, and a bounded line of those that wait.

Floor: above vegas. Theory: a place is handed over by whoever gives it back, in the same step, to the first in line. A waiter
that is cancelled leaves the line itself; one that was handed a place owns it from that step on, cancelled or not, and gives
it back like any other. So no place can be lost or doubled. With a free place and nobody waiting, entering does not wait at all.
A call that takes several places gets them in one step, in its turn: nobody behind it is let in before, so it cannot starve.

A limit that finds itself is told of each call that says something: one that returned, or that failed in a way which says that it was
too much. A cancelled call says nothing, and nor does another error, which may come in no time. There may be fewer places just now than
a call takes that waits already. It is let in when nothing else runs, or the line would stand still, and with it the law.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, Final, TypeAlias

import attrs
import trio
from outcome import Error
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from actors.errors import BulkheadFull
from actors.options import OptionError, count, more_seconds
from actors.records import Record, record
from actors.resilience.guard import NO_RESULT, Guard
from actors.resilience.signals import (
    CallRejected,
    LimitChanged,
    current_worker,
    noticed,
    report,
)
from actors.resilience.vegas import Vegas, VegasLimit, places_or_law

__all__ = ["Bulkhead", "BulkheadStatistics", "Taking"]

_RANDOM: Final = Random()


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
    adaptive: bool = False
    """Whether the limit finds itself."""
    alone: float | None = None
    """Seconds that a call takes when it need not queue over there, as an adaptive limit has found it so far."""


def _some_random(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, Random):
        raise OptionError(
            f"{field.name} is a random.Random or None, not {value!r}", option=field.name
        )


@attrs.frozen(kw_only=True)
class _Options:
    limit: int | VegasLimit = attrs.field(validator=places_or_law)
    max_waiting: int = attrs.field(validator=count)
    max_wait: float = attrs.field(validator=more_seconds)
    random: Random | None = attrs.field(default=None, validator=_some_random)


@attrs.define(eq=False)
class _Timed:
    """An admitted call whose time will be told."""

    task: trio.lowlevel.Task
    law: Vegas | None
    """None when it has been told."""
    round: int
    began: float


_Ticket: TypeAlias = trio.lowlevel.Task | _Timed


class Bulkhead(Guard[Any]):
    """Places for calls to one dependency: `await bulkhead.call(fn)`, `async with bulkhead:`, or a decorator.

    Args:
        name: of the dependency.
        limit: calls that may run at once; 0 pauses it. Or a `VegasLimit(...)`, which finds out how many.
        max_waiting: calls that may wait for a place, first come first served.
        max_wait: seconds that each may wait.
        random: source of jitter of an adaptive limit, for tests.

    Raises (by a guarded call):
        BulkheadFull: the line was full, or no place came free in time; the call was not made.
        RuntimeError: the task holds a place already and would wait for itself.
    """

    def __init__(
        self,
        name: str,
        limit: int | VegasLimit,
        *,
        max_waiting: int = 0,
        max_wait: float = inf,
        random: Random | None = None,
    ) -> None:
        super().__init__(name)
        try:
            _Options(limit=limit, max_waiting=max_waiting, max_wait=max_wait, random=random)
        except OptionError as problem:
            raise OptionError(
                problem.text, where=f"bulkhead {name!r}", option=problem.option
            ) from None
        self.max_waiting = max_waiting
        self.max_wait = max_wait
        self.fails: Callable[[Any], bool] | None = None
        """Which results are failures, as a breaker has it: one that came at once is no sign of a fast service."""
        self._random = random or _RANDOM
        self._timed = False  # whether a ticket may be: a law was in force at some time
        self._set(limit)
        self._running = 0
        self._line: OrderedDict[trio.lowlevel.Task, int] = OrderedDict()  # and the places they want
        self._holders: dict[trio.lowlevel.Task, int] = {}
        self._admitted = self._rejected = self._peak = 0

    @property
    def limit(self) -> int:
        """Calls that may run at once, now."""
        return self._limit

    @property
    def adaptive(self) -> VegasLimit | None:
        """How the limit finds itself; None if it is fixed."""
        return self._law.policy if self._law is not None else None

    def _set(self, limit: int | VegasLimit) -> None:
        if isinstance(limit, VegasLimit):
            self._law: Vegas | None = Vegas(limit, self._random)
            self._limit = self._told = self._law.limit
            self._most = limit.maximum  # places that a call can ever get
            self._timed = True
        else:
            self._law = None
            self._limit = self._told = self._most = limit

    def resize(self, limit: int | VegasLimit) -> None:
        """Change the limit now. Growing admits waiters in order; shrinking lets what runs end; 0 pauses.

        A number holds until the next resize; with a `VegasLimit(...)` it finds itself from now on, and knows nothing yet.
        Who waits for more places than there can be now is refused, or everybody behind would wait for ever.
        """
        _Options(limit=limit, max_waiting=0, max_wait=0)
        self._set(limit)
        for task, places in list(self._line.items()):
            if 0 < self._most < places:
                del self._line[task]
                reschedule(task, Error(self._refusal(None, places)))
        self._admit()

    def take(self, places: int) -> Taking:
        """A guard for calls that take so many places at once: `async with bulkhead.take(3):`, or any other form.

        Raises (by a guarded call):
            BulkheadFull: also if there are not so many places at all. If an adaptive limit is lower just now, they are
                given when nothing else runs.
        """
        if isinstance(places, bool) or not isinstance(places, int) or places < 1:
            raise OptionError(
                f"places must be a whole number, 1 or more, not {places!r}",
                where=f"bulkhead {self.name!r}",
                option="places",
            )
        return Taking(self, places)

    def enter(self) -> _Ticket:
        """Take a place if one is free and nobody waits, or raise `BulkheadFull`."""
        place = self.enter_at_once()
        if place is None:
            raise self._refusal(None)
        return place

    def enter_at_once(self) -> _Ticket | None:
        """Take a place if one is free and nobody waits."""
        if self._running >= self._limit or self._line:
            return None
        task = current_task()  # raises outside of Trio, where no place must be lost
        self._running += 1
        return self._hold(task)

    async def enter_waiting(self, until: float = inf) -> _Ticket:
        """Take a place, waiting for one no longer than `max_wait` and `until`, a time of Trio's clock."""
        place = self.enter_at_once()
        return place if place is not None else await self._wait(1, until)

    async def _wait(self, places: int, until: float) -> _Ticket:
        if len(self._line) >= self.max_waiting or 0 < self._most < places:
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

    def _hold(self, task: trio.lowlevel.Task) -> _Ticket:
        self._admitted += 1
        self._holders[task] = self._holders.get(task, 0) + 1
        if self._law is None:
            return task
        return _Timed(task, self._law, self._law.round, trio.current_time())

    def _fits(self, places: int) -> bool:
        """Whether so many places can be given now: there are as many, or an adaptive limit is lower and nothing else runs."""
        if self._running + places <= self._limit:
            return True
        return self._running == 0 and self._law is not None and places <= self._most

    def _admit(self) -> None:
        """Hand places over to those in line, in their order, as long as the first one's fit."""
        while self._line and self._fits(next(iter(self._line.values()))):
            task, places = self._line.popitem(last=False)
            self._running += places
            reschedule(task)

    def _release(self, task: trio.lowlevel.Task, places: int = 1) -> None:
        held = self._holders[task] - 1
        if held:
            self._holders[task] = held
        else:
            del self._holders[task]
        # As in `_give_back`, less a call that every guarded one would pay for.
        self._running -= places
        if self._line:
            self._admit()

    def _give_back(self, places: int) -> None:
        self._running -= places
        if self._line:
            self._admit()

    def _ended(
        self,
        ticket: _Ticket,
        places: int,
        error: Exception | None = None,
        result: object = NO_RESULT,
    ) -> None:
        """Release a ticket that may be timed, and tell the law what its call says."""
        if not isinstance(ticket, _Timed):  # admitted under a fixed limit
            self._release(ticket, places)
            return
        law, ticket.law = ticket.law, None
        try:
            if law is not None and law is self._law:
                dropped = law.policy.too_much(error, result)
                if dropped or (error is None and not self._failed(result)):
                    took = trio.current_time() - ticket.began
                    if law.told(ticket.round, took, self._running, dropped=dropped):
                        self._follow(law)
        finally:  # their own rules may raise
            self._release(ticket.task, places)

    def _failed(self, result: object) -> bool:
        return self.fails is not None and result is not NO_RESULT and self.fails(result)

    def _follow(self, law: Vegas) -> None:
        old, self._limit = self._told, law.limit
        new = law.settled
        if abs(new - old) >= max(2, old / 4):  # to say it each round would be a flood
            self._told = new
            noticed(self, self.home)
            report(
                LimitChanged,
                home=self.home,
                dependency=self.name,
                old=old,
                new=new,
                alone=law.alone,
            )

    def _quit(self, ticket: _Ticket, places: int) -> None:
        self._release(ticket.task if isinstance(ticket, _Timed) else ticket, places)

    def succeeded(self, ticket: Any, result: object) -> None:
        if self._timed:
            self._ended(ticket, 1, result=result)
        else:
            self._release(ticket)

    def failed(self, ticket: Any, error: Exception) -> None:
        if self._timed:
            self._ended(ticket, 1, error)
        else:
            self._release(ticket)

    def left(self, ticket: Any) -> None:
        if self._timed:
            self._quit(ticket, 1)
        else:
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
            most=self._most,
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
            adaptive=self._law is not None,
            alone=self._law.alone if self._law is not None else None,
        )

    def __repr__(self) -> str:
        kind = "" if self._law is None else f", limit up to {self._most}"
        return f"<Bulkhead {self.name} {self._running}/{self._limit} running, {len(self._line)} waiting{kind}>"


class Taking(Guard[Any]):
    """Several places of a bulkhead for each call, made by `Bulkhead.take`."""

    def __init__(self, bulkhead: Bulkhead, places: int) -> None:
        super().__init__(bulkhead.name)
        self.bulkhead = bulkhead
        self.places = places

    def enter(self) -> _Ticket:
        """Take the places if they are free and nobody waits, or raise `BulkheadFull`."""
        ticket = self.enter_at_once()
        if ticket is None:
            raise self.bulkhead._refusal(None, self.places)
        return ticket

    def enter_at_once(self) -> _Ticket | None:
        """Take the places if they are free and nobody waits."""
        bulkhead = self.bulkhead
        if bulkhead._line:
            return None
        if bulkhead._running + self.places > bulkhead._limit and not bulkhead._fits(self.places):
            return None
        task = current_task()
        bulkhead._running += self.places
        return bulkhead._hold(task)

    async def enter_waiting(self, until: float = inf) -> _Ticket:
        """Take the places, all in one step, waiting for them in the bulkhead's line."""
        ticket = self.enter_at_once()
        return ticket if ticket is not None else await self.bulkhead._wait(self.places, until)

    def succeeded(self, ticket: Any, result: object) -> None:
        if self.bulkhead._timed:
            self.bulkhead._ended(ticket, self.places, result=result)
        else:
            self.bulkhead._release(ticket, self.places)

    def failed(self, ticket: Any, error: Exception) -> None:
        if self.bulkhead._timed:
            self.bulkhead._ended(ticket, self.places, error)
        else:
            self.bulkhead._release(ticket, self.places)

    def left(self, ticket: _Ticket) -> None:
        self.bulkhead._quit(ticket, self.places)

    def __repr__(self) -> str:
        return f"<{self.places} places of {self.bulkhead!r}>"
