"""TrioStateMachine: Hypothesis' rule-based state machine, with a `Sim` inside, and rules that may be async.

Theory. Hypothesis calls rules as plain functions, one after the other, and draws what they do. A rule that is an async function runs
in the machine's sim until it has come to its end. Rules that only *start* things put several events into one instant; that finds
races sooner than clever schedules. Commands, faults, time and the order of tasks come from one sequence of draws, so all of
them shrink together.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar

from hypothesis import note, stateful
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple

from supervision.testing.oracles import DEFAULT, Oracle
from supervision.testing.schedule import Drawn, Schedule
from supervision.testing.sim import Backend, Sim
from supervision.testing.strategies import schedules
from supervision.testing.timeline import render

__all__ = [
    "Bundle",
    "TrioStateMachine",
    "consumes",
    "initialize",
    "invariant",
    "multiple",
    "precondition",
    "rule",
]

F = TypeVar("F", bound=Callable[..., Any])


class _Later(Schedule):
    """In order until a drawn schedule is there: the sim may have to be open before anything can be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: Schedule | None = None

    def _choose(self, rest: list[Any]) -> int:
        return self.drawn._choose(rest) if self.drawn is not None else 0

    def arrange(self, batch: list[Any]) -> list[Any]:
        if self.drawn is None:
            return super().arrange(batch)
        order = self.drawn.arrange(batch)
        self.choices, self.exceptions = self.drawn.choices, self.drawn.exceptions
        self.stopped = self.drawn.stopped
        return order

    def hand_over(self, schedule: Schedule) -> None:
        """Go on as `schedule` says."""
        schedule.choices, schedule.exceptions = self.choices, self.exceptions
        self.stopped = schedule.stopped
        schedule.on_stop = lambda: self.on_stop and self.on_stop()
        self.drawn = schedule


class TrioStateMachine(RuleBasedStateMachine):
    """Subclass it, write rules, and let a test runner collect its `TestCase`.

    Synopsis::

        class Shop(TrioStateMachine):
            def setup(self):
                self.pool = self.sim.supervise(tree)

            @rule(path=sampled_from(["orders", "outbox"]))
            async def restart(self, path):
                await self.pool.restart(path)

            @rule(seconds=sampled_from([0.5, 1, 5]))
            def time_passes(self, seconds):
                self.sim.advance(seconds)


        TestShop = Shop.TestCase

    After each rule the run settles, and the invariants are asked of all trees; when the steps are over the sim is closed and
    they are asked again.
    """

    schedule_kind: ClassVar[Literal["uniform", "pct"] | None] = "uniform"
    """How the order of ready tasks is drawn; None is first in, first out."""
    rule_timeout: ClassVar[float] = 0.0
    """Virtual seconds that an async rule may take."""
    backend: ClassVar[Backend | None] = None
    invariants_of_trees: ClassVar[tuple[Oracle, ...]] = DEFAULT
    """What is asked of every tree."""

    def __init__(self) -> None:
        super().__init__()
        self._sim: Sim | None = None
        self._order = _Later()
        self._failed = False

    def setup(self) -> None:
        """Called once the sim is open; start the tree here."""

    def finish(self) -> None:
        """Called when the steps are over and none has failed, before the sim is closed."""

    @property
    def sim(self) -> Sim:
        """The run; opened on first use."""
        if self._sim is None:
            self._sim = Sim(
                schedule=self._order, backend=self.backend, invariants=self.invariants_of_trees
            )
        return self._sim

    @stateful.initialize(schedule=schedules() | schedules(kind="pct"))
    def _open(self, schedule: Drawn) -> None:
        if self.schedule_kind is not None and self._sim_schedule() is self._order:
            self._order.hand_over(schedule)
        self._guarded(self.setup)

    def _sim_schedule(self) -> Schedule:
        return self.sim.schedule

    def _guarded(self, step: Callable[[], Any]) -> Any:
        """Take a step, settle, judge; a failure gets the timeline."""
        try:
            result = step()
            if inspect.isawaitable(result):
                raise TypeError(
                    f"{step!r} returned an awaitable: decorate an async function itself"
                )
            if self._sim is not None and not self._sim.closed:
                self._sim.settle()
                self._sim.judge()
        except Exception as error:
            self._failed = True
            if self._sim is not None:
                self._sim.explain(error)
                note(render(self._sim.trace))
            raise
        return result

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        """Call a rule's function, in the sim if it is async."""
        if not inspect.iscoroutinefunction(fn):
            return fn(self, *args, **values)
        return self.sim.run(functools.partial(fn, self, *args, **values), within=self.rule_timeout)

    def teardown(self) -> None:
        """Close the sim and judge the end. Override `finish` instead, or call this."""
        sim = self._sim
        if sim is None or sim.closed:
            return
        try:
            if not self._failed and sim.schedule.stopped is None:
                self._guarded(self.finish)
        finally:
            sim.close()
        if not self._failed and sim.schedule.stopped is None:
            try:
                sim.judge()
            except Exception as error:
                sim.explain(error)
                raise


def _step(fn: F) -> F:
    @functools.wraps(fn)
    def step(machine: TrioStateMachine, *args: Any, **values: Any) -> Any:
        return machine._guarded(lambda: machine._call(fn, args, values))

    # What is wrapped is a plain function, whatever `fn` is: Hypothesis must not think that it is async.
    del step.__wrapped__
    step.__signature__ = inspect.signature(fn)  # type: ignore[attr-defined]
    return step  # type: ignore[return-value]


def rule(**strategies: Any) -> Callable[[F], Any]:
    """As `hypothesis.stateful.rule`; the function may be async."""
    return lambda fn: stateful.rule(**strategies)(_step(fn))


def initialize(**strategies: Any) -> Callable[[F], Any]:
    """As `hypothesis.stateful.initialize`; the function may be async."""
    return lambda fn: stateful.initialize(**strategies)(_step(fn))


def invariant(*, check_during_init: bool = False) -> Callable[[F], Any]:
    """As `hypothesis.stateful.invariant`; the function may be async, and must not need time."""
    return lambda fn: stateful.invariant(check_during_init=check_during_init)(_step(fn))


def precondition(holds: Callable[[Any], Any]) -> Callable[[F], F]:
    """As `hypothesis.stateful.precondition`; `holds` may be async, and must change nothing."""
    if not inspect.iscoroutinefunction(holds):
        return stateful.precondition(holds)
    return stateful.precondition(lambda machine: machine._call(holds, (), {}))
