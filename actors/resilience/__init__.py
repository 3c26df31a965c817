"""Armour for a call: retry, breaker, bulkhead, deadline, degradation, and all of it in one declaration.

Each name is loaded on first use: the supervision of a tree needs only `Backoff`. The errors of guarded calls have their door here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.errors import (
        BreakerOpen,
        BulkheadFull,
        DeadlineExceeded,
        MissingIdempotencyKey,
        NoDeadline,
        NotEnoughTime,
        PoisonMessage,
        Rejected,
    )
    from actors.resilience.backoff import Backoff
    from actors.resilience.breaker import BreakerStatistics, CircuitBreaker
    from actors.resilience.breaker_policy import BreakerMemory, BreakerPolicy, BreakerState
    from actors.resilience.budget import BudgetPolicy, BudgetStatistics, RetryBudget
    from actors.resilience.bulkhead import Bulkhead, BulkheadStatistics, Taking
    from actors.resilience.bulkheads import Bulkheads, BulkheadsStatistics
    from actors.resilience.counts import Counts
    from actors.resilience.deadlines import cleanup, deadline, remaining, require_deadlines
    from actors.resilience.degradation import Answer, FeatureState, degrade
    from actors.resilience.dependency import Dependency, DependencyStatistics, Guards
    from actors.resilience.retries import Attempt, Attempts, RetryPolicy, non_idempotent, retry
    from actors.resilience.signals import (
        BreakerChanged,
        CallRejected,
        CallRetried,
        DegradationChanged,
        Degraded,
        LimitChanged,
        Unbounded,
    )
    from actors.resilience.vegas import VegasLimit
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
    "Attempt",
    "Attempts",
    "Backoff",
    "BreakerChanged",
    "BreakerMemory",
    "BreakerOpen",
    "BreakerPolicy",
    "BreakerState",
    "BreakerStatistics",
    "BudgetPolicy",
    "BudgetStatistics",
    "Bulkhead",
    "BulkheadFull",
    "BulkheadStatistics",
    "Bulkheads",
    "BulkheadsStatistics",
    "CallRejected",
    "CallRetried",
    "CircuitBreaker",
    "Counts",
    "DeadlineExceeded",
    "DegradationChanged",
    "Degrade",
    "Degraded",
    "Dependency",
    "DependencyStatistics",
    "Fail",
    "FeatureState",
    "Guards",
    "HandBack",
    "LimitChanged",
    "MissingIdempotencyKey",
    "NoDeadline",
    "NotEnoughTime",
    "Poison",
    "PoisonMessage",
    "Rejected",
    "RetryBudget",
    "RetryHere",
    "RetryPolicy",
    "Taking",
    "Unbounded",
    "VegasLimit",
    "Verdict",
    "cleanup",
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
    "actors.errors": (
        "BreakerOpen",
        "BulkheadFull",
        "DeadlineExceeded",
        "MissingIdempotencyKey",
        "NoDeadline",
        "NotEnoughTime",
        "PoisonMessage",
        "Rejected",
    ),
    "actors.resilience.backoff": ("Backoff",),
    "actors.resilience.breaker": ("BreakerStatistics", "CircuitBreaker"),
    "actors.resilience.breaker_policy": ("BreakerMemory", "BreakerPolicy", "BreakerState"),
    "actors.resilience.budget": ("BudgetPolicy", "BudgetStatistics", "RetryBudget"),
    "actors.resilience.bulkhead": ("Bulkhead", "BulkheadStatistics", "Taking"),
    "actors.resilience.bulkheads": ("Bulkheads", "BulkheadsStatistics"),
    "actors.resilience.counts": ("Counts",),
    "actors.resilience.deadlines": ("cleanup", "deadline", "remaining", "require_deadlines"),
    "actors.resilience.degradation": ("Answer", "FeatureState", "degrade"),
    "actors.resilience.dependency": ("Dependency", "DependencyStatistics", "Guards"),
    "actors.resilience.retries": ("Attempt", "Attempts", "RetryPolicy", "non_idempotent", "retry"),
    "actors.resilience.signals": (
        "BreakerChanged",
        "CallRejected",
        "CallRetried",
        "DegradationChanged",
        "Degraded",
        "LimitChanged",
        "Unbounded",
    ),
    "actors.resilience.vegas": ("VegasLimit",),
    "actors.resilience.verdict": (
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
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
