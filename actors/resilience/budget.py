"""Retry budget: how many of the calls to one dependency may be retries.

Floor: the lowest. The rule (Finagle's): in a sliding window, retries are at most a share of first attempts, plus a floor that
lets a quiet caller retry at all. When everything fails, a budget turns a storm of retries into a drizzle.
"""

from __future__ import annotations

from collections import deque

import attrs

from actors.options import OptionError, above_zero, checked, count, is_number
from actors.records import Record, record

__all__ = ["BudgetPolicy", "BudgetStatistics", "RetryBudget"]


def _ratio(_: object, field: attrs.Attribute[float], value: float) -> None:
    if not is_number(value) or not value >= 0:
        raise OptionError(
            f"{field.name} must be a number, 0 or more, not {value!r}", option=field.name
        )


@checked()
@attrs.frozen(kw_only=True)
class BudgetPolicy:
    """Retries allowed per window: `ratio` of the first attempts in it, plus `floor`."""

    ratio: float = attrs.field(
        default=0.2, validator=_ratio, metadata={"doc": "retries per first attempt"}
    )
    floor: int = attrs.field(
        default=10, validator=count, metadata={"doc": "retries per window that are always allowed"}
    )
    window: float = attrs.field(
        default=10.0, validator=above_zero, metadata={"doc": "seconds that count"}
    )


@record
class BudgetStatistics(Record):
    """Counts in the present window, and refusals so far."""

    first_attempts: int
    retries: int
    refused: int


class RetryBudget:
    """The budget of one dependency. Ten slices a window: a call costs no more than an addition."""

    __slots__ = ("_first", "_retries", "_slices", "policy", "refused")

    def __init__(self, policy: BudgetPolicy) -> None:
        self.policy = policy
        self.refused = 0
        self._first = self._retries = 0
        self._slices: deque[list[float]] = deque()  # [start, first attempts, retries]

    def attempted(self, now: float) -> None:
        """A first attempt is made."""
        self._slice(now)[1] += 1
        self._first += 1

    def take(self, now: float) -> bool:
        """Take one retry; False, and nothing taken, if the budget is used up."""
        slice_ = self._slice(now)
        above = self._retries + 1 - self.policy.floor
        # A quotient, which is exact for a ratio such as 0.29 where the product is a little less than 29 of 100.
        if above > 0 and (not self._first or above / self._first > self.policy.ratio):
            self.refused += 1
            return False
        slice_[2] += 1
        self._retries += 1
        return True

    def _slice(self, now: float) -> list[float]:
        slices = self._slices
        self._expire(now)
        if not slices or now - slices[-1][0] >= self.policy.window / 10:
            slices.append([now, 0, 0])
        return slices[-1]

    def _expire(self, now: float) -> None:
        slices = self._slices
        # A slice of the future is one of an earlier Trio run, whose clock had another origin.
        while slices and (now - slices[0][0] >= self.policy.window or now < slices[-1][0]):
            _, first, retries = slices.popleft()
            self._first -= int(first)
            self._retries -= int(retries)

    def statistics(self, now: float) -> BudgetStatistics:
        """Counts at `now`."""
        self._expire(now)
        return BudgetStatistics(
            first_attempts=self._first, retries=self._retries, refused=self.refused
        )

    def __repr__(self) -> str:
        return f"<RetryBudget {self._retries} retries of {self._first} first attempts>"
