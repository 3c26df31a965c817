"""When a breaker opens, for how long, and what closes it again: states and policy, as values.

Floor: above verdict and counts. Pure. The rule: a breaker does what this page says and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from random import Random
from types import MappingProxyType
from typing import Any, Final

import attrs

from actors.options import (
    OptionError,
    above_zero,
    amount,
    at_once,
    checked,
    count,
    is_number,
    seconds,
    share,
    some_seconds,
)
from actors.resilience.backoff import Backoff
from actors.resilience.counts import Counts
from actors.resilience.verdict import Errors, as_errors, kinds

__all__ = ["TRANSITIONS", "BreakerMemory", "BreakerPolicy", "BreakerState"]


class BreakerState(IntEnum):
    """The numbers are those of the gauge."""

    CLOSED = 0
    """Calls are made and their results counted."""
    HALF_OPEN = 1
    """A few trials are made, the rest is refused."""
    OPEN = 2
    """All calls are refused."""


TRANSITIONS: Final[Mapping[BreakerState, Mapping[BreakerState, str]]] = MappingProxyType(
    {
        BreakerState.CLOSED: {BreakerState.OPEN: "too many failures, or opened by hand"},
        BreakerState.OPEN: {
            BreakerState.HALF_OPEN: "open_for has passed",
            BreakerState.CLOSED: "closed by hand",
        },
        BreakerState.HALF_OPEN: {
            BreakerState.CLOSED: "enough trials succeeded, or closed by hand",
            BreakerState.OPEN: "a trial failed, or opened by hand",
        },
    }
)
"""From each state: the states it can change to, and why. The diagram in the documentation is drawn from this table."""


def _whole(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if value is None and field.name in ("failures", "window_calls"):
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(
            f"{field.name} must be a whole number, 1 or more, not {value!r}", option=field.name
        )


def _rate(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not is_number(value) or not 0 < value <= 1):
        raise OptionError(
            f"{field.name} must be a share above 0 and up to 1, or None, not {value!r}",
            option=field.name,
        )


def _state(_: object, field: attrs.Attribute[Any], value: object) -> None:
    names = [state.name.lower() for state in BreakerState]
    if value not in names:
        raise OptionError(
            f"{field.name} must be one of {', '.join(names)}, not {value!r}", option=field.name
        )


def _held(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value not in (None, "isolated", "disabled"):
        raise OptionError(
            f"{field.name} must be isolated, disabled or None, not {value!r}", option=field.name
        )


def refuse_misfits(name: str, *, policy: object, on_state_change: object, random: object) -> None:
    """Refuse what a breaker cannot be made of where it is written, not when it first changes."""
    for option, given, fits, wanted in (
        ("policy", policy, isinstance(policy, BreakerPolicy), "a BreakerPolicy(...)"),
        ("on_state_change", on_state_change, callable(on_state_change), "a function"),
        ("random", random, isinstance(random, Random), "a random.Random"),
    ):
        if given is not None and not fits:
            raise OptionError(
                f"{option} is {wanted} or None, not {given!r}",
                where=f"breaker {name!r}",
                option=option,
            )


@checked()
@attrs.frozen(kw_only=True)
class BreakerMemory:
    """What a breaker takes along into another process: `attrs.asdict` makes plain values of it, for JSON.

    It holds durations and no times: clocks of two processes have nothing in common. Counts stay behind.
    """

    state: str = attrs.field(validator=_state)
    held: str | None = attrs.field(default=None, validator=_held)
    """`isolated` or `disabled`, if it was set so by hand."""
    left: float = attrs.field(default=0.0, validator=seconds)
    """Seconds that it stays open."""
    opened_for: float = attrs.field(default=0.0, validator=seconds)
    """Seconds that it was opened for."""
    reopened: int = attrs.field(default=0, validator=count)
    """Recoveries that failed in a row, which make it stay open for longer."""
    why: str = ""

    def __attrs_post_init__(self) -> None:
        needed = {"isolated": "open", "disabled": "closed"}.get(self.held or "", self.state)
        if self.state != needed:
            raise OptionError(
                f"state must be {needed}, as of every breaker that is {self.held}, not {self.state!r}",
                option="state",
            )


@checked()
@attrs.frozen(kw_only=True)
class BreakerPolicy:
    """When a breaker opens, for how long, and what closes it again."""

    failures: int | None = attrs.field(
        default=5,
        validator=_whole,
        metadata={"doc": "opens at this many consecutive failures; none: only by a rate"},
    )
    failure_rate: float | None = attrs.field(
        default=None,
        validator=_rate,
        metadata={"doc": "opens at this share of failures in the window"},
    )
    slow_rate: float | None = attrs.field(
        default=None,
        validator=_rate,
        metadata={"doc": "opens at this share of slow calls in the window"},
    )
    slow_after: float | None = attrs.field(
        default=None,
        validator=some_seconds,
        metadata={"doc": "seconds from which a call counts as slow"},
    )
    window: float = attrs.field(
        default=60.0, validator=above_zero, metadata={"doc": "seconds that rates are taken over"}
    )
    window_calls: int | None = attrs.field(
        default=None,
        validator=_whole,
        metadata={"doc": "take rates over this many last calls instead of over time"},
    )
    minimum: int = attrs.field(
        default=10,
        validator=_whole,
        metadata={"doc": "calls in the window before a rate means anything"},
    )
    ready_to_trip: Callable[[Counts], bool] | None = attrs.field(
        default=None,
        validator=at_once,
        metadata={"doc": "a rule of your own over the counts, asked after each failure"},
    )
    open_for: float = attrs.field(
        default=30.0, validator=seconds, metadata={"doc": "seconds it stays open the first time"}
    )
    open_growth: float = attrs.field(
        default=2.0, validator=amount, metadata={"doc": "growth of that, each time trials fail"}
    )
    open_max: float = attrs.field(
        default=300.0, validator=seconds, metadata={"doc": "seconds it stays open at most"}
    )
    jitter: float = attrs.field(
        default=0.0,
        validator=share,
        metadata={
            "doc": "share by which open times are spread; set it if many processes share a dependency"
        },
    )
    half_open_max: int = attrs.field(
        default=1, validator=_whole, metadata={"doc": "trials that may be under way at once"}
    )
    successes: int = attrs.field(
        default=1, validator=_whole, metadata={"doc": "successful trials that close it"}
    )
    lease: float | None = attrs.field(
        default=None,
        validator=some_seconds,
        metadata={
            "doc": "seconds after which a trial loses its place; none: as long as it was open"
        },
    )
    on: Errors = attrs.field(
        default=(Exception,),
        converter=as_errors,
        validator=kinds,
        metadata={"doc": "errors that count as failures: classes, or a function of the error"},
    )
    neutral: Errors = attrs.field(
        default=(),
        converter=as_errors,
        validator=kinds,
        metadata={"doc": "exceptions from `on` that count as nothing"},
    )
    fails: Callable[[Any], bool] | None = attrs.field(
        default=None,
        validator=at_once,
        metadata={"doc": "a function of a result: true if it is a failure after all"},
    )

    def __attrs_post_init__(self) -> None:
        if (self.slow_rate is None) != (self.slow_after is None):
            raise OptionError("slow_rate and slow_after belong together", option="slow_rate")
        if self.failures is None and not self.windowed:
            raise OptionError(
                "nothing would ever open it: give failures, a rate or ready_to_trip",
                option="failures",
            )
        rated = self.failure_rate is not None or self.slow_rate is not None
        if rated and self.window_calls is not None and self.window_calls < self.minimum:
            raise OptionError(
                f"minimum ({self.minimum}) is more than window_calls ({self.window_calls}), so no rate"
                " would ever mean anything",
                option="minimum",
            )
        if self.open_max < self.open_for:
            raise OptionError(
                f"open_max ({self.open_max:g} s) is shorter than open_for ({self.open_for:g} s)",
                option="open_max",
            )

    @property
    def windowed(self) -> bool:
        """True if it needs the counts of a window, not only those since the last change."""
        return (
            self.failure_rate is not None
            or self.slow_rate is not None
            or self.ready_to_trip is not None
        )

    def open_seconds(self, reopened: int, random: Random) -> float:
        """Seconds to stay open, after `reopened` failed recoveries in a row."""
        schedule = Backoff(self.open_for, self.open_growth, self.open_max, self.jitter)
        return schedule.delay(reopened + 1, random)
