"""simulate: one scenario, from its beginning to its end, in virtual time; and the check that it is reproducible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import TypeVar, cast

from supervision.testing.errors import Deadlock, Nondeterminism, TooLong
from supervision.testing.oracles import DEFAULT, Oracle
from supervision.testing.schedule import Schedule, replay
from supervision.testing.sim import Backend, Sim
from supervision.testing.trace import Trace

__all__ = ["Different", "Last", "Twice", "check_determinism", "compare", "simulate"]

T = TypeVar("T")


class Twice:
    """Whether every `simulate`, and every example of a machine, runs twice and compares: the option `--supervision-check-determinism`."""

    on: bool = False


class Last:
    """The last run of a `simulate` that ended well: what is wrong may be seen only after it, by the test itself."""

    sim: Sim | None = None


class Different(KeyboardInterrupt):
    """Carries a `Nondeterminism` past Hypothesis, which would look for the same example again, in vain; the plugin unpacks it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def simulate(
    scenario: Callable[[], Awaitable[T]],
    *,
    schedule: Schedule | None = None,
    horizon: float = 3600.0,
    invariants: Iterable[Oracle] = DEFAULT,
    trace: Trace | None = None,
    backend: Backend | None = None,
    real: bool = False,
) -> T:
    """Run `scenario()` in virtual time under a schedule, and judge every tree it starts. Returns its result.

    Args:
        schedule: the order of ready tasks, drawn by `schedules()` or made by `replay`; first in, first out by default.
        horizon: virtual seconds it may take.
        invariants: asked at every instant at which time is about to pass, and at the end.
        trace: where to record; a new one by default.
        real: let real threads be used.

    Raises:
        InvariantViolation: one does not hold; the timeline and the line that replays it are in its notes.
        Deadlock: it waits, and nothing will ever wake a task.
        TooLong: the horizon is reached.
    """
    found = Trace() if trace is None else trace
    result = _once(scenario, schedule, horizon, invariants, found, backend, real=real)
    if Twice.on:
        again = Trace()
        order = replay(str(schedule)) if schedule is not None else None
        _once(scenario, order, horizon, invariants, again, backend, real=real)
        compare(found, again)
    return result


def _once(
    scenario: Callable[[], Awaitable[T]],
    schedule: Schedule | None,
    horizon: float,
    invariants: Iterable[Oracle],
    trace: Trace,
    backend: Backend | None,
    *,
    real: bool,
) -> T:
    invariants = tuple(invariants)
    with Sim(
        schedule=schedule, backend=backend, real=real, invariants=invariants, trace=trace
    ) as sim:
        pending = sim.start(scenario)
        sim.settle()
        seen = -1
        while not pending.done:
            if len(trace.events) != seen:
                seen = len(trace.events)
                sim.judge()
            due = sim.next_timer()
            if due == inf:
                raise Deadlock(pending.name, sim.tasks())
            if due > horizon:
                raise TooLong(pending.name, horizon)
            sim.advance_to_next()
        sim.judge()
        result = cast(T, pending.value())
    Last.sim = sim
    return result


def check_determinism(
    scenario: Callable[[], Awaitable[object]],
    *,
    schedule: str = "fifo",
    runs: int = 2,
    horizon: float = 3600.0,
) -> None:
    """Run `scenario()` several times under the same schedule and compare what was reported.

    Raises:
        Nondeterminism: the first event that differs.
    """
    first: Trace | None = None
    for _ in range(runs):
        trace = Trace()
        _once(scenario, replay(schedule), horizon, (), trace, None, real=False)
        if first is not None:
            compare(first, trace)
        first = trace


def compare(first: Trace, second: Trace) -> None:
    """Raise `Nondeterminism` if the two differ."""
    one, other = first.lines(), second.lines()
    for number, (a, b) in enumerate(zip(one, other, strict=False), 1):
        if a != b:
            raise Nondeterminism(number, a, b)
    if len(one) != len(other):
        number = min(len(one), len(other))
        none = "(nothing)"
        raise Nondeterminism(
            number + 1,
            one[number] if number < len(one) else none,
            other[number] if number < len(other) else none,
        )
