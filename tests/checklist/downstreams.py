"""Dependencies with good and bad habits."""

from __future__ import annotations

from actors.resilience import Backoff, BreakerPolicy, Dependency, RetryPolicy


class Busy(Exception):
    """The other side cannot now."""


TWICE = RetryPolicy(on=Busy, attempts=2)
timeless = Dependency("timeless")
bounded = Dependency("bounded", timeout=5)
bounded_in_all = Dependency("in all", total=5)
slow = Dependency("slow", timeout=60)
repeating = Dependency("repeating", timeout=5, retry=TWICE)
careful = Dependency("careful", timeout=5, retry=TWICE, idempotent=False)
stubborn = Dependency("stubborn", timeout=5, retry=RetryPolicy(on=Busy, attempts=7))
steady = Dependency("steady", timeout=5, retry=RetryPolicy(on=Busy, attempts=6))
waiting = Dependency(
    "waiting", timeout=5, retry=RetryPolicy(on=Busy, backoff=Backoff(initial=8, maximum=60))
)
blind = Dependency("blind", timeout=5, retry=TWICE, breaker=BreakerPolicy())
seeing = Dependency("seeing", timeout=5, retry=TWICE, breaker=BreakerPolicy(on=Busy))
