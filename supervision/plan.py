"""The brain: who ended how -> stop these, start those, wait, give up.

Floor: above restart. Pure and synchronous: values in, values out; `branch.py` carries plans out. Two questions:

* `decide`: one child's run has ended by itself. Is that the end of it, is there another run and when, or is its limit used up?
* `Plan`s: in which *waves* a group is stopped and started. A wave is complete when all its members are down (or ready), and
  only then the next one begins. Stops go in reverse order of the list, starts in order; replicas of one worker share a wave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import groupby
from random import Random
from typing import Generic, Protocol, TypeVar

import attrs

from actors.errors import shown
from actors.records import Record
from supervision.restart import Budget, RestartPolicy, RestartType
from supervision.specs import AutoShutdown, OnFailed, Strategy
from supervision.states import State

__all__ = [
    "Decision",
    "Ending",
    "GiveUp",
    "Member",
    "Plan",
    "Rest",
    "Restart",
    "auto_shutdown",
    "decide",
    "group_plan",
    "start_plan",
    "stop_plan",
]


class Ending(StrEnum):
    """How a run ended."""

    RETURNED = "returned"
    FAILED = "failed"
    STOPPED = "stopped"


@attrs.frozen(eq=False, repr=False)
class Rest(Record):
    """It stays down, in this state; `why` if that is failed."""

    state: State
    why: str = ""


@attrs.frozen(eq=False, repr=False)
class Restart(Record):
    """It runs again: consecutive restart number `attempt`, `delay` seconds from now."""

    delay: float
    attempt: int


@attrs.frozen(eq=False, repr=False)
class GiveUp(Record):
    """A limit is used up: the child's own, or (`own=False`) its supervisor's."""

    why: str
    own: bool


Decision = Rest | Restart | GiveUp


def decide(
    ending: Ending,
    error: BaseException | None,
    *,
    policy: RestartPolicy,
    failures: int,
    budget: Budget,
    on_failed: OnFailed,
    now: float,
    random: Random,
) -> Decision:
    """What follows a run that ended by itself.

    Args:
        failures: this end's number among consecutive ones, from 1, if it asks for a restart.
        budget: the supervisor's; one restart is taken from it if this decides for one.

    A failing start is a failed run like any other. A normal end of a permanent child asks for a restart and counts; that
    of any other child costs nothing. A temporary child's failure is its own affair.
    """
    if policy.type is RestartType.TEMPORARY:
        return Rest(State.STOPPED)
    if ending is Ending.RETURNED and policy.type is not RestartType.PERMANENT:
        return Rest(State.STOPPED)
    if not policy.covers(error):
        why = (
            f"{shown(error)} is none of the errors that a restart may cure (RestartPolicy(on=...))"
        )
        return _exhausted(why, on_failed)
    if policy.exhausted(failures):
        times = f"{failures} consecutive times (max_restarts={policy.max_restarts})"
        return _exhausted(f"it ended {times}", on_failed)
    if not budget.spend(now):
        return GiveUp(
            f"its children asked for more than {budget.intensity} restarts in {budget.period:g} s",
            own=False,
        )
    return Restart(policy.delay(failures, random), failures)


def _exhausted(why: str, on_failed: OnFailed) -> Decision:
    return Rest(State.FAILED, why) if on_failed is OnFailed.HOLD else GiveUp(why, own=True)


class Member(Protocol):
    """What plans must know of a child."""

    @property
    def rank(self) -> int:
        """Position in start order; replicas of one worker share theirs."""
        ...

    @property
    def alive(self) -> bool:
        """True while a run of it lives."""
        ...

    @property
    def wanted(self) -> bool:
        """True unless it has ended for good, was stopped by hand, or is disabled."""
        ...


M = TypeVar("M", bound=Member)


@attrs.frozen(eq=False, repr=False)
class Plan(Record, Generic[M]):
    """Waves to stop, then a moment to wait for, then waves to start."""

    stop: tuple[tuple[M, ...], ...] = ()
    start: tuple[tuple[M, ...], ...] = ()
    waits: tuple[tuple[M, float], ...] = ()
    """Whose failure asked for a wait, and until when, by Trio's clock."""
    lowest: int = 0
    """The lowest rank that it concerns."""

    @property
    def not_before(self) -> float:
        """Time of Trio's clock before which nothing is started."""
        return max((when for _, when in self.waits), default=0.0)


def _waves(members: Iterable[M]) -> tuple[tuple[M, ...], ...]:
    return tuple(tuple(wave) for _, wave in groupby(members, key=lambda member: member.rank))


def start_plan(members: Iterable[M]) -> Plan[M]:
    """Start all that are wanted, in order."""
    return Plan(start=_waves(member for member in members if member.wanted))


def stop_plan(members: Iterable[M], *, at_once: bool = False) -> Plan[M]:
    """Stop all that live, in reverse order; `at_once` for children that have no order (a dynamic supervisor's)."""
    alive = [member for member in members if member.alive]
    if at_once:
        return Plan(stop=(tuple(alive),) if alive else ())
    return Plan(stop=_waves(reversed(alive)))


def group_plan(
    strategy: Strategy,
    members: Iterable[M],
    failed: M,
    *,
    not_before: float,
    under_way: Plan[M] | None,
) -> Plan[M]:
    """Restart the group of `failed`: its whole list, or it and those after it.

    A plan `under_way` is replaced: what it had still to do is part of this one, which begins at the lower of both. Those that had
    ended for good or were stopped by hand stay down (OTP revives them).
    """
    lowest = failed.rank if strategy is Strategy.REST_FOR_ONE else 0
    waits = [(failed, not_before)]
    if under_way is not None:
        lowest = min(lowest, under_way.lowest)
        # A wait is over for one that was stopped or started by hand meanwhile: it holds up nobody, nor its own next run.
        waits += [
            (member, when)
            for member, when in under_way.waits
            if member.wanted and not member.alive and member is not failed
        ]
    first = failed.rank + 1 if strategy is Strategy.REST_FOR_ONE else 0
    ranked = list(members)
    return Plan(
        stop=_waves(m for m in reversed(ranked) if m.alive and m.rank >= first),
        start=_waves(m for m in ranked if m.wanted and m.rank >= lowest),
        waits=tuple(waits),
        lowest=lowest,
    )


def auto_shutdown(
    mode: AutoShutdown,
    *,
    significant: bool,
    significant_left: Callable[[], bool],
    left: Callable[[], bool],
) -> bool:
    """True if a supervisor ends now that a child has ended for good by itself.

    Args:
        significant: whether that child is.
        significant_left: tells if a significant child has not ended for good.
        left: tells if any child has not; one stopped by hand has not, a disabled one does not count.
    """
    if mode is AutoShutdown.ALL_DONE:
        return not left()
    if mode is AutoShutdown.ANY_SIGNIFICANT:
        return significant
    if mode is AutoShutdown.ALL_SIGNIFICANT:
        return significant and not significant_left()
    return False
