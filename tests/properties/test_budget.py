"""The supervisor's budget of restarts against a model that remembers everything."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from supervision.restart import Budget
from tests.properties.looking import looking


class Budgets(RuleBasedStateMachine):
    """Time passes, restarts are asked for; the window slides, with both of its edges inside."""

    @initialize(intensity=st.integers(0, 4), period=st.sampled_from([0.125, 1.0, 2.5]))
    def open(self, intensity, period) -> None:
        self.budget = Budget(intensity, period)
        self.now = 0.0
        self.granted: list[float] = []

    def used(self) -> int:
        return sum(self.now - at <= self.budget.period for at in self.granted)

    @rule(eighths=st.integers(0, 30))
    def time_passes(self, eighths) -> None:
        self.now += eighths / 8

    @rule(number=st.integers(0, 10), past=st.sampled_from([-0.0625, 0.0, 0.0625]))
    def time_passes_to_an_edge(self, number, past) -> None:
        edges = [at + self.budget.period + past for at in self.granted]
        later = [edge for edge in edges if edge >= self.now]
        if later:
            self.now = later[number % len(later)]

    @rule()
    def spend(self) -> None:
        allowed = self.used() < self.budget.intensity
        assert self.budget.spend(self.now) == allowed
        if allowed:
            self.granted.append(self.now)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "budget"):
            assert self.budget.used(self.now) == self.used() <= self.budget.intensity

    @invariant()
    def remembers_one_window_only(self) -> None:
        if hasattr(self, "budget"):
            assert len(self.budget._stamps) <= self.budget.intensity


TestBudgets = Budgets.TestCase
TestBudgets.settings = looking(150, steps=40)


def test_without_intensity_nothing_is_counted() -> None:
    """No intensity is no limit, and costs no memory."""
    budget = Budget(None, 1.0)

    assert all(budget.spend(0.0) for _ in range(100))
    assert budget.used(0.0) == 0
