"""Circuit breaker: stop calling what is failing, try it again carefully.

Floor: above counts and signals. Theory:

* Three states, as data in `breaker_policy.TRANSITIONS`. There is no timer: that an open breaker may try again is noticed by whoever touches it.
* Every admitted call carries the *generation* it was admitted in; each change of state begins a new one, and a result of
  an older generation changes nothing (gobreaker's rule). Results are booked when calls end, so a slow failure counts.
* Half-open admits a fixed number of trials, each with a lease: a trial that never returns loses its place, not the breaker.
* Only an `Exception` that the policy names is a failure. Whatever else ends a call, a cancellation above all, is neutral: it
  gives the place back and changes no count.
* Times mean nothing in another Trio run, whose clock has another origin: a breaker that outlives a run begins anew in the next,
  except for what was set by hand.
* What listens to changes is called after the change is visible, in order, and may use the breaker.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Final
from weakref import ref

import attrs
import trio

from actors.errors import BreakerOpen, PoisonMessage, Rejected
from actors.records import Record, record
from actors.resilience.breaker_policy import (
    TRANSITIONS,
    BreakerMemory,
    BreakerPolicy,
    BreakerState,
    refuse_misfits,
)
from actors.resilience.counts import Counts, Outcome, Window
from actors.resilience.guard import NO_RESULT, Guard
from actors.resilience.signals import (
    BreakerChanged,
    CallRejected,
    current_worker,
    noticed,
    report,
    set_level,
)
from actors.resilience.telling import Telling
from actors.resilience.verdict import covers, leaves, retry_after

__all__ = ["BreakerStatistics", "CircuitBreaker"]

_RANDOM: Final = Random()
# Each call asks for it, and before Python 3.12 a member of an enum is slow to look up.
_CLOSED: Final = BreakerState.CLOSED


@record
class BreakerStatistics(Record):
    """One look at a breaker."""

    name: str
    state: str
    generation: int
    """Changes of state so far."""
    counts: Counts
    """Of the present generation, in the window if there is one."""
    rejected: int
    """Calls refused so far."""
    trials: int
    """Trials under way."""
    retry_after: float
    """Seconds until calls may be admitted again; 0 while closed."""


@attrs.define(eq=False)
class _Ticket:
    """One admitted call."""

    generation: int
    started: float
    lease_until: float = inf


Listener = Callable[[str, BreakerState, BreakerState], object]


class CircuitBreaker(Guard["_Ticket"]):
    """A breaker round calls to one dependency: `await breaker.call(fn, *args)`, `async with breaker:`, or a decorator.

    Args:
        name: of the dependency, in events, the gauge and errors.
        policy: when it opens and closes.
        on_state_change: `f(name, old, new)`, sync or async; it may use the breaker, and its errors are only logged.
        random: source of jitter, for tests.

    Raises (by a guarded call):
        BreakerOpen: the call was not made; `retry_after` says when it may be.
    """

    def __init__(
        self,
        name: str,
        policy: BreakerPolicy | None = None,
        *,
        on_state_change: Listener | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(name)
        refuse_misfits(name, policy=policy, on_state_change=on_state_change, random=random)
        self.policy = policy if policy is not None else BreakerPolicy()
        self._telling = (
            None
            if on_state_change is None
            else Telling(on_state_change, f"on_state_change of breaker {name}")
        )
        self._random = random or _RANDOM
        self._state = BreakerState.CLOSED
        self._generation = 0
        # One for all calls of a generation in which nobody asks how long they take.
        self._plain = _Ticket(0, -inf)
        self._timed = self.policy.slow_after is not None
        self._windowed = self.policy.windowed
        self._window = (
            Window(self.policy.window, self.policy.window_calls)
            if self._windowed
            else Window(inf, None)
        )
        self._run: ref[trio.lowlevel.TrioToken] | None = None
        self._open_until = 0.0
        self._opened_for = self.policy.open_for
        self._reopened = 0
        self._why = "it is new"
        self._trials: set[_Ticket] = set()
        self._passed = 0  # successful trials of this half-open period
        self._held: str | None = None  # "isolated" or "disabled": by hand, until by hand
        self.rejected = 0

    # -- the state -------------------------------------------------------------------------------

    @property
    def state(self) -> BreakerState:
        """CLOSED 0, HALF_OPEN 1 or OPEN 2, now."""
        if self._state is not BreakerState.CLOSED:
            self._settle_in()
            if self._state is BreakerState.OPEN and self._held is None:
                self._look(trio.current_time())
        return self._state

    @property
    def admits(self) -> bool:
        """True if a call would be admitted now."""
        if self.state is BreakerState.HALF_OPEN:
            return len(self._leased(trio.current_time())) < self.policy.half_open_max
        return self._state is BreakerState.CLOSED

    def refuses_in(self, seconds: float) -> bool:
        """True if a call in so many seconds will be refused, as far as is known now."""
        return self.state is BreakerState.OPEN and self._retry_after(trio.current_time()) > seconds

    @property
    def counts(self) -> Counts:
        """The results of the present generation."""
        self._settle_in()
        return self._window.counts(trio.current_time())

    def statistics(self) -> BreakerStatistics:
        """One look."""
        state = self.state
        return BreakerStatistics(
            name=self.name,
            state=state.name.lower(),
            generation=self._generation,
            counts=self.counts,
            rejected=self.rejected,
            trials=len(self._trials),
            retry_after=self._retry_after(trio.current_time()) if state else 0.0,
        )

    def _settle_in(self) -> None:
        token = trio.lowlevel.current_trio_token()
        if self._run is not None and self._run() is token:
            return
        new, self._run = self._run is None, ref(token)
        if new:
            return
        self._window.clear()
        if self._state is not BreakerState.CLOSED and self._held is None:
            self._begin(BreakerState.CLOSED, "a new Trio run began")

    def _look(self, now: float) -> None:
        if now >= self._open_until:
            self._change(BreakerState.HALF_OPEN, f"it was open for {self._opened_for:.3g} s")

    def _change(self, new: BreakerState, why: str) -> None:
        old = self._state
        if old is not new and new not in TRANSITIONS[old]:
            raise AssertionError(f"breaker {self.name}: no way from {old.name} to {new.name}")
        self._begin(new, why)
        if old is not new:
            noticed(self, self.home)
            set_level("wf_worker_circuit_breaker_state", self.name, int(new), home=self.home)
            report(
                BreakerChanged,
                home=self.home,
                breaker=self.name,
                old=old.name.lower(),
                new=new.name.lower(),
                why=why,
                retry_after=self._retry_after(trio.current_time()) if new else 0.0,
            )
            if self._telling is not None:
                self._telling.tell(self.name, old, new)

    def _begin(self, state: BreakerState, why: str) -> None:
        self._state = state
        self._generation += 1
        self._plain = _Ticket(self._generation, -inf)
        self._why = why
        self._window.clear()
        self._trials.clear()
        self._passed = 0
        if state is BreakerState.CLOSED:
            self._reopened = 0

    def _trip(self, now: float, why: str, hint: float | None) -> None:
        if self._state is BreakerState.HALF_OPEN:
            self._reopened += 1
        wait = self.policy.open_seconds(self._reopened, self._random)
        if hint is not None:
            wait = max(wait, min(hint, self.policy.open_max))
        self._opened_for = wait
        self._open_until = now + wait
        self._change(BreakerState.OPEN, why)

    # -- by hand ---------------------------------------------------------------------------------

    def open(self, seconds: float | None = None, why: str = "opened by hand") -> None:
        """Open it now, for `seconds` or as long as the policy says."""
        if seconds is not None and not 0 <= seconds < inf:
            raise ValueError(f"seconds must be finite, 0 or more, not {seconds!r}; see isolate()")
        self._settle_in()
        self._held = None
        now = trio.current_time()
        self._opened_for = self.policy.open_for if seconds is None else seconds
        self._open_until = now + self._opened_for
        self._change(BreakerState.OPEN, why)

    def close(self, why: str = "closed by hand") -> None:
        """Close it now and forget what was counted; also ends `isolate` and `disable`."""
        self._settle_in()
        self._held = None
        self._change(BreakerState.CLOSED, why)

    def isolate(self, why: str = "isolated by hand") -> None:
        """Keep it open, whatever happens, until `close` or `open`."""
        self._settle_in()
        self._held = "isolated"
        self._open_until = inf
        self._change(BreakerState.OPEN, why)

    def disable(self, why: str = "disabled by hand") -> None:
        """Admit everything and count nothing, until `close`, `open` or `isolate`."""
        self._settle_in()
        self._held = "disabled"
        self._change(BreakerState.CLOSED, why)

    # -- from process to process -----------------------------------------------------------------

    def memory(self) -> BreakerMemory:
        """What another process has to know to go on from here, as a value."""
        open_ = self.state is BreakerState.OPEN
        return BreakerMemory(
            state=self._state.name.lower(),
            held=self._held,
            left=self._retry_after(trio.current_time()) if open_ and self._held is None else 0.0,
            opened_for=self._opened_for,
            reopened=self._reopened,
            why=self._why,
        )

    def restore(self, memory: BreakerMemory, *, elapsed: float = 0.0) -> None:
        """Go on as `memory` says, of which `elapsed` seconds have passed; a half-open one begins its trials anew."""
        self._settle_in()
        self._held = memory.held
        self._opened_for = memory.opened_for
        self._reopened = memory.reopened
        # Time between two processes is wall-clock time, which may be set back: that adds nothing to what was left.
        left = inf if memory.held == "isolated" else max(0.0, memory.left - max(0.0, elapsed))
        self._open_until = trio.current_time() + left
        shut = memory.state == "closed"
        self._change(BreakerState.CLOSED if shut else BreakerState.OPEN, memory.why or "restored")

    # -- a call ----------------------------------------------------------------------------------

    def enter(self) -> _Ticket:
        """Admit a call, or raise `BreakerOpen`."""
        if self._state is _CLOSED:
            return _Ticket(self._generation, trio.current_time()) if self._timed else self._plain
        state, now = self.state, trio.current_time()
        if state is BreakerState.CLOSED:  # since a new Trio run began
            return self.enter()
        if state is BreakerState.OPEN:
            raise self._refusal(now)
        self._trials = self._leased(now)
        if len(self._trials) >= self.policy.half_open_max:
            raise self._refusal(now)
        lease = self.policy.lease if self.policy.lease is not None else max(self._opened_for, 1e-3)
        ticket = _Ticket(self._generation, now, now + lease)
        self._trials.add(ticket)
        return ticket

    enter_at_once = enter

    def _leased(self, now: float) -> set[_Ticket]:
        return {trial for trial in self._trials if trial.lease_until > now}

    def begins(self, ticket: _Ticket) -> _Ticket:
        """The call begins only now, having waited in a line of ours: its lease and its length count from here.

        Meanwhile the state may have changed, or a trial have waited for longer than its lease and lost its place: then it has to be
        admitted again, or two would try where one may. So it may get another ticket.

        Raises:
            BreakerOpen: it is not admitted any more.
        """
        now = trio.current_time()
        if ticket.generation != self._generation or ticket.lease_until <= now:
            self._trials.discard(ticket)
            return self.enter()
        if ticket.started > -inf:
            ticket.lease_until += now - ticket.started
            ticket.started = now
        return ticket

    def _refusal(self, now: float) -> BreakerOpen:
        self.rejected += 1
        noticed(self, self.home)
        wait = self._retry_after(now)
        report(
            CallRejected,
            home=self.home,
            count=("wf_worker_backpressure_events_total", current_worker(), "breaker_open"),
            dependency=self.name,
            reason="breaker",
            retry_after=wait,
        )
        trying = self._state is BreakerState.HALF_OPEN
        return BreakerOpen(self.name, retry_after=wait, trying=trying, why=self._why)

    def _retry_after(self, now: float) -> float:
        if self._held == "isolated":
            return self.policy.open_max
        if self._state is BreakerState.OPEN:
            return max(0.0, self._open_until - now)
        leases = [trial.lease_until - now for trial in self._leased(now)]
        return min(leases) if len(leases) >= self.policy.half_open_max else 0.0

    def succeeded(self, ticket: _Ticket, result: object) -> None:
        """The call returned `result`."""
        fails = self.policy.fails
        if fails is not None and result is not NO_RESULT:
            try:
                failed = fails(result)
            except BaseException:
                self.left(ticket)
                raise
            if failed:
                self._book(ticket, Outcome.FAILURE, None)
                return
        if ticket is not self._plain:  # timed, a trial, or of an earlier generation
            self._book(ticket, Outcome.SUCCESS, None)
        elif self._held is not None:
            pass
        elif self._windowed:
            self._settle_in()
            self._window.success(trio.current_time())
        else:
            self._window.quick_success()

    def failed(self, ticket: _Ticket, error: Exception) -> None:
        """The call raised `error`."""
        try:
            counts = self.counts_as_failure(error)
        except BaseException:
            self.left(ticket)
            raise
        self._book(ticket, Outcome.FAILURE if counts else Outcome.NEUTRAL, error)

    def left(self, ticket: _Ticket) -> None:
        """The call was cancelled, or ended by something that is no `Exception`: neutral."""
        self._book(ticket, Outcome.NEUTRAL, None)

    def counts_as_failure(self, error: Exception) -> bool:
        """True if any leaf of `error` is one that the policy counts.

        A refusal by another guard says nothing about the dependency, and nor does a message that can never succeed.
        """
        policy = self.policy
        return any(
            not isinstance(leaf, (PoisonMessage, Rejected))
            and covers(policy.on, leaf)
            and not covers(policy.neutral, leaf)
            for leaf in leaves(error)
        )

    def _book(self, ticket: _Ticket, outcome: Outcome, error: Exception | None) -> None:
        if ticket.generation != self._generation or self._held is not None:
            return
        now = trio.current_time()
        self._settle_in()
        # A trial whose lease ran out has lost its place, but its result still says how the dependency is: were it ignored,
        # calls that take longer than their lease could never close the breaker.
        self._trials.discard(ticket)
        slow = self.policy.slow_after is not None and now - ticket.started >= self.policy.slow_after
        self._window.add(outcome, now, slow=slow)
        hint = retry_after(error) if error is not None and outcome is Outcome.FAILURE else None
        if self._state is BreakerState.HALF_OPEN:
            self._judge_trial(outcome, slow, now, hint)
        elif outcome is Outcome.FAILURE or (slow and outcome is Outcome.SUCCESS):
            why = self._too_much(now, outcome)
            if why and ticket.generation == self._generation:  # or the rule has acted itself
                self._trip(now, why, hint)

    def _judge_trial(self, outcome: Outcome, slow: bool, now: float, hint: float | None) -> None:
        if outcome is Outcome.FAILURE:
            self._trip(now, "a trial failed", hint)
        elif outcome is Outcome.SUCCESS and slow:
            self._trip(now, "a trial was slow", hint)
        elif outcome is Outcome.SUCCESS:
            self._passed += 1
            if self._passed >= self.policy.successes:
                self._change(
                    BreakerState.CLOSED, f"{self._passed} of {self._passed} trials succeeded"
                )

    def _too_much(self, now: float, outcome: Outcome) -> str:
        policy = self.policy
        counts = self._window.counts(now)
        if (
            outcome is Outcome.FAILURE
            and policy.failures is not None
            and policy.ready_to_trip is None
            and counts.consecutive_failures >= policy.failures
        ):
            return f"{counts.consecutive_failures} consecutive calls failed"
        if (
            outcome is Outcome.FAILURE
            and policy.ready_to_trip is not None
            and policy.ready_to_trip(counts)
        ):
            return (
                f"its own rule says so ({counts.failures} of the last {counts.calls} calls failed)"
            )
        if counts.calls < policy.minimum:
            return ""
        if (
            policy.failure_rate is not None
            and counts.failures / counts.calls >= policy.failure_rate  # exact, unlike the product
        ):
            return f"{counts.failures} of the last {counts.calls} calls failed"
        if policy.slow_rate is not None and counts.slow / counts.calls >= policy.slow_rate:
            return f"{counts.slow} of the last {counts.calls} calls were slow"
        return ""

    def __repr__(self) -> str:
        held = f" {self._held}" if self._held else ""
        return f"<CircuitBreaker {self.name} {self._state.name.lower()}{held}, {self.rejected} rejected>"
