"""The clock: one heap of timers and one task for a whole tree.

Floor: above errors. The rule: a timer is a callback at a time of Trio's clock; it belongs to whoever set it,
who cancels it; a cancelled timer never fires.

A cancel scope with a deadline round each ask costs more than the ask itself, so all deadlines of a tree (asks,
backoff, stop deadlines, watchdogs, `ctx.after`) share one heap. Cancelling is lazy: the entry stays and is
skipped; when more than half of the heap is dead it is rebuilt, so that a million cancelled timers leave nothing.

Even a heap is dear for the timeouts of asks, which are many, nearly all alike, and hardly ever come to pass. Those of one
length end in the order they began, so a queue does: a `Lane`, with one timer for whoever is at its front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol

import trio

from actors.records import Record, record

__all__ = ["Lane", "Timer", "TimerQueue", "TimerStatistics"]

_REBUILD_FROM: Final = 64
_LANES: Final = 16
"""Not more lengths of timeouts than this get a lane at once."""


class Timer:
    """One appointment. `cancel()` may be called at any time, also twice."""

    __slots__ = ("_queue", "callback", "when")

    def __init__(self, queue: TimerQueue, when: float, callback: Callable[[], object]) -> None:
        self._queue: TimerQueue | None = queue  # None once it is out of the heap
        self.when = when
        """Time of Trio's clock at which it fires."""
        self.callback: Callable[[], object] | None = callback

    @property
    def active(self) -> bool:
        """True until it has fired or was cancelled."""
        return self.callback is not None

    def cancel(self) -> None:
        """It will not fire; nothing happens if it has."""
        if self.callback is not None:
            self.callback = None
            if self._queue is not None:
                self._queue.one_died()

    def __repr__(self) -> str:
        return f"<Timer at {self.when:.6g}{'' if self.active else ' (done)'}>"


@record
class TimerStatistics(Record):
    """Counts of one queue."""

    active: int
    """Timers that will fire."""
    fired: int
    """Callbacks called so far."""


class Waiting(Protocol):
    """What waits in a lane."""

    @property
    def task(self) -> object:
        """None once it waits no more."""

    @property
    def end(self) -> float:
        """When its time is up."""
        ...

    def expire(self) -> None:
        """Its time is up."""


class Lane:
    """Timeouts of one length, in the order they end.

    What waits no more stays until it comes to the front, or until the lane has grown to twice of what still waited at the
    last sweep.
    """

    __slots__ = ("_line", "_seconds", "_sweep_at", "_timer", "_timers")

    def __init__(self, timers: TimerQueue, seconds: float) -> None:
        self._timers = timers
        self._seconds = seconds
        self._line: deque[Waiting] = deque()
        self._sweep_at = _REBUILD_FROM
        self._timer: Timer | None = None

    def add(self, waiting: Waiting) -> None:
        """Call `waiting.expire()` at its `end`, `seconds` from now, if it still waits then."""
        line = self._line
        while line and line[0].task is None:
            line.popleft()
        line.append(waiting)
        if self._timer is None:
            self._timer = self._timers.call_at(waiting.end, self._due)
        elif len(line) > self._sweep_at:
            self._line = deque(other for other in line if other.task is not None)
            self._sweep_at = max(_REBUILD_FROM, 2 * len(self._line))

    def __len__(self) -> int:
        return len(self._line)

    def __repr__(self) -> str:
        return f"<Lane of {self._seconds:g} s, {len(self._line)} in line>"

    def _due(self) -> None:
        now, line = trio.current_time(), self._line
        while line and (line[0].task is None or line[0].end <= now):
            waiting = line.popleft()
            if waiting.task is not None:
                waiting.expire()
        if line:
            self._timer = self._timers.call_at(line[0].end, self._due)
        else:
            self._timer = None
            self._timers.lanes.pop(self._seconds, None)


class TimerQueue:
    """The timers of a tree. `run()` is its one task; without it nothing fires."""

    __slots__ = ("_dead", "_heap", "_last", "_scope", "_seq", "fired", "lanes")

    def __init__(self) -> None:
        self.lanes: dict[float, Lane] = {}
        self._last = 0.0  # the length of the last timeout that found no lane
        self._heap: list[tuple[float, int, Timer]] = []  # compared without calling Python
        self._seq = 0
        self._dead = 0
        self._scope: trio.CancelScope | None = None
        self.fired = 0

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call `callback()` at `when` (seconds of Trio's clock). It must not raise and must not block."""
        self._seq += 1
        timer = Timer(self, when, callback)
        heap = self._heap
        heappush(heap, (when, self._seq, timer))
        if heap[0][2] is timer and self._scope is not None:
            self._scope.deadline = when
        return timer

    def lane(self, seconds: float) -> Lane | None:
        """A lane for timeouts of this length; None for one that is not used again and again, which a timer serves better."""
        if seconds != self._last or len(self.lanes) >= _LANES:
            self._last = seconds
            return None
        lane = self.lanes[seconds] = Lane(self, seconds)
        return lane

    def one_died(self) -> None:
        """Called by `Timer.cancel`: count it, and rebuild when most entries are dead."""
        self._dead += 1
        if self._dead > _REBUILD_FROM and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapify(self._heap)
            self._dead = 0

    @trio.lowlevel.enable_ki_protection  # Ctrl-C goes to the main task instead, and becomes a stop
    async def run(self) -> None:
        """Fire what is due, in order of time, ties in order of setting; for ever, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._next()) as self._scope:
                await trio.sleep_forever()
            self._scope = None
            self.fire_due(trio.current_time())

    def fire_due(self, now: float) -> None:
        """Fire every timer due at `now`. A timer set meanwhile for `now` waits for the next turn."""
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            timer = heappop(self._heap)[2]
            timer._queue = None
            if timer.callback is None:
                self._dead -= 1
            else:
                due.append(timer)
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:  # else one that has just fired cancelled it
                self.fired += 1
                callback()

    def _next(self) -> float:
        while self._heap and self._heap[0][2].callback is None:
            heappop(self._heap)
            self._dead -= 1
        return self._heap[0][0] if self._heap else inf

    def statistics(self) -> TimerStatistics:
        """Counts so far."""
        return TimerStatistics(active=len(self._heap) - self._dead, fired=self.fired)

    def __repr__(self) -> str:
        return f"<TimerQueue {len(self._heap) - self._dead} active>"
