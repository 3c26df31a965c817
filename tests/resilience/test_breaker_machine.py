"""The breaker against its model, call starts and call ends apart.

Which promise is shown where:

| number | promise | here | elsewhere |
|---|---|---|---|
| B1 | every admitted call is accounted once, however it ends | `agrees`: counts, over all of `ENDS` | test_breaker |
| B2 | trials stay within the limit | `agrees`: trials | |
| B3 | a refused call runs nothing and changes only `rejected` | `start` | |
| B4 | results of an older generation change nothing | `agrees`: the model ignores them in `end` | test_reports_breaker |
| B5 | each change of state begins a new generation | `agrees`: generation | |
| B6 | closed opens only at a failure or a slow call, or by hand | `finish` | |
| B7 | open becomes half-open at its time and not before | `look`, `its_time_comes` | |
| B8 | half-open closes after enough successes of this period | `agrees`: state | |
| B9 | one failed trial opens it | `agrees`: state | |
| B10 | neutral ends change no count and free the place | `finish`, `agrees` | test_breaker |
| B11 | nor do they decide, or make it refuse for ever | `finish`, `recovers` | |
| B12 | it recovers, hung trials or not | `recovers`, after every example | test_reports_breaker |
| B13 | repeated openings wait longer, up to a cap, spread by the jitter | `start`: `retry_after` is the model's | test_breaker: jitter |
| B14 | windows equal a recount | `agrees`: counts | |
| B15 | below the minimum no rate opens it | `agrees`: state | |
| B16 | calls longer than the window count | `agrees`: flights end whenever they like | test_breaker |
| B17 | listeners see each change once, in order, visible; they may fail and use the breaker | `heard`, `told_once_and_in_order` | test_reports_breaker |
| B18 | `retry_after` is finite, within the wait, and falls | `start` | |
| B19 | a server's hint lengthens the wait | `finish(hint=...)` | test_breaker |
| B20 | what is set by hand stays | `by_hand`, `open` | test_sharing |
| B21 | names are apart, one name is one breaker | | test_sharing |
| B22 | into another process goes what is left to wait, and no time | `another_process_goes_on` | test_breaker: clocks, test_memory |
"""

from __future__ import annotations

import json
from math import inf

import attrs
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.errors import BreakerOpen, BulkheadFull
from actors.resilience import BreakerMemory, BreakerPolicy, BreakerState, CircuitBreaker
from actors.resilience.telling import Telling
from supervision.testing import Sim
from tests.properties.looking import looking
from tests.resilience.model import CLOSED, HALF_OPEN, OPEN, Model

STEP = 0.5
"""All times are multiples of it, and a slice of the window is one: so the recount has to agree exactly."""


class Failed(Exception):
    """Counts; may carry the other side's wish."""

    def __init__(self, retry_after: float | None = None) -> None:
        self.retry_after = retry_after


class Ignored(Exception):
    """The policy's `neutral`."""


class Abrupt(BaseException):
    """Leaves a call like KeyboardInterrupt would."""


ENDS = {
    "ok": "ok",
    "bad result": "failure",
    "failure": "failure",
    "group": "failure",
    "ignored": "neutral",
    "refused deeper": "neutral",
    "cancelled": "neutral",
    "abrupt": "neutral",
}

RARELY = st.sampled_from([False, False, False, True])
HINTING = ("failure", "group")


class Flight:
    """One call of the test."""

    def __init__(self, machine: BreakerMachine) -> None:
        self.machine = machine
        self.go = trio.Event()
        self.end = ""
        self.hint: float | None = None
        self.ran = False
        self.admitted = None
        self.call = machine.driver.start(self.guarded)

    async def guarded(self) -> object:
        try:
            return await self.machine.breaker.call(self.work)
        except Abrupt:
            return "abrupt"

    async def work(self) -> object:
        self.ran = True
        await self.go.wait()
        if self.end == "failure":
            raise Failed(self.hint)
        if self.end == "group":
            raise ExceptionGroup("two", [Ignored(), Failed(self.hint)])
        if self.end == "ignored":
            raise Ignored
        if self.end == "refused deeper":
            raise BulkheadFull("inner", limit=1, waiting=0, waited=None, retry_after=1)
        if self.end == "abrupt":
            raise Abrupt
        return self.end


policies = st.fixed_dictionaries(
    {
        "half_open_max": st.integers(1, 3),
        "successes": st.integers(1, 3),
        "open_for": st.sampled_from([1.0, 2.0]),
        "open_growth": st.sampled_from([1.0, 2.0]),
        "open_max": st.sampled_from([2.0, 5.0]),
        "lease": st.sampled_from([None, 1.0, 6.0]),
    }
)
openings = st.one_of(
    st.fixed_dictionaries({"failures": st.integers(1, 3)}),
    st.fixed_dictionaries(
        {
            "failures": st.sampled_from([None, 3]),
            "failure_rate": st.sampled_from([0.5, 0.75, 1.0]),
            "slow_rate": st.sampled_from([0.5, 1.0]),
            "slow_after": st.sampled_from([1.0, 2.0]),
            "window": st.just(10 * STEP),
            "window_calls": st.sampled_from([None, 4]),
            "minimum": st.integers(1, 4),
        }
    ),
    st.fixed_dictionaries(
        {
            "ready_to_trip": st.just(lambda counts: counts.failures >= 3),
            "window": st.just(10 * STEP),
        }
    ),
)


class BreakerMachine(RuleBasedStateMachine):
    """Calls overlap, end late or never, and are cancelled; hands interfere; time goes to exact edges."""

    @initialize(common=policies, opening=openings, listener_fails=st.booleans())
    def build(self, common, opening, listener_fails) -> None:
        self.driver = Sim()
        self.flights: list[Flight] = []
        self.seen: list[tuple[str, str]] = []
        self.listener_fails = listener_fails
        self.generation = 0
        self.last_wait = inf  # the last retry_after in one open period
        self.policy = BreakerPolicy(
            **common, **opening, neutral=(Ignored,), fails=lambda result: result == "bad result"
        )
        self.breaker = CircuitBreaker("x", self.policy, on_state_change=self.heard)
        self.model = Model(self.policy)

    def heard(self, name: str, old: BreakerState, new: BreakerState) -> None:
        """B17: called once per change, in order, after the change can be seen; may read, may fail."""
        shown = self.breaker.statistics().state
        visible = name == "x" and self.breaker.state is new is not old and shown == new.name.lower()
        self.seen.append((old.name.lower(), new.name.lower() if visible else "something else"))
        if self.listener_fails:
            raise RuntimeError("a listener's own fault")

    def do(self, fn, *args):
        async def act():
            return fn(*args)

        return self.driver.run(act)

    # -- rules

    @rule()
    def start(self) -> None:
        before = self.counts()
        flight = Flight(self)
        flight.admitted = self.model.admit(self.driver.now)
        self.driver.settle()
        assert flight.ran == (flight.admitted is not None)
        if flight.admitted is not None:
            self.flights.append(flight)
            return
        error = flight.call.error  # B3, B18
        assert isinstance(error, BreakerOpen)
        assert error.retry_after == self.model.retry_after(self.driver.now)
        assert 0 <= error.retry_after < inf
        assert error.trying == (self.model.state == HALF_OPEN)
        if self.model.state == OPEN and not self.model.held:
            assert error.retry_after <= min(self.last_wait, self.model.wait)
            self.last_wait = error.retry_after
        assert self.counts() == before or self.model.changes[-1:] == [(OPEN, HALF_OPEN)]

    @rule(hint=st.sampled_from([None, None, 4.0]))
    def fail_at_once(self, hint) -> None:
        self.start()
        if self.flights:
            self.finish(-1, "failure", hint)

    @precondition(lambda self: self.model.state == OPEN and self.model.held is None)
    @rule(
        past=st.sampled_from([-STEP, 0.0, 0.0, STEP]),
        ends=st.lists(st.sampled_from(["", "ok", *ENDS]), max_size=4),
    )
    def its_time_comes(self, past, ends) -> None:
        self.time_goes_to(self.model.open_until + past)
        for end in ends:  # "" is a trial that hangs
            before = len(self.flights)
            self.start()
            if end and len(self.flights) > before:
                self.finish(-1, end, None)

    @precondition(lambda self: self.flights)
    @rule(
        number=st.integers(0, 50),
        end=st.sampled_from(sorted(ENDS)),
        hint=st.sampled_from([None, None, 1.5, 4.0, 1000.0]),
    )
    def finish(self, number, end, hint) -> None:
        flight = self.flights.pop(number % len(self.flights))
        flight.end, flight.hint = end, hint
        state, changes = self.model.state, len(self.model.changes)
        self.model.end(
            flight.admitted, ENDS[end], self.driver.now, hint if end in HINTING else None
        )
        if end == "cancelled":
            flight.call.cancel()
        else:
            flight.go.set()
        self.driver.settle()
        assert flight.call.done
        assert flight.call.cancelled == (end == "cancelled")
        if ENDS[end] == "neutral":  # B10, B11
            assert len(self.model.changes) == changes
        if state == CLOSED and self.model.state == OPEN:  # B6
            assert ENDS[end] == "failure" or self.policy.slow_after is not None
        self.last_wait = inf

    @rule(steps=st.integers(1, 12))
    def time_passes(self, steps) -> None:
        self.driver.advance(steps * STEP)

    @rule(number=st.integers(0, 20), past=st.sampled_from([-STEP, 0.0, STEP]))
    def time_passes_to_an_edge(self, number, past) -> None:
        edges = [self.model.open_until, *(trial.lease_until for trial in self.model.trials)]
        if edges:
            self.time_goes_to(edges[number % len(edges)] + past)

    def time_goes_to(self, when) -> None:
        if self.driver.now < when < inf:
            self.driver.advance(when - self.driver.now)

    @rule()
    def look(self) -> None:
        self.model.touch(self.driver.now)  # B7: exactly at its time, and not before
        state = self.do(lambda: self.breaker.state)
        assert state.name.lower() == self.model.state
        taken = [t for t in self.model.trials if t.lease_until > self.driver.now]
        room = self.model.state == HALF_OPEN and len(taken) < self.policy.half_open_max
        assert self.do(lambda: self.breaker.admits) == (room or self.model.state == CLOSED)

    @rule(seconds=st.sampled_from([None, STEP, 3.0]), really=RARELY)
    def open(self, seconds, really) -> None:
        if not really:
            return
        self.model.open(self.driver.now, seconds)
        self.do(self.breaker.open, seconds)
        self.last_wait = inf

    @rule(act=st.sampled_from(["close", "isolate", "disable"]), really=RARELY)
    def by_hand(self, act, really) -> None:
        if not really and self.model.held is None:
            return
        getattr(self.model, act)()
        self.do(getattr(self.breaker, act))
        self.last_wait = inf

    @rule(elapsed=st.sampled_from([0.0, 0.0, STEP, 4.0]), really=RARELY)
    def another_process_goes_on(self, elapsed, really) -> None:
        """B22: calls of the one before change nothing here, and what it had still to wait is waited here."""
        if not really:
            return
        old, self.model = self.model, Model(self.policy)
        now = self.driver.now
        old.touch(now)
        memory = BreakerMemory(**json.loads(json.dumps(attrs.asdict(self.do(self.breaker.memory)))))
        assert memory.left == (old.open_until - now if old.state == OPEN and not old.held else 0)
        self.breaker._telling = None  # that process has gone, its calls only have not noticed
        self.breaker = CircuitBreaker("x", self.policy)
        self.do(lambda: self.breaker.restore(memory, elapsed=elapsed))
        # It looks, and so would begin the trials if no wait is left.
        self.breaker._telling = Telling(self.heard, "the listener")
        self.seen.clear()
        self.model.held, self.model.wait, self.model.reopened = old.held, old.wait, old.reopened
        left = max(0.0, old.open_until - now - elapsed) if old.state == OPEN else 0.0
        self.model.open_until = inf if old.held == "isolated" else now + left
        self.model._go(CLOSED if old.state == CLOSED else OPEN)
        self.model.changes.clear()
        for flight in self.flights:
            flight.admitted.generation = -1
        self.generation, self.last_wait = 0, inf

    # -- what holds always

    def counts(self):
        return self.do(lambda: self.breaker.counts)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "driver"):
            return
        now, model, breaker = self.driver.now, self.model, self.breaker
        assert breaker._state.name.lower() == model.state
        assert breaker.rejected == model.rejected
        assert len(breaker._trials) == len(model.trials) <= self.policy.half_open_max  # B2
        counts = self.counts()
        assert counts.successes == model.count("ok", now)  # B1, B14
        assert counts.failures == model.count("failure", now)
        assert counts.neutral == model.count("neutral", now)
        assert counts.slow == sum(r.slow for r in model.window(now))
        assert counts.consecutive_failures == model.streak("failure")
        assert counts.consecutive_successes == model.streak("ok")
        assert breaker._generation == model.generation >= self.generation  # B5
        self.generation = model.generation

    @invariant()
    def told_once_and_in_order(self) -> None:
        if hasattr(self, "driver"):
            assert self.seen == self.model.changes  # B17

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            if self.model.held is None:
                self.recovers()
        finally:
            self.driver.close()

    def recovers(self) -> None:
        """B12: when time has passed and calls succeed, it is closed after `successes` calls, whatever hangs."""
        self.driver.advance(1000)
        for _ in range(self.policy.successes):
            flight = Flight(self)
            flight.end = "ok"
            flight.go.set()
            self.driver.settle()
            assert flight.call.value() == "ok"
        assert self.do(lambda: self.breaker.state) is BreakerState.CLOSED


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = looking(150, steps=50)
