"""RestartPolicy, restart types, and the two budgets: per replica and per supervisor.

Floor: above errors. The rule: pure values and counters; time and randomness are arguments.
Sources: restart types and intensity/period are OTP's supervisor's; the window is float seconds, both edges inclusive
(a restart exactly `period` ago still counts), as OTP's is in whole seconds.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any, cast

import attrs

from actors.options import Choice, OptionError, amount, checked, count, seconds, share
from actors.records import Record
from actors.resilience.backoff import Backoff
from supervision.errors import SpecError

__all__ = ["Budget", "RestartPolicy", "RestartType"]


class RestartType(Choice):
    """After which ends a run is followed by another."""

    PERMANENT = "permanent"
    """After any end that nobody asked for."""
    TRANSIENT = "transient"
    """After a failure."""
    TEMPORARY = "temporary"
    """Never."""

    @classmethod
    def option(cls) -> str:
        return "type"


def _exceptions(_: object, field: attrs.Attribute[Any], value: tuple[type, ...]) -> None:
    for kind in value:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise OptionError(
                f"{field.name} lists exception classes (of Exception), not {kind!r}",
                option=field.name,
            )


def _kinds(value: type[Exception] | Iterable[type[Exception]]) -> tuple[type[Exception], ...]:
    if isinstance(value, (type, str)) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value)


@checked(SpecError)
@attrs.frozen(kw_only=True, eq=False, repr=False)
class RestartPolicy(Record):
    """When and how soon a failed run is followed by another.

    The wait before consecutive restart n is that of `actors.Backoff`. A run that lasted at least `reset_after` seconds, counted
    from when it was ready, makes the next failure number 1 again; a run that never became ready lasted nothing.
    """

    type: RestartType = attrs.field(
        default=RestartType.TRANSIENT,
        converter=RestartType,
        metadata={"doc": "which ends are followed by a restart: permanent, transient or temporary"},
    )
    max_restarts: int = attrs.field(
        default=5,
        validator=count,
        metadata={"doc": "consecutive restarts before it is failed; 0 is unlimited"},
    )
    initial_backoff: float = attrs.field(
        default=1.0,
        validator=seconds,
        metadata={"doc": "seconds before the first restart; 0 is at once"},
    )
    factor: float = attrs.field(
        default=2.0, validator=amount, metadata={"doc": "growth from one wait to the next"}
    )
    max_backoff: float = attrs.field(
        default=30.0, validator=seconds, metadata={"doc": "seconds that no wait exceeds"}
    )
    jitter: float = attrs.field(
        default=0.1,
        validator=share,
        metadata={"doc": "share by which each wait is spread to both sides"},
    )
    reset_after: float = attrs.field(
        default=60.0,
        validator=seconds,
        metadata={"doc": "seconds of good running that clear the count"},
    )
    on: tuple[builtins.type[Exception], ...] = attrs.field(
        default=(Exception,),
        converter=_kinds,
        validator=_exceptions,
        metadata={"doc": "errors that a restart may cure; any other leaf of a failure is final"},
    )

    backoff: Backoff = attrs.field(init=False, eq=False, repr=False)
    """The schedule of waits."""

    def __attrs_post_init__(self) -> None:
        backoff = Backoff(self.initial_backoff, self.factor, self.max_backoff, self.jitter)
        object.__setattr__(self, "backoff", backoff)

    def delay(self, n: int, random: Random) -> float:
        """Seconds to wait before consecutive restart number `n`, from 1."""
        return self.backoff.delay(n, random)

    def covers(self, error: BaseException | None) -> bool:
        """True if every leaf of `error` is one that a restart may cure; the most severe leaf decides."""
        if error is None or self.on == (Exception,):
            return True
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            return all(self.covers(inner) for inner in group.exceptions)
        return isinstance(error, self.on)

    def exhausted(self, failures: int) -> bool:
        """True if consecutive failure number `failures` is one too many."""
        return self.max_restarts != 0 and failures > self.max_restarts


class Budget:
    """At most `intensity` restarts in any sliding window of `period` seconds; None is no limit. O(1) amortised."""

    __slots__ = ("_stamps", "intensity", "period")

    def __init__(self, intensity: int | None, period: float) -> None:
        self.intensity = intensity
        self.period = period
        self._stamps: deque[float] = deque()

    def spend(self, now: float) -> bool:
        """Take one restart at `now`; False, and nothing taken, if the window is full."""
        if self.intensity is None:
            return True
        if self.used(now) >= self.intensity:
            return False
        self._stamps.append(now)
        return True

    def used(self, now: float) -> int:
        """Restarts in the window that ends at `now`."""
        stamps = self._stamps
        while stamps and now - stamps[0] > self.period:
            stamps.popleft()
        return len(stamps)

    def stamps(self) -> tuple[float, ...]:
        """When the restarts were that may still count, oldest first."""
        return tuple(self._stamps)

    def __repr__(self) -> str:
        limit = "unlimited" if self.intensity is None else f"{self.intensity} in {self.period:g} s"
        return f"<Budget {limit}, {len(self._stamps)} stamps>"
