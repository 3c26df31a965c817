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
from typing import Any, ClassVar, Literal, cast

from hypothesis import note, stateful, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple

from supervision.testing.oracles import DEFAULT, Oracle
from supervision.testing.schedule import Drawn, Schedule, replay
from supervision.testing.sim import Backend, Sim
from supervision.testing.simulate import Different, Twice, compare
from supervision.testing.strategies import schedules
from supervision.testing.tape import Tape
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
        self._order: Schedule = _Later()
        self.failure: Exception | None = None
        """What was wrong first."""
        self._cut_short = False
        self._tape = Tape() if Twice.on else None
        self.steps = 0
        """Rules called so far; those that only set up are none."""

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

    @stateful.initialize(uniform=schedules(), pct=st.deferred(lambda: schedules(kind="pct")))
    def open_sim(self, uniform: Drawn, pct: Drawn) -> None:
        """Open the sim, with a drawn order of tasks, and call `setup`."""
        order = self._order
        if (
            self.schedule_kind is not None
            and isinstance(order, _Later)
            and self.sim.schedule is order
        ):
            order.hand_over(uniform if self.schedule_kind == "uniform" else pct)
        self._record(TrioStateMachine._set_up, (), {})

    def _set_up(self) -> None:
        self.setup()

    def _guarded(self, step: Callable[[], Any]) -> Any:
        """Take a step, settle, judge; a failure gets the timeline."""
        try:
            result = step()
            if self._sim is not None and not self._sim.closed:
                self._sim.settle()
                self._sim.judge()
        except Exception as error:
            if not self._stopped(error):
                self.failure = error
                if self._sim is not None:
                    self._sim.explain(error)
                    note(render(self._sim.trace))
            raise
        except BaseException:  # Hypothesis ends the example: there is no end to judge
            self._cut_short = True
            raise
        return result

    def _stopped(self, error: BaseException | None = None) -> bool:
        """True if Hypothesis has ended the example; `error` is then what it raised."""
        stop = None if self._sim is None else self._sim.schedule.stopped
        return stop is not None and (error is None or error is stop)

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        """Call a rule's function, in the sim if it is async."""
        if not inspect.iscoroutinefunction(fn):
            return fn(self, *args, **values)
        return self.sim.run(functools.partial(fn, self, *args, **values), within=self.rule_timeout)

    def _take(self, fn: Callable[..., Any], args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        """Take a step of a rule or an invariant."""
        return self._guarded(lambda: self._call(fn, args, values))

    def _record(self, fn: Callable[..., Any], args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        """The same, noted if everything is to be done twice."""
        if self._tape is None:
            return self._take(fn, args, values)
        return self._tape.record(self._take, fn, args, values)

    def _repeat(self, tape: Tape, first: Sim) -> None:
        """Let another machine take the same steps, and compare what was reported."""
        again = type(self)()
        again._tape, again._order = None, replay(str(first.schedule))
        second, different = again.sim, None
        try:
            tape.play(again._take)
            again._guarded(again.finish)
        except Exception as error:
            different = error  # the first machine did not raise it
        finally:
            again._cut_short = True  # nothing more is asked of it
            again.teardown()
        try:
            compare(first.trace, second.trace)
        except AssertionError as error:
            raise Different(error) from None
        if different is not None:
            raise Different(different)

    def teardown(self) -> None:
        """Close the sim and judge the end. Override `finish` instead, or call this."""
        sim = self._sim
        if sim is None or sim.closed:
            return
        try:
            try:
                if self._sound():
                    self._guarded(self.finish)
            finally:
                self._close(sim)
            if self._sound():
                self._judge_end(sim)
        except Exception as error:
            if not self._stopped(error):
                self.failure = self.failure or error
            raise

    def _sound(self) -> bool:
        """True if the example goes on, as far as anybody knows."""
        return not (self.failure is not None or self._cut_short or self._stopped())

    def _close(self, sim: Sim) -> None:
        try:
            sim.close()
        except Exception as error:
            if self.failure is None:
                raise
            # Often only a consequence, and in place of what was wrong first it would hide that.
            self.failure.add_note(f"afterwards the run could not be closed: {error!r}")

    def _judge_end(self, sim: Sim) -> None:
        try:
            sim.judge()
        except Exception as error:
            sim.explain(error)
            raise
        if self._tape is not None:
            self._repeat(self._tape, sim)


def _step(fn: Callable[..., Any], *, counts: bool = False) -> Callable[..., Any]:
    def step(machine: TrioStateMachine, *args: Any, **values: Any) -> Any:
        machine.steps += counts
        return machine._record(fn, args, values)

    # Not by `functools.wraps`: Hypothesis would look through it and see an async function.
    step.__name__, step.__qualname__, step.__doc__ = fn.__name__, fn.__qualname__, fn.__doc__
    step.__module__ = fn.__module__
    step.__signature__ = inspect.signature(fn)  # type: ignore[attr-defined]
    for name, value in vars(fn).items():  # a `precondition` below the rule has left its mark
        setattr(step, name, value)
    return step


Decorator = Callable[[Callable[..., Any]], Any]


def rule(**strategies: Any) -> Decorator:
    """As `hypothesis.stateful.rule`; the function may be async."""
    mark = cast(Any, stateful.rule)(**strategies)
    return lambda fn: mark(_step(fn, counts=True))


def initialize(**strategies: Any) -> Decorator:
    """As `hypothesis.stateful.initialize`; the function may be async."""
    mark = cast(Any, stateful.initialize)(**strategies)
    return lambda fn: mark(_step(fn))


def invariant(*, check_during_init: bool = False) -> Decorator:
    """As `hypothesis.stateful.invariant`; the function may be async, and must not need time."""
    mark = cast(Any, stateful.invariant)(check_during_init=check_during_init)
    return lambda fn: mark(_step(fn))


def precondition(holds: Callable[[Any], Any]) -> Decorator:
    """As `hypothesis.stateful.precondition`; `holds` may be async, and must change nothing."""

    def now(machine: TrioStateMachine) -> Any:
        if machine._tape is None:
            return machine._call(holds, (), {})
        return machine._record(holds, (), {})

    test = now if inspect.iscoroutinefunction(holds) else holds
    return cast(Decorator, cast(Any, stateful.precondition)(test))
