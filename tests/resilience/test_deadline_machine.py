"""Deadlines against their model: blocks nested in any order, asks and jobs that carry them, cancellations and overruns.

Which promise is shown where:

| number | promise | here | elsewhere |
|---|---|---|---|
| D1 | the nearest deadline holds, through any nesting | `knows_what_is_left`, `time_passes` | test_deadlines |
| D2 | a reserve shortens, never below now | `enter(reserve=...)` | test_deadlines |
| D3 | if an enclosing one is as near, that one expires | `time_passes`: all times lie on one grid, so many are equal | test_deadlines |
| D4 | only one's own expiry is an error, an outer cancellation is none | `cancel`, `Level.ends` | test_deadlines |
| D5 | a result that is there is kept, late or not | `overrun` | test_deadlines |
| D6 | in one block what is left never grows | `knows_what_is_left` | test_deadlines |
| D7 | with less than the declared minimum nothing is begun | `enter(at_least=...)`, `call` | test_enough_time |
| D8 | clean-up is shielded, and for a finite time | `enter("cleanup")` | test_enough_time |
| D9 | other tasks have it only if it is passed on; an ask passes it on | `ask`, `hand_over` | test_deadlines, jobs in test_enough_time |
| D10 | a cancellation in any wait leaves no trace in any count | | the machines of retries, breaker and bulkhead: their `cancel` rules |
| D11 | only Trio's clock counts | each step: time is the driver's | test_deadlines |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors import Actor
from actors.errors import DeadlineExceeded, NoDeadline, NotEnoughTime
from actors.resilience import Dependency, cleanup, deadline, remaining, require_deadlines
from supervision import Supervisor, Worker, supervisor
from supervision.testing import Sim
from tests.properties.looking import looking

SEARCH = Dependency("search")
EAGER = Dependency("eager", at_least=2.0)
RARELY = st.sampled_from([False, False, False, True])


async def quick() -> str:
    return "done"


class Clerk(Actor):
    """Answers with what it knows of its asker's time: as told, by itself, and within a block of its own."""

    async def handle(self, message):
        alone = remaining()
        with deadline(at=self.ctx.deadline, reserve=message):
            return self.ctx.deadline, alone, remaining()


@dataclass
class Level:
    """One block of a task, as it has to be."""

    kind: str
    end: float
    given: float
    shield: bool = False
    cancelled: bool = False
    least: float = inf
    """The least that was ever left in it."""

    def ends(self) -> str:
        """What its end by itself looks like to whoever holds it."""
        return {"ours": "exceeded", "at": "exceeded", "fail": "too slow"}.get(self.kind, "quiet")


@dataclass
class Expected:
    """One task: its blocks, the outermost first, and how blocks ended that did not end by themselves."""

    levels: list[Level] = field(default_factory=list)
    heard: list[tuple[int, str]] = field(default_factory=list)

    def effective(self) -> float:
        end = inf
        for level in reversed(self.levels):
            end = min(end, -inf if level.cancelled else level.end)
            if level.shield:
                break
        return end

    def until(self, now: float) -> None:
        """Unwind what has expired or is cancelled, as far as it can be seen from within."""
        while True:
            cut = None
            for number in range(len(self.levels) - 1, -1, -1):
                level = self.levels[number]
                if level.cancelled or level.end <= now:
                    cut = number
                if level.shield:
                    break
            if cut is None:
                return
            level = self.levels[cut]
            # A scope that `cancel` ended reports as one that its time ended: it caught a cancellation.
            self.heard.append((cut, level.ends()))
            del self.levels[cut:]


class Person:
    """A task of the test: it enters and leaves blocks as it is told."""

    def __init__(self, machine: DeadlineMachine) -> None:
        self.machine = machine
        self.model = Expected()
        self.heard: list[tuple[int, str]] = []
        self.scopes: list[Any] = []
        self.orders: Any = None
        self.answer: Any = None
        self.call = machine.driver.start(self.live)
        machine.driver.settle()

    async def live(self) -> None:
        self.orders, orders = trio.open_memory_channel(1)
        await self.within(orders)

    async def within(self, orders) -> None:
        """Take orders in the present block until told to leave it."""
        async for what, argument in orders:
            if what == "leave":
                return
            if what == "overrun":
                self.machine.driver.clock.jump(argument)
                return
            if what == "enter":
                await self.enter(orders, argument)
            else:
                self.answer = await getattr(self, what)(argument)

    async def enter(self, orders, block) -> None:
        depth = len(self.scopes)
        try:
            with block() as scope:
                self.answer = scope
                self.scopes.append(scope)
                await self.within(orders)
            if getattr(scope, "cancelled_caught", False):
                self.heard.append((depth, "quiet"))
        except NotEnoughTime as refusal:
            self.answer = refusal
        except DeadlineExceeded:
            self.heard.append((depth, "exceeded"))
        except trio.TooSlowError:
            self.heard.append((depth, "too slow"))
        finally:
            del self.scopes[depth:]

    async def look(self, _) -> tuple[float, float]:
        return remaining(), trio.current_effective_deadline()

    async def ask(self, timeout_and_reserve) -> object:
        timeout, reserve = timeout_and_reserve
        return await self.machine.clerk.ask(reserve, timeout=timeout)

    async def use(self, dependency) -> object:
        try:
            return await dependency.call(quick)
        except (NoDeadline, NotEnoughTime) as refusal:
            return refusal

    def tell(self, what: str, argument: object = None) -> Any:
        """Give an order; what it came to, or None if the task was cut short."""
        self.answer = None
        self.orders.send_nowait((what, argument))
        self.machine.driver.settle()
        return self.answer


class DeadlineMachine(RuleBasedStateMachine):
    """Three tasks nest blocks of every kind; time goes to exact edges, which many of them share."""

    @initialize()
    def build(self) -> None:
        self.driver = Sim()
        self.clerk = None
        self.driver.start(self.serve)
        self.driver.settle()
        self.people = [Person(self) for _ in range(3)]

    async def serve(self) -> None:
        tree = Supervisor("t", [Worker("clerk", Clerk)])
        async with supervisor.running(tree, log=False, signals=False) as pool:
            self.clerk = pool.ref("clerk")
            await trio.sleep_forever()

    # -- rules

    @rule(
        who=st.integers(0, 2),
        kind=st.sampled_from(
            ["ours", "ours", "at", "move on", "fail", "cleanup", "shield", "require"]
        ),
        seconds=st.integers(0, 8),
        reserve=st.sampled_from([0, 0, 1, 3]),
        at_least=st.sampled_from([0, 0, 1, 4]),
    )
    def enter(self, who, kind, seconds, reserve, at_least) -> None:
        person, now = self.people[who], self.driver.now
        levels = person.model.levels
        if len(levels) >= 6:
            return
        outer = person.model.effective()
        end, shield = now + seconds, kind in ("cleanup", "shield")
        if kind == "ours":
            at_least = min(at_least, max(0, seconds - reserve))
            end = max(now, min(now + seconds, outer) - reserve) if reserve else now + seconds
            block = lambda: deadline(seconds, reserve=reserve, at_least=at_least)  # noqa: E731
        elif kind == "at":
            end = max(now, min(end, outer) - reserve) if reserve else end
            block = lambda: deadline(at=now + seconds, reserve=reserve, at_least=at_least)  # noqa: E731
        elif kind == "cleanup":
            end = now + seconds + 1
            block = lambda: cleanup(seconds + 1)  # noqa: E731
        elif kind in ("shield", "require"):
            end = inf
            block = (
                require_deadlines if kind == "require" else lambda: trio.CancelScope(shield=True)
            )
        else:
            wait = trio.move_on_after if kind == "move on" else trio.fail_after
            block = lambda: wait(seconds)  # noqa: E731
        answer = person.tell("enter", block)
        plain = min(now + seconds, outer) - reserve - now
        if kind in ("ours", "at") and at_least and plain < at_least:  # D7
            assert isinstance(answer, NotEnoughTime)
            assert (answer.left, answer.needed) == (max(0, plain), at_least)
            return
        levels.append(Level(kind, end, end - now, shield))
        person.model.until(now)

    def inside(self, who: int) -> Person | None:
        return self.people[who] if self.people[who].model.levels else None

    @rule(who=st.integers(0, 2), really=RARELY)
    def leave(self, who, really) -> None:
        person = self.inside(who)
        if person is not None and really:
            person.tell("leave")
            person.model.levels.pop()
            person.model.until(self.driver.now)

    @rule(who=st.integers(0, 2), seconds=st.integers(1, 6), really=RARELY)
    def overrun(self, who, seconds, really) -> None:
        """D5: it blocks past its deadline, and leaves the block with what it has before anybody notices."""
        person = self.inside(who)
        if person is None or not really:
            return
        person.tell("overrun", seconds)
        person.model.levels.pop()
        for (
            other
        ) in self.people:  # all at once: who is further out is told, whoever's time was up first
            other.model.until(self.driver.now)

    @rule(who=st.integers(0, 2), number=st.integers(0, 5), really=RARELY)
    def cancel(self, who, number, really) -> None:
        person = self.inside(who)
        if person is None or not really:
            return
        number %= len(person.model.levels)
        if person.model.levels[number].kind == "require":
            return
        person.scopes[number].cancel()
        person.model.levels[number].cancelled = True
        person.model.until(self.driver.now)
        self.driver.settle()

    @rule(halves=st.integers(1, 8))
    def time_passes(self, halves) -> None:
        began = self.driver.now
        self.driver.advance(halves / 2)
        for half in range(halves + 1):
            for person in self.people:
                person.model.until(began + half / 2)

    @rule(
        who=st.integers(0, 2),
        timeout=st.sampled_from([0.5, 2.0, 5.0]),
        reserve=st.sampled_from([0, 1]),
    )
    def ask(self, who, timeout, reserve) -> None:
        """D9: the time that the asker still has travels with the message, and the handler has it only by asking for it."""
        person, now = self.people[who], self.driver.now
        told, alone, within = person.tell("ask", (timeout, reserve))
        end = min(now + timeout, person.model.effective())
        assert told == end
        assert alone == inf
        assert within == max(0, end - reserve - now)

    @rule(who=st.integers(0, 2), other=st.integers(0, 2))
    def hand_over(self, who, other) -> None:
        """D9: another task takes over a deadline as a time."""
        end = self.people[who].model.effective()
        if who == other or len(self.people[other].model.levels) >= 6:
            return
        person, now = self.people[other], self.driver.now
        person.tell("enter", lambda: deadline(at=end))
        person.model.levels.append(Level("at", end, end - now))
        person.model.until(now)

    @rule(who=st.integers(0, 2))
    def call(self, who) -> None:
        """A guarded call without any deadline is a bug where they are required; one without enough time is not made."""
        person, now = self.people[who], self.driver.now
        end = person.model.effective()
        required = any(level.kind == "require" for level in person.model.levels)
        answer = person.tell("use", SEARCH)
        assert isinstance(answer, NoDeadline) if required and end == inf else answer == "done"
        answer = person.tell("use", EAGER)
        if required and end == inf:
            assert isinstance(answer, NoDeadline)
        elif end - now < 2.0:  # D7
            assert isinstance(answer, NotEnoughTime)
            assert (answer.left, answer.needed) == (end - now, 2.0)
        else:
            assert answer == "done"

    # -- what holds always

    @invariant()
    def knows_what_is_left(self) -> None:
        for person in getattr(self, "people", ()):
            model = person.model
            assert person.heard == model.heard  # D1, D3, D4: who was told, in which order
            assert len(person.scopes) == len(model.levels)
            left, end = person.tell("look")
            assert end == model.effective()
            assert left == max(0.0, end - self.driver.now)
            for number, level in enumerate(model.levels):
                if level.kind != "require":
                    assert person.scopes[number].deadline == level.end
            if model.levels:
                assert left <= model.levels[-1].least  # D6
                model.levels[-1].least = left
            assert not person.call.done

    def teardown(self) -> None:
        for person in getattr(self, "people", ()):
            for scope in person.scopes:
                if scope is not None:
                    scope.shield = False  # or nothing would ever end it
        if hasattr(self, "driver"):
            self.driver.close()


TestDeadlineMachine = DeadlineMachine.TestCase
TestDeadlineMachine.settings = looking(150, steps=50)
