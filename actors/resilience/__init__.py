"""Armour for a call: retry, breaker, bulkhead, deadline, degradation, and all of it in one declaration.

Each name is loaded on first use: the supervision of a tree needs only `Backoff`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.resilience.backoff import Backoff
    from actors.resilience.breaker import BreakerStatistics, CircuitBreaker
    from actors.resilience.breaker_policy import BreakerPolicy, BreakerState
    from actors.resilience.budget import BudgetPolicy, RetryBudget
    from actors.resilience.bulkhead import Bulkhead, BulkheadStatistics
    from actors.resilience.counts import Counts
    from actors.resilience.deadlines import deadline, remaining, require_deadlines
    from actors.resilience.degradation import Answer, degrade
    from actors.resilience.dependency import Dependency, DependencyStatistics
    from actors.resilience.retries import RetryPolicy, non_idempotent, retry
    from actors.resilience.signals import (
        BreakerChanged,
        CallRejected,
        CallRetried,
        DegradationChanged,
        Degraded,
        Unbounded,
    )
    from actors.resilience.verdict import (
        Degrade,
        Fail,
        HandBack,
        Poison,
        RetryHere,
        Verdict,
        judge,
        retry_after,
    )

__all__ = [
    "Answer",
    "Backoff",
    "BreakerChanged",
    "BreakerPolicy",
    "BreakerState",
    "BreakerStatistics",
    "BudgetPolicy",
    "Bulkhead",
    "BulkheadStatistics",
    "CallRejected",
    "CallRetried",
    "CircuitBreaker",
    "Counts",
    "DegradationChanged",
    "Degrade",
    "Degraded",
    "Dependency",
    "DependencyStatistics",
    "Fail",
    "HandBack",
    "Poison",
    "RetryBudget",
    "RetryHere",
    "RetryPolicy",
    "Unbounded",
    "Verdict",
    "deadline",
    "degrade",
    "judge",
    "non_idempotent",
    "remaining",
    "require_deadlines",
    "retry",
    "retry_after",
]

_HOMES: Final = {
    "backoff": ("Backoff",),
    "breaker": ("BreakerStatistics", "CircuitBreaker"),
    "breaker_policy": ("BreakerPolicy", "BreakerState"),
    "budget": ("BudgetPolicy", "RetryBudget"),
    "bulkhead": ("Bulkhead", "BulkheadStatistics"),
    "counts": ("Counts",),
    "deadlines": ("deadline", "remaining", "require_deadlines"),
    "degradation": ("Answer", "degrade"),
    "dependency": ("Dependency", "DependencyStatistics"),
    "retries": ("RetryPolicy", "non_idempotent", "retry"),
    "signals": (
        "BreakerChanged",
        "CallRejected",
        "CallRetried",
        "DegradationChanged",
        "Degraded",
        "Unbounded",
    ),
    "verdict": (
        "Degrade",
        "Fail",
        "HandBack",
        "Poison",
        "RetryHere",
        "Verdict",
        "judge",
        "retry_after",
    ),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"actors.resilience.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
