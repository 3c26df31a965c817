"""Periodic: one job for each period, however many nodes there are.

Floor: above engine. The rule: a period is a number, counted by the engine's clock from its zero; the engine remembers the last
one that had its job and is asked to fire in one step with that memory, so nobody needs to be elected. Periods that nobody was
there for are not made up for.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import attrs
import trio

from actors.context import Context
from actors.jobs.condition import Condition
from actors.jobs.engine import Engine
from actors.jobs.job import NewJob
from actors.options import OptionError, above_zero, checked, seconds
from actors.resilience.backoff import Backoff

__all__ = ["Periodic"]

_PATIENCE: Final = 5.0
"""Seconds that the engine may take. To ask again does no harm: it remembers whether it has fired."""
_LONGEST: Final = 60.0
"""Seconds between two looks at most: a clock can be set, and a machine sleep, while we count seconds of our own."""

_SHORTEST: Final = 0.001
"""And at least: with a period too short for its clock, an engine may say that the next one is now."""


def _kind(kind: type[Any]) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            raise OptionError(
                f"{field.name} is of type {kind.__name__}, not {value!r}", option=field.name
            )

    return check


@checked()
@attrs.frozen(eq=False)
class Periodic:
    """Enqueues a job every so often: `Worker("nightly", Periodic("nightly", NewJob("report"), every=86400, engine=engine))`.

    All nodes run it; in each period, the first to ask enqueues the job.
    """

    name: str = attrs.field(validator=_kind(str))
    """Of the schedule, the same on all nodes."""
    job: NewJob = attrs.field(validator=_kind(NewJob))
    """What is enqueued."""
    every: float = attrs.field(kw_only=True, validator=above_zero)
    """Seconds of a period."""
    engine: Engine = attrs.field(kw_only=True, validator=_kind(Engine))
    """Where to."""
    offset: float = attrs.field(default=0.0, kw_only=True, validator=seconds)
    """Seconds by which periods begin later than at multiples of `every` on the engine's clock."""
    random: Random = attrs.field(factory=Random, kw_only=True, repr=False)
    """Source of jitter of the waits for a failing engine."""

    async def __call__(self, ctx: Context) -> None:
        """One run: until a stop."""
        backoff = Backoff(initial=1.0, factor=2.0, maximum=30.0, jitter=0.2)
        condition = Condition(ctx, self.engine.name, _PATIENCE)
        while not ctx.stopping:
            if ctx.beat_at is not None:
                ctx.heartbeat()
            condition.asked("fire")
            try:
                with trio.fail_after(_PATIENCE):
                    fired = await self.engine.fire(self.name, self.every, self.offset, self.job)
            except Exception as error:
                wait = backoff.delay(condition.failures + 1, self.random)
                condition.failed("fire", error, wait)
            else:
                wait = fired.next_in
                condition.works("fire")
            await ctx.sleep(max(_SHORTEST, min(wait, _LONGEST)))
