"""Retries against their model: callers that overlap, share a budget, are told to wait, run out of time and are cancelled.

Which promise is shown where:

| number | promise | here | elsewhere |
|---|---|---|---|
| R1 | attempts within the limit, no wait after the last | `agrees`: runs and state | test_retry |
| R2 | each wait within its spread, exact without | `agrees`: times; `Model.fails` | test_backoff |
| R3 | waits never fall, overflow or pass the maximum | `Model.fails` | test_backoff, up to n = 10^18 |
| R4 | no wait is likelier than others | | test_backoff |
| R5 | a success ends it and is returned unchanged | `succeed` | test_retry |
| R6 | only named Exceptions, in groups too; nothing else ever | `fail`, `leave_abruptly`, `cancel` | test_retry |
| R7 | the last real error is raised, noted with the earlier ones | `verdict_is_told` | test_retry |
| R8 | a wait that does not fit is not begun | `agrees`, with deadlines that move | test_retry |
| R9 | no attempt begins past a deadline; only Trio's clock decides | `agrees`: times | test_retry, test_deadlines |
| R10 | never earlier than the other side asked; too long is final | `fail(hint=...)` | test_retry, test_verdict |
| R11 | budget by a recount; asked last, refused takes nothing | `budget_agrees` | test_budget |
| R12 | a refusal by a guard is final here | `fail("refused")` | test_retry, test_dependency |
| R13 | calls share a policy and know nothing of each other; same seed, same waits | all flights use one policy, and `Model.twin` | test_backoff |
| R14 | a long run makes the next failure number 1 | | testing/test_machines, `BackoffMachine` |
"""

from __future__ import annotations

from math import inf
from random import Random

import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.errors import BreakerOpen, DeadlineExceeded, MissingIdempotencyKey, PoisonMessage
from actors.resilience import (
    Backoff,
    BudgetPolicy,
    Dependency,
    RetryPolicy,
    non_idempotent,
    retry,
)
from actors.resilience.signals import current_office
from supervision.testing import Sim
from tests.properties.looking import looking
from tests.resilience.kit import Down
from tests.resilience.retry_model import DRAWN, ENDED, RUNNING, WAITING, Case, Model

STEP = 0.5
"""Times are multiples of it where there is no jitter, and a slice of the budget's window is one."""
LATE, ABRUPT = object(), object()
RARELY = st.sampled_from([False, False, False, True])


class Never(Down):
    """The policy's `never`."""


class Unnamed(Exception):
    """Nobody's business; with `on=Exception` the policy's `never`."""


class Abrupt(BaseException):
    """Leaves a call like KeyboardInterrupt would."""


def refusal() -> BreakerOpen:
    return BreakerOpen("deeper", retry_after=STEP, trying=False, why="it failed")


def error_of(how: str, hint: object) -> Exception:
    """An error of that kind."""
    return {
        "down": lambda: Down(retry_after=hint),
        "never": lambda: Never(retry_after=hint),
        "unnamed": Unnamed,
        "refused": refusal,
        "poison": lambda: PoisonMessage("it can never work"),
        "group": lambda: ExceptionGroup(
            "g", [Down(), ExceptionGroup("h", [Down(retry_after=hint)])]
        ),
        "mixed": lambda: ExceptionGroup("g", [Down(), ExceptionGroup("h", [Unnamed()])]),
        "all refused": lambda: ExceptionGroup("g", [refusal(), refusal()]),
    }[how]()


HINTS = {"1.5": 1.5, "4": 4.0, "1000": 1000.0, "-1": None, "soon": None, "nan": None, "inf": None}
"""What the other side may say, and what that asks for."""
VALUES = (None, False, 0, "", Down("as a value"), Down)


class Flight:
    """One call of the test."""

    def __init__(
        self, machine: RetryMachine, shape: str, deadline: float, deaf: bool, key: str
    ) -> None:
        self.machine, self.shape, self.deaf, self.key = machine, shape, deaf, key
        self.scope = trio.CancelScope(deadline=deadline)
        self.go = trio.Event()
        self.end: object = None
        self.raised: list[BaseException] = []
        self.runs: list[float] = []
        self.keys: list[object] = []
        self.model = None
        self.call = machine.driver.start(self.guarded)

    async def guarded(self) -> object:
        with self.scope:
            try:
                return await getattr(self, self.shape)()
            except Abrupt:
                return ABRUPT
            except BaseExceptionGroup as group:
                if isinstance(group, Exception) or group.subgroup(trio.Cancelled):
                    raise
                return ABRUPT
        return LATE

    def options(self) -> dict[str, str]:
        return {"idempotency_key": self.key} if self.key else {}

    async def function(self) -> object:
        m = self.machine
        return await retry(
            self.marked if self.key else self.work,
            policy=m.policy,
            name="x",
            budget=m.budget,
            random=m.random,
            **self.options(),
        )

    async def block(self) -> object:
        m = self.machine
        async for attempt in m.policy.attempts_of("x", budget=m.budget, random=m.random):
            with attempt:
                assert attempt.number == len(self.runs) + 1
                return await self.work()
        raise AssertionError

    async def decorator(self) -> object:
        return await self.machine.policy(self.work)()

    async def dependency(self) -> object:
        return await self.machine.dependency.call(self.work, **self.options())

    async def bounded(self) -> object:
        return await self.machine.bounded.call(self.work, **self.options())

    @non_idempotent
    async def marked(self, **options: object) -> object:
        return await self.work(**options)

    async def work(self, **options: object) -> object:
        assert options == self.options()
        self.runs.append(self.machine.driver.now)
        self.go = trio.Event()
        try:
            await self.go.wait()
        except trio.Cancelled:
            if self.deaf:
                raise self.note(Down("while it was cancelled")) from None
            raise
        if isinstance(self.end, BaseException) and self.end not in VALUES:
            raise self.note(self.end)
        return self.end

    def note(self, error: BaseException) -> BaseException:
        self.raised.append(error)
        return error


class RetryMachine(RuleBasedStateMachine):
    """Attempts begin by themselves and end by a rule; deadlines move; time goes to exact edges."""

    @initialize(
        attempts=st.sampled_from([3, 5, None, 2, 1]),
        total=st.sampled_from([None, None, 3.0]),
        waits=st.sampled_from([(0.0, 2.0), (0.5, 1.0), (0.5, 2.0), (1.0, 3.0)]),
        maximum=st.sampled_from([1.0, 4.0]),
        jitter=st.sampled_from([0.0, 0.0, 0.5]),
        hints=st.sampled_from([True, True, False]),
        on=st.sampled_from(["class", "rule", "all"]),
        ratio=st.sampled_from([None, 0.0, 0.5, 1.0]),
        floor=st.integers(0, 2),
        seed=st.integers(0, 99),
    )
    def build(self, attempts, total, waits, maximum, jitter, hints, on, ratio, floor, seed) -> None:
        self.driver = Sim()
        window = DRAWN if jitter else 10 * STEP
        self.case = Case(
            attempts, total, *waits, maximum, jitter, hints, 5.0, on == "all", ratio, floor, window
        )
        self.model, self.random = Model(self.case, seed), Random(seed)
        self.flights: list[Flight] = []
        self.kept = Down("some clients keep one error and raise it for every call")
        self.policy = RetryPolicy(
            on={"class": Down, "rule": lambda e: isinstance(e, Down), "all": Exception}[on],
            never=(Never, Unnamed),
            attempts=attempts,
            total=total,
            backoff=Backoff(*waits, maximum, jitter),
            hints=hints,
            hint_max=5.0,
        )
        budget = None if ratio is None else BudgetPolicy(ratio=ratio, floor=floor, window=window)
        shared = {"retry": self.policy, "budget": budget, "random": self.random}
        self.dependency = Dependency("x", **shared)
        self.bounded = Dependency("x", **shared, total=4.0, idempotent=False)
        self.budget = self.do(self.dependency.guards).budget

    def do(self, fn, *args):
        async def act():
            return fn(*args)

        return self.driver.run(act)

    # -- rules

    @rule(
        shape=st.sampled_from(["function", "block", "decorator", "dependency", "bounded"]),
        limit=st.sampled_from([inf, inf, 1.0, 2.5, 6.0]),
        deaf=st.sampled_from([False, False, True]),
        key=st.sampled_from(["", "k1"]),
    )
    def start(self, shape, limit, deaf, key) -> None:
        if shape == "decorator" and self.case.jitter:
            return  # its randomness is its own
        key = "k1" if shape == "bounded" else "" if shape in ("block", "decorator") else key
        now = self.driver.now
        flight = Flight(self, shape, now + limit, deaf, key)
        flight.model = self.model.begin(
            now,
            now + limit,
            now + 4.0 if shape == "bounded" else inf,
            budgeted=shape != "decorator",
        )
        self.flights.append(flight)
        self.driver.settle()

    @rule(
        shape=st.sampled_from(["function", "bounded"]),
        key=st.sampled_from([{}, {"idempotency_key": ""}]),
        really=RARELY,
    )
    def start_without_a_key(self, shape, key, really) -> None:
        """A call that must not happen twice is refused before it costs anything."""
        if not really:
            return

        async def pay(**options) -> str:
            paid.append(options)
            raise Unnamed

        paid = []
        if shape == "function":
            call = self.driver.start(lambda: retry(non_idempotent(pay), policy=self.policy, **key))
        else:
            call = self.driver.start(lambda: self.bounded.call(pay, **key))
        self.driver.settle()
        once = self.case.attempts == 1
        assert isinstance(call.error, Unnamed if once else MissingIdempotencyKey)
        assert len(paid) == once
        if once and shape == "bounded" and self.case.ratio is not None:
            self.model.firsts.append(self.driver.now)

    def pick(self, number: int, *states: str) -> Flight | None:
        found = [flight for flight in self.flights if flight.model.state in states]
        return found[number % len(found)] if found else None

    @precondition(lambda self: self.pick(0, RUNNING))
    @rule(number=st.integers(0, 9), value=st.sampled_from(range(len(VALUES))))
    def succeed(self, number, value) -> None:
        flight = self.pick(number, RUNNING)
        flight.end = VALUES[value]
        flight.go.set()
        self.driver.settle()
        assert flight.call.value() is VALUES[value]
        flight.model.state, flight.model.end = ENDED, "ok"

    @precondition(lambda self: self.pick(0, RUNNING))
    @rule(
        number=st.integers(0, 9),
        how=st.sampled_from(
            [
                "down",
                "down",
                "kept",
                "group",
                "never",
                "unnamed",
                "mixed",
                "refused",
                "all refused",
                "poison",
            ]
        ),
        hint=st.sampled_from([None, None, "1000", *HINTS]),
    )
    def fail(self, number, how, hint) -> None:
        self.fails(self.pick(number, RUNNING), how, hint)

    def fails(self, flight: Flight, how: str, hint: str | None) -> None:
        if how == "kept":
            flight.end, how, hint = self.kept, "down", None
        else:
            flight.end = error_of(how, hint)
        now = self.driver.now
        left = min(flight.model.deadline, flight.model.until) - now
        self.model.fails(flight.model, how, HINTS.get(hint), now, left)
        flight.go.set()
        self.driver.settle()
        if flight.model.state == WAITING and flight.model.due <= now:
            self.model.time_goes_to(flight.model, now, flight.deaf)

    @precondition(lambda self: self.pick(0, RUNNING))
    @rule(number=st.integers(0, 9), group=st.booleans(), really=RARELY)
    def leave_abruptly(self, number, group, really) -> None:
        flight = self.pick(number, RUNNING)
        if really:
            flight.end = BaseExceptionGroup("g", [Down(), Abrupt()]) if group else Abrupt()
            flight.model.state, flight.model.end = ENDED, "abrupt"
            flight.go.set()
            self.driver.settle()

    @precondition(lambda self: self.pick(0, RUNNING, WAITING))
    @rule(number=st.integers(0, 9), really=RARELY)
    def cancel(self, number, really) -> None:
        flight = self.pick(number, RUNNING, WAITING)
        if really:
            if flight.deaf and flight.model.state == RUNNING:
                self.model.fails(flight.model, "deaf", None, self.driver.now, -inf)
            else:
                self.model.cut(flight.model, "cancelled")
            flight.call.cancel()
            self.driver.settle()

    @precondition(lambda self: self.flights)
    @rule(
        number=st.integers(0, 9),
        ends=st.lists(st.sampled_from(["down", "kept", "group"]), min_size=1, max_size=5),
        hint=st.sampled_from([None, None, None, "1.5"]),
    )
    def goes_on_failing(self, number, ends, hint) -> None:
        """One call, attempt after attempt, with the waits between."""
        flight = self.flights[number % len(self.flights)]
        for end in ends:
            if flight.model.state == WAITING:
                self.time_goes_to(flight.model.due)
            if flight.model.state == RUNNING:
                self.fails(flight, end, hint)

    @precondition(lambda self: self.pick(0, RUNNING, WAITING))
    @rule(number=st.integers(0, 9), steps=st.integers(1, 8), really=RARELY)
    def move_a_deadline(self, number, steps, really) -> None:
        """As that of a lease, which is renewed, or taken away."""
        flight = self.pick(number, RUNNING, WAITING)
        if really:
            flight.scope.deadline = flight.model.deadline = self.driver.now + steps * STEP

    @rule(steps=st.integers(1, 12))
    def time_passes(self, steps) -> None:
        self.time_goes_to(self.driver.now + steps * STEP)

    @precondition(lambda self: self.pick(0, WAITING))
    @rule(number=st.integers(0, 9))
    def time_passes_to_an_attempt(self, number) -> None:
        self.time_goes_to(self.pick(number, WAITING).model.due)

    def time_goes_to(self, when: float) -> None:
        self.driver.advance(when - self.driver.now + (1e-6 if self.case.jitter else 0.0))
        for flight in self.flights:
            self.model.time_goes_to(flight.model, self.driver.now, flight.deaf)

    # -- what holds always

    @invariant()
    def agrees(self) -> None:
        for flight in getattr(self, "flights", ()):
            model = flight.model
            assert len(flight.runs) == len(model.runs)  # R1, R6, R12: no attempt more, none less
            for real, expected in zip(flight.runs, model.runs, strict=True):
                assert abs(real - expected) < 1e-5  # R2, R10: not earlier, not later
                assert real < max(model.deadline, expected + 1e-5)
            assert flight.call.done == (model.state == ENDED)
            if model.state == ENDED:
                self.verdict_is_told(flight)
        self.flights = [f for f in getattr(self, "flights", ()) if f.model.state != ENDED]

    def verdict_is_told(self, flight: Flight) -> None:
        """R7, R8: the last error itself comes out, and says what was tried; a cancellation comes out as one."""
        model, call = flight.model, flight.call
        assert call.cancelled == (model.end == "cancelled")
        if model.end in ("ok", "cancelled"):
            return
        if model.end in ("late", "abrupt"):
            assert call.value() is (LATE if model.end == "late" else ABRUPT)
            return
        if model.end == "too slow":
            assert isinstance(call.error, DeadlineExceeded)
        else:
            assert call.error is flight.raised[-1]
        notes = [n for n in getattr(call.error, "__notes__", ()) if n.startswith("gave up")]
        assert len(notes) == model.noted
        if notes:
            assert model.why in notes[0]
            named = notes[0].count("Down(") + notes[0].count("ExceptionGroup('g'")
            assert named >= min(model.earlier, 5) or not model.earlier

    @invariant()
    def budget_agrees(self) -> None:
        if not hasattr(self, "driver"):
            return
        now, model = self.driver.now, self.model
        retries = self.do(
            lambda: sum(v for k, v in current_office().counts.items() if "retries" in k[0])
        )
        assert retries == model.announced
        if self.budget is not None:
            stats = self.budget.statistics(now)
            assert stats.first_attempts == model.recent(model.firsts, now)
            assert stats.retries == model.recent(model.retries, now)
            assert stats.refused == model.refused

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.driver.close()


TestRetryMachine = RetryMachine.TestCase
TestRetryMachine.settings = looking(200, steps=50)
