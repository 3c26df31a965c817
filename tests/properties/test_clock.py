"""The tree's one clock against a model: timers that are set, cancelled and fired, also by each other."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.clock import Timer, TimerQueue
from tests.properties.looking import looking

EIGHTHS = st.integers(0, 16).map(lambda n: n / 8)


class Clocks(RuleBasedStateMachine):
    """Timers are numbered in the order of setting; each notes that it fired, and may cancel others or set a new one."""

    @initialize()
    def open(self) -> None:
        self.queue = TimerQueue()
        self.now = 0.0
        self.timers: dict[int, Timer] = {}
        self.pending: dict[int, float] = {}
        self.fired: list[int] = []
        self.expected: list[int] = []

    def set(self, when: float, cancels=(), again: bool = False) -> None:
        number = len(self.timers)

        def fire() -> None:
            self.fired.append(number)
            for other in cancels:
                self.timers[other].cancel()
            if again:
                self.set(self.now)

        self.timers[number] = self.queue.call_at(when, fire)
        self.pending[number] = when
        self.effects = getattr(self, "effects", {})
        self.effects[number] = cancels

    @rule(wait=EIGHTHS, again=st.booleans())
    def one(self, wait, again) -> None:
        self.set(self.now + wait, again=again)

    @rule(wait=EIGHTHS, size=st.sampled_from([3, 70, 200]))
    def many_of_which_the_first_cancels_the_rest(self, wait, size) -> None:
        first = len(self.timers)
        self.set(self.now + wait, cancels=range(first + 1, first + size))
        for _ in range(size - 1):
            self.set(self.now + wait)

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def cancel(self, data) -> None:
        number = data.draw(st.integers(0, len(self.timers) - 1))
        self.timers[number].cancel()
        self.pending.pop(number, None)

    @rule(wait=EIGHTHS)
    def time_passes(self, wait) -> None:
        self.now += wait
        due = sorted((when, n) for n, when in self.pending.items() if when <= self.now)
        for _, number in due:
            if self.pending.pop(number, None) is not None:
                self.expected.append(number)
                for other in self.effects[number]:
                    self.pending.pop(other, None)
        self.queue.fire_due(self.now)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "queue"):
            assert self.fired == self.expected
            seen = self.queue.statistics()
            assert seen.active == len(self.pending)
            assert seen.fired == len(self.fired)
            assert {n for n, timer in self.timers.items() if timer.active} == set(self.pending)

    @invariant()
    def holds_no_more_than_it_must(self) -> None:
        if hasattr(self, "queue"):
            assert len(self.queue._heap) <= 2 * len(self.pending) + 65


TestClocks = Clocks.TestCase
TestClocks.settings = looking(60, steps=30)
