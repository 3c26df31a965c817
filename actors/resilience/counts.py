"""Counts: the results that a breaker judges by.

Floor: the lowest. The rule: a result is booked at the time it comes, in a window over time (ten slices) or over the last
calls; without a window, since the last change of state.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from actors.records import Record, record

__all__ = ["Counts", "Outcome", "Window"]


class Outcome(Enum):
    """What a call's end means to a breaker."""

    SUCCESS = 0
    FAILURE = 1
    NEUTRAL = 2


@record
class Counts(Record):
    """Results in the window; the consecutive ones since the last change of state."""

    successes: int = 0
    failures: int = 0
    neutral: int = 0
    """Cancelled, refused deeper, or not an error that counts: since the last change of state."""
    slow: int = 0
    """Of successes and failures, those that took too long."""
    consecutive_successes: int = 0
    consecutive_failures: int = 0

    @property
    def calls(self) -> int:
        """Successes and failures."""
        return self.successes + self.failures


class Window:
    """Results over the last `seconds`, or over the last `calls` if that is given."""

    __slots__ = (
        "_calls",
        "_last",
        "_seconds",
        "_slices",
        "failures",
        "neutral",
        "run",
        "slow",
        "successes",
    )

    def __init__(self, seconds: float, calls: int | None) -> None:
        self._seconds = seconds
        self._calls = calls
        self._slices: deque[list[float]] = deque()  # [start, successes, failures, slow]
        self._last: deque[tuple[bool, bool]] = deque()  # (failed, slow) of the last calls
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._slices.clear()
        self._last.clear()
        self.successes = self.failures = self.neutral = self.slow = 0
        self.run = 0  # consecutive successes if positive, failures if negative

    def quick_success(self) -> None:
        """Book a success when nobody looks at rates."""
        self.successes += 1
        self.run = self.run + 1 if self.run > 0 else 1

    def success(self, now: float) -> None:
        """As `add`, of what nearly every call ends with: a success that was not slow."""
        slices = self._slices
        if self._calls is None and slices and now - slices[-1][0] < self._seconds / 10:
            slices[-1][1] += 1
            self.quick_success()
        else:
            self.add(Outcome.SUCCESS, now, slow=False)

    def add(self, outcome: Outcome, now: float, *, slow: bool) -> None:
        """Book one result."""
        if outcome is Outcome.NEUTRAL:
            self.neutral += 1
            return
        failed = outcome is Outcome.FAILURE
        if failed:
            self.run = self.run - 1 if self.run < 0 else -1
        else:
            self.run = self.run + 1 if self.run > 0 else 1
        self._change(1, failed, slow)
        if self._calls is not None:
            self._last.append((failed, slow))
            if len(self._last) > self._calls:
                self._change(-1, *self._last.popleft())
            return
        if not self._slices or now - self._slices[-1][0] >= self._seconds / 10:
            self._expire(now)  # here too: while all goes well nobody asks for the counts
            self._slices.append([now, 0, 0, 0])
        slice_ = self._slices[-1]
        slice_[2 if failed else 1] += 1
        slice_[3] += slow

    def counts(self, now: float) -> Counts:
        """The results in the window that ends at `now`."""
        self._expire(now)
        return Counts(
            successes=self.successes,
            failures=self.failures,
            neutral=self.neutral,
            slow=self.slow,
            consecutive_successes=max(self.run, 0),
            consecutive_failures=max(-self.run, 0),
        )

    def _expire(self, now: float) -> None:
        while self._slices and now - self._slices[0][0] >= self._seconds:
            _, successes, failures, slow = self._slices.popleft()
            self.successes -= int(successes)
            self.failures -= int(failures)
            self.slow -= int(slow)

    def _change(self, by: int, failed: bool, slow: bool) -> None:
        if failed:
            self.failures += by
        else:
            self.successes += by
        if slow:
            self.slow += by
