"""Vegas: a limit that finds itself, from how long calls take.

Floor: above verdict. Pure: how long calls took is told, and randomness is given. Theory (TCP Vegas, as Netflix's
concurrency-limits has it):

* A call that takes longer than it would alone has queued over there. Of `limit` calls in flight, each of which takes `mean` instead of
  `alone` seconds, `limit * (1 - alone / mean)` stand in that queue. A short queue keeps the other side busy; a longer one only
  makes everybody wait. So the limit grows while the queue is short and shrinks when it is long.
* Calls are judged in *rounds*: of those that began since the limit changed last, at least as many as have been in flight at once.
  So one overload is one change, and a change is seen at work before the next.
* `alone` is found anew now and then, or the limit would stay small for ever when calls become slower for good. Taking it from
  the calls of the moment would take the queue for the service: each time the limit would rise a little more. So it is measured in a
  round with half as many calls as the other side has room for. A round that has no more by itself will do as well.
* Times scatter. Means are compared with means, one quick round moves `alone` only a little, and the queue that is aimed at is never
  less than a tenth of the limit, where the original says three times its logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log10
from random import Random
from typing import Any, Final

import attrs
import trio

from actors.errors import PoisonMessage, Rejected
from actors.options import OptionError, at_once, checked
from actors.resilience.guard import NO_RESULT
from actors.resilience.verdict import Errors, as_errors, covers, kinds, leaves

__all__ = ["Vegas", "VegasLimit", "places_or_law"]

STRAY: Final = 0.02
"""The share of calls in a round that may have been too much without a meaning."""
SOON: Final = 5
"""Rounds until `alone` is measured again if it was found to be quite different, or never measured yet."""


def _whole(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(
            f"{field.name} must be a whole number, 1 or more, not {value!r}", option=field.name
        )


@checked()
@attrs.frozen(kw_only=True)
class VegasLimit:
    """A limit of calls in flight that finds itself: instead of a number, as in `Bulkhead("search", VegasLimit(maximum=200))`.

    The law is that of TCP Vegas (Brakmo and Peterson, 1995), as Netflix's concurrency-limits applies it to calls.
    """

    initial: int = attrs.field(
        default=10, validator=_whole, metadata={"doc": "calls in flight to begin with"}
    )
    minimum: int = attrs.field(
        default=1, validator=_whole, metadata={"doc": "calls in flight that are always allowed"}
    )
    maximum: int = attrs.field(
        default=1000, validator=_whole, metadata={"doc": "calls in flight that are never exceeded"}
    )
    on: Errors = attrs.field(
        default=(trio.TooSlowError,),
        converter=as_errors,
        validator=kinds,
        metadata={
            "doc": "errors that say it was too much: classes, or a function of the error; others say nothing"
        },
    )
    fails: Callable[[Any], bool] | None = attrs.field(
        default=None,
        validator=at_once,
        metadata={"doc": "a function of a result: true if it says so, such as a 429 or 503"},
    )
    samples: int = attrs.field(
        default=10,
        validator=_whole,
        metadata={"doc": "calls that make a round, at the least; the limit changes once a round"},
    )
    probe_after: int = attrs.field(
        default=50,
        validator=_whole,
        metadata={
            "doc": "rounds, or down to half as many, until the time of a call without a queue is measured anew"
        },
    )

    def __attrs_post_init__(self) -> None:
        if not self.minimum <= self.initial <= self.maximum:
            raise OptionError(
                f"initial ({self.initial}) must lie between minimum ({self.minimum}) and maximum ({self.maximum})",
                option="initial",
            )

    def too_much(self, error: Exception | None, result: object) -> bool:
        """True if what a call raised, or returned, says that it was too much.

        A call that was not made, because another guard refused it or too little time was left, says nothing.
        """
        if error is None:
            return self.fails is not None and result is not NO_RESULT and bool(self.fails(result))
        return any(
            covers(self.on, leaf) and not isinstance(leaf, (PoisonMessage, Rejected))
            for leaf in leaves(error)
        )


def places_or_law(_: object, field: attrs.Attribute[Any], value: object) -> None:
    """A whole number, 0 or more, or a `VegasLimit`."""
    if isinstance(value, VegasLimit):
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError(
            f"{field.name} must be a whole number, 0 or more, or a VegasLimit(...), not {value!r}",
            option=field.name,
        )


class Vegas:
    """What a `VegasLimit` has found out so far: told of each call that says something, it says how many may be in flight."""

    __slots__ = (
        "_after",
        "_bad",
        "_before",
        "_exact",
        "_good",
        "_most",
        "_probe",
        "_random",
        "_room",
        "_settling",
        "_total",
        "alone",
        "policy",
        "round",
    )

    def __init__(self, policy: VegasLimit, random: Random) -> None:
        self.policy = policy
        self.alone: float | None = None
        """Seconds that a call takes if it need not queue, as far as is known."""
        self.round = 0
        """Only calls that began in this round count."""
        self._random = random
        self._exact = float(policy.initial)
        self._room = policy.initial / 2  # what the other side does at once, as far as is known
        self._probe: int | None = None  # the limit while `alone` is measured
        self._settling = False  # the queue has to form again
        self._before = True  # `alone` was never measured on purpose
        self._after = self._rounds(SOON)
        # Of this round: calls that returned, how long they took together, calls that were too much, the most in flight.
        self._good, self._total, self._bad, self._most = 0, 0.0, 0, 0

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return self.settled if self._probe is None else self._probe

    @property
    def settled(self) -> int:
        """The same, without the rounds that only measure."""
        return int(self._exact)

    def told(self, round: int, rtt: float, running: int, *, dropped: bool = False) -> bool:  # noqa: A002
        """A call that began in `round` took `rtt` seconds and ends now, with `running` in flight; `dropped`: it was too much.

        Returns:
            True if the round is over. The limit may be another one now.
        """
        if round != self.round:
            return False
        if dropped:
            self._bad += 1
        elif rtt > 0:  # or the clock is too coarse
            self._good += 1
            self._total += rtt
        else:
            return False
        self._most = max(self._most, running)
        if self._good + self._bad < max(self.policy.samples, self._most):
            return False
        self._judge()
        self._good, self._total, self._bad, self._most = 0, 0.0, 0, 0
        self.round += 1
        return True

    def _rounds(self, most: int) -> int:
        return max(1, round(most * self._random.uniform(0.5, 1.0)))

    def _judge(self) -> None:
        probed, self._probe = self._probe is not None, None
        settling, self._settling = self._settling, probed
        share = self._bad / (self._good + self._bad)
        if share > STRAY:
            if probed:
                self._after = self._rounds(SOON)
            self._move(-max(_step(self._exact), self._exact * share / 2))
        elif not settling:
            self._compare(self._total / self._good, probed=probed)

    def _compare(self, mean: float, *, probed: bool) -> None:
        exact, idle = self._exact, self._most * 2 < self.settled
        if probed or self._most <= max(1.0, self._room / 2) or self.settled <= self.policy.minimum:
            self._measured(mean, on_purpose=probed)
        elif self.alone is None:
            self.alone = mean
        elif mean < self.alone:
            self.alone += (mean - self.alone) / 10
        if probed or idle:
            return
        assert self.alone is not None
        queue = max(0.0, exact * (1 - self.alone / mean))
        self._room = exact - queue
        self._after -= 1
        if self._after <= 0 and self.settled > self.policy.minimum:
            self._probe = max(self.policy.minimum, round(self._room / 2))
        else:
            self._move(_change(exact, queue))

    def _measured(self, mean: float, *, on_purpose: bool) -> None:
        known = self.alone
        if known is None or (on_purpose and self._before):
            self.alone = mean
        else:
            self.alone = known + (mean - known) / 2
        surprise = known is None or not 2 / 3 < mean / known < 3 / 2
        self._after = self._rounds(SOON if surprise else self.policy.probe_after)
        self._before = self._before and not on_purpose

    def _move(self, change: float) -> None:
        self._exact = min(max(self._exact + change, self.policy.minimum), self.policy.maximum)

    def __repr__(self) -> str:
        known = "unknown" if self.alone is None else f"{self.alone:.3g} s"
        return f"<Vegas {self.limit}, a call alone takes {known}>"


def _step(limit: float) -> float:
    return max(1.0, log10(limit))


def _change(limit: float, queue: float) -> float:
    """By how much a limit changes if so many calls queue."""
    step = _step(limit)
    aim = max(min(3 * step, limit * 3 / 10), limit / 10)
    if queue <= aim / 3:
        return min(6 * step, limit)
    if queue < aim:
        return step
    if queue > 2 * aim:
        return -max(step, (queue - 2 * aim) / 2)
    return 0.0
