"""BreakerMachine: calls that overlap, fail, end late, never, or are cancelled, against a model of a breaker that counts in a row."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import attrs
import trio
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from actors.errors import BreakerOpen
from actors.resilience import BreakerPolicy, BreakerState, CircuitBreaker
from supervision.testing.errors import InjectedFault
from supervision.testing.machine import TrioStateMachine, initialize, invariant, precondition, rule
from supervision.testing.sim import Pending

__all__ = ["BreakerMachine"]

_POLICIES = st.builds(
    BreakerPolicy,
    failures=st.integers(1, 3),
    open_for=st.sampled_from([1.0, 2.0]),
    open_growth=st.just(1.0),
    jitter=st.just(0.0),
    half_open_max=st.integers(1, 2),
    successes=st.integers(1, 2),
    lease=st.just(1000.0),
)


End = Literal["fail", "ok", "cancel"]
_ENDS: Final[tuple[End, ...]] = ("fail", "fail", "ok", "cancel")


@attrs.define(eq=False)
class _Flight:
    """One call, from its start to its end."""

    go: trio.Event = attrs.field(factory=trio.Event)
    end: End = "ok"
    generation: int | None = None
    """The model's, when it was admitted; None if it was refused."""
    ran: bool = False
    call: Pending | None = None


class BreakerMachine(TrioStateMachine):
    """Subclass it with `policies` of your own: consecutive failures, trials, successes. Give `make` for your own breaker."""

    policies: ClassVar[SearchStrategy[BreakerPolicy]] = _POLICIES

    breaker: CircuitBreaker

    def __init__(self) -> None:
        super().__init__()
        self.policy = BreakerPolicy()
        self.flights: list[_Flight] = []
        self.state = BreakerState.CLOSED
        self.generation = 0
        self.streak = 0
        self.passed = 0
        self.open_until = 0.0

    def make(self, policy: BreakerPolicy) -> CircuitBreaker:
        """The breaker to test."""
        return CircuitBreaker("x", policy)

    @initialize(data=st.data())
    def declare(self, data: DataObject) -> None:
        """Make the breaker."""
        self.policy = data.draw(self.policies)
        self.breaker = self.make(self.policy)

    # -- the model -------------------------------------------------------------------------------

    def _go(self, state: BreakerState) -> None:
        self.state = state
        self.generation += 1
        self.streak = self.passed = 0
        if state is BreakerState.OPEN:
            self.open_until = self.sim.now + self.policy.open_for

    def _touch(self) -> None:
        if self.state is BreakerState.OPEN and self.sim.now >= self.open_until:
            self._go(BreakerState.HALF_OPEN)

    def _trials(self) -> int:
        return sum(1 for flight in self.flights if flight.generation == self.generation)

    def _admits(self) -> bool:
        self._touch()
        if self.state is BreakerState.HALF_OPEN:
            return self._trials() < self.policy.half_open_max
        return self.state is BreakerState.CLOSED

    def _ended(self, flight: _Flight) -> None:
        if flight.generation != self.generation or flight.end == "cancel":
            return
        good = flight.end == "ok"
        if self.state is BreakerState.HALF_OPEN:
            self.passed += good
            if not good:
                self._go(BreakerState.OPEN)
            elif self.passed >= self.policy.successes:
                self._go(BreakerState.CLOSED)
            return
        self.streak = 0 if good else self.streak + 1
        if self.policy.failures is not None and self.streak >= self.policy.failures:
            self._go(BreakerState.OPEN)

    # -- rules -----------------------------------------------------------------------------------

    async def _work(self, flight: _Flight) -> None:
        flight.ran = True
        await flight.go.wait()
        if flight.end == "fail":
            raise InjectedFault

    def _begin(self) -> _Flight | None:
        """A call begins; None if it is refused."""
        flight = _Flight()
        admitted = self._admits()
        flight.call = self.sim.start(self.breaker.call, self._work, flight)
        self.sim.settle()
        assert flight.ran == admitted, f"{self.state.name}: made {flight.ran}, should {admitted}"
        if not admitted:
            assert isinstance(flight.call.error, BreakerOpen)
            return None
        flight.generation = self.generation
        self.flights.append(flight)
        return flight

    def _end(self, flight: _Flight, end: End) -> None:
        """A call comes to its end."""
        self._touch()
        self.flights.remove(flight)
        flight.end = end
        assert flight.call is not None
        if end == "cancel":
            flight.call.cancel()
        else:
            flight.go.set()
        # An open breaker notices the time only when somebody looks, and the model has.
        assert self.breaker.state == self.state
        self.sim.settle()
        self._ended(flight)

    @rule(times=st.integers(1, 3))
    def fail(self, times: int) -> None:
        """Calls begin and fail, one after the other: enough of them trip it."""
        for _ in range(times):
            flight = self._begin()
            if flight is not None:
                self._end(flight, "fail")

    @rule(count=st.integers(1, 2))
    def begin(self, count: int) -> None:
        """Calls begin; each is made, or refused, as the model says."""
        for _ in range(count):
            self._begin()

    @precondition(lambda self: self.flights)
    @rule(which=st.sampled_from([0, 0, 1, 2]), end=st.sampled_from(_ENDS))
    def end(self, which: int, end: End) -> None:
        """One of the calls comes to its end; 0 is the one that began last. Nothing happens if there are not so many."""
        if which < len(self.flights):
            self._end(self.flights[-1 - which], end)

    @rule(early=st.sampled_from([0.0, 0.125]))
    def trip(self, early: float) -> None:
        """Calls fail until it opens, and time passes to when it has to half-open, or to just before it."""
        for _ in range(self.policy.failures or 0):
            flight = self._begin() if self.state is not BreakerState.OPEN else None
            if flight is not None:  # else it is open, or all places for trials are taken
                self._end(flight, "fail")
        if self.state is BreakerState.OPEN:
            self.sim.advance(max(0.0, self.open_until - early - self.sim.now))

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0]))
    def time_passes(self, seconds: float) -> None:
        """Time passes."""
        self.sim.advance(seconds)

    @invariant()
    def is_as_it_should_be(self) -> None:
        """Its state is the model's."""
        if not hasattr(self, "breaker"):
            return
        self._touch()
        found = self.breaker.statistics()
        assert self.breaker.state == self.state, f"it is {found.state}, the model {self.state.name}"
        if self.state is BreakerState.HALF_OPEN:
            assert found.trials == self._trials(), f"{found.trials} trials, not {self._trials()}"
