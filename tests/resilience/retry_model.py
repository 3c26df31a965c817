"""Retrying as the text describes it: what each call has to do next, decided anew from lists of what happened. Shares no code with ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from random import Random

RUNNING, WAITING, ENDED = "running", "waiting", "ended"
DRAWN = 10**6
"""A window that nothing leaves: with jitter times lie on no grid, and a recount of slices could not be exact."""

WORTH = {
    "down": True,
    "group": True,
    "deaf": True,
    "never": False,
    "unnamed": False,
    "mixed": False,
}
REFUSED = {"refused", "all refused"}
"""How an attempt may fail, and whether another may cure it."""


@dataclass
class Case:
    """What the machine drew."""

    attempts: int | None
    total: float | None
    initial: float
    factor: float
    maximum: float
    jitter: float
    hints: bool
    hint_max: float
    all_errors: bool
    ratio: float | None
    floor: int
    window: float


@dataclass(eq=False)
class Expected:
    """One call, as it has to be."""

    began: float
    deadline: float
    until: float
    budgeted: bool
    runs: list[float] = field(default_factory=list)
    state: str = RUNNING
    due: float = inf
    end: str = ""
    """ok, error, cancelled, late (the caller's deadline), too slow (the dependency's own `total`) or abrupt."""
    why: str = ""
    earlier: int = 0
    noted: bool = False


class Model:
    """All calls, and what they share."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.twin = Random(seed)
        self.firsts: list[float] = []
        self.retries: list[float] = []
        self.refused = 0
        self.announced = 0

    def begin(self, now: float, deadline: float, until: float, *, budgeted: bool) -> Expected:
        call = Expected(now, deadline, until, budgeted and self.case.ratio is not None)
        call.runs.append(now)
        if call.budgeted:
            self.firsts.append(now)
        return call

    def recent(self, times: list[float], now: float) -> int:
        return sum(now - at < self.case.window for at in times)

    def plain(self, n: int) -> float:
        """The wait number `n` before jitter."""
        wait, cap = self.case.initial, self.case.maximum / (1 + self.case.jitter)
        for _ in range(n - 1):
            wait = min(wait * self.case.factor, cap)
        return min(wait, cap)

    def fails(self, call: Expected, how: str, hint: float | None, now: float, left: float) -> None:
        """The attempt under way failed with an error of the kind `how`."""
        case, made = self.case, len(call.runs)
        call.earlier = made - 1
        call.noted = made > 1
        call.end, call.state, call.why = "error", ENDED, ""
        if how in REFUSED:
            call.noted = call.noted or how == "all refused"  # the text of a group says little
            return
        if how == "poison" or not (
            WORTH.get(how, False) or (how == "too slow" and case.all_errors)
        ):
            return
        if case.attempts is not None and made >= case.attempts:
            call.why = f"{made} of {case.attempts} attempts made"
            return
        plain = self.plain(made)
        wait = plain
        if case.jitter and plain:
            wait = plain * (1 + self.twin.uniform(-case.jitter, case.jitter))
            assert plain * (1 - case.jitter) <= wait <= case.maximum * (1 + 1e-9)  # R2, R3
        if hint is not None and case.hints and hint > wait:
            if hint > case.hint_max:
                call.why, call.noted = "no more than", True
                return
            wait = hint
        else:
            hint = None
        room = left if case.total is None else min(left, case.total - (now - call.began))
        if wait >= left or (case.total is not None and now - call.began + wait > case.total):
            call.why = f"only {max(room, 0):.3g} s are left"
            # The other side asked for a time that is not there: whoever has the work may come back then.
            call.noted = call.noted or hint is not None
            return
        if call.budgeted:
            allowed = case.ratio * self.recent(self.firsts, now) + case.floor
            if self.recent(self.retries, now) + 1 > allowed:
                self.refused += 1
                call.why = "the retry budget is used up"
                return
            self.retries.append(now)
        self.announced += 1
        call.end, call.state, call.due = "", WAITING, now + wait

    def time_goes_to(self, call: Expected, target: float, deaf: bool) -> None:
        """What happens to `call` by itself up to `target`. A deaf attempt answers a cancellation with an error."""
        while call.state != ENDED:
            if call.state == WAITING:
                when = min(call.due, call.deadline)
                if when > target:
                    return
                if call.deadline <= call.due:
                    self.cut(call, "late")
                    return
                call.state = RUNNING
                call.runs.append(when)
                continue
            when = min(call.until, call.deadline)
            if when > target:
                return
            outer = call.deadline <= call.until
            if deaf:
                left = -inf if outer else min(call.until, call.deadline) - when
                self.fails(call, "deaf", None, when, left)
            elif outer:
                self.cut(call, "late")
            else:
                self.fails(call, "too slow", None, when, min(call.until, call.deadline) - when)
                call.end = "too slow"

    def cut(self, call: Expected, end: str) -> None:
        """It is cancelled: no count but that of its first attempt knows of it."""
        call.state, call.end = ENDED, end
