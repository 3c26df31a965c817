"""A breaker as the text describes it: a list of everything that happened, recounted each time. Slow, and shares no code with ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

CLOSED, HALF_OPEN, OPEN = "closed", "half_open", "open"


@dataclass
class Admitted:
    """One call that was let in."""

    generation: int
    since: float
    lease_until: float = inf


@dataclass
class Result:
    """One result of the present generation."""

    at: float
    outcome: str
    slow: bool


@dataclass
class Model:
    """What a breaker with these options has to do."""

    policy: object
    state: str = CLOSED
    held: str | None = None
    generation: int = 0
    open_until: float = 0.0
    wait: float = 0.0
    reopened: int = 0
    passed: int = 0
    rejected: int = 0
    trials: list[Admitted] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)

    def _go(self, state: str) -> None:
        if state != self.state:
            self.changes.append((self.state, state))
        self.state = state
        self.generation += 1
        self.results, self.trials, self.passed = [], [], 0
        if state == CLOSED:
            self.reopened = 0

    # -- what time does, seen by whoever touches it

    def touch(self, now: float) -> None:
        if self.state == OPEN and self.held is None and now >= self.open_until:
            self._go(HALF_OPEN)

    # -- calls

    def admit(self, now: float) -> Admitted | None:
        self.touch(now)
        if self.state == CLOSED:
            return Admitted(self.generation, now)
        if self.state == HALF_OPEN:
            self.trials = [trial for trial in self.trials if trial.lease_until > now]
            if len(self.trials) < self.policy.half_open_max:
                lease = self.wait if self.policy.lease is None else self.policy.lease
                self.trials.append(Admitted(self.generation, now, now + lease))
                return self.trials[-1]
        self.rejected += 1
        return None

    def retry_after(self, now: float) -> float:
        if self.state == OPEN:
            return self.policy.open_max if self.held else self.open_until - now
        left = sorted(t.lease_until - now for t in self.trials if t.lease_until > now)
        return left[0] if len(left) >= self.policy.half_open_max else 0.0

    def end(self, call: Admitted, outcome: str, now: float, hint: float | None) -> None:
        """`outcome` is ok, failure or neutral."""
        if call.generation != self.generation or self.held is not None:
            return
        slow = self.policy.slow_after is not None and now - call.since >= self.policy.slow_after
        self.results.append(Result(now, outcome, slow and outcome != "neutral"))
        if self.state == HALF_OPEN:
            self.trials = [trial for trial in self.trials if trial is not call]
            if outcome == "failure" or (outcome == "ok" and slow):
                self._trip(now, hint if outcome == "failure" else None)
            elif outcome == "ok":
                self.passed += 1
                if self.passed >= self.policy.successes:
                    self._go(CLOSED)
        elif outcome == "failure":
            if self._failed_too_often(now) or self._rates_say_so(now):
                self._trip(now, hint)
        elif outcome == "ok" and slow and self._rates_say_so(now):
            self._trip(now, None)

    def _failed_too_often(self, now: float) -> bool:
        if self.policy.ready_to_trip is not None:
            return self.count("failure", now) >= 3
        return self.policy.failures is not None and self.streak("failure") >= self.policy.failures

    def _rates_say_so(self, now: float) -> bool:
        calls = self.count("ok", now) + self.count("failure", now)
        if calls < self.policy.minimum:
            return False
        failing, slow = self.policy.failure_rate, self.policy.slow_rate
        if failing is not None and self.count("failure", now) / calls >= failing:
            return True
        return slow is not None and sum(r.slow for r in self.window(now)) / calls >= slow

    def _trip(self, now: float, hint: float | None) -> None:
        if self.state == HALF_OPEN:
            self.reopened += 1
        policy = self.policy
        self.wait = min(policy.open_max, policy.open_for * policy.open_growth**self.reopened)
        if hint is not None:
            self.wait = max(self.wait, min(hint, policy.open_max))
        self.open_until = now + self.wait
        self._go(OPEN)

    # -- counting, from scratch

    def window(self, now: float) -> list[Result]:
        counted = [r for r in self.results if r.outcome != "neutral"]
        if not self.policy.windowed:
            return counted
        if self.policy.window_calls is not None:
            return counted[-self.policy.window_calls :]
        return [r for r in counted if now - r.at < self.policy.window]

    def count(self, outcome: str, now: float) -> int:
        if outcome == "neutral":
            return sum(r.outcome == "neutral" for r in self.results)
        return sum(r.outcome == outcome for r in self.window(now))

    def streak(self, outcome: str) -> int:
        length = 0
        for result in reversed(self.results):
            if result.outcome == "neutral":
                continue
            if result.outcome != outcome:
                break
            length += 1
        return length

    # -- by hand

    def open(self, now: float, seconds: float | None) -> None:
        self.held = None
        self.wait = self.policy.open_for if seconds is None else seconds
        self.open_until = now + self.wait
        self._go(OPEN)

    def close(self) -> None:
        self.held = None
        self._go(CLOSED)

    def isolate(self) -> None:
        self.held = "isolated"
        self._go(OPEN)

    def disable(self) -> None:
        self.held = "disabled"
        self._go(CLOSED)
