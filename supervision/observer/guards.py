"""Guards: the breakers and bulkheads that a tree knows, and how they are now.

Floor: the lowest. Theory: those of a `Dependency` belong to the tree whose runs call it. One that was made by itself belongs to nobody;
the tree knows it, weakly, from the first time that it had something to say there: it changed, refused a call, or made one wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any, Final

from actors.office import Office

if TYPE_CHECKING:
    from actors.resilience.breaker import CircuitBreaker
    from actors.resilience.bulkhead import Bulkhead

__all__ = ["breakers", "bulkheads", "by_hand", "described"]

MOST_OWN: Final = 100
"""Bulkheads of no dependency that are shown: there may be one for each of many tenants."""


def breakers(office: Office) -> Iterator[CircuitBreaker]:
    """All breakers that are known there, those of dependencies first."""
    from actors.resilience.breaker import CircuitBreaker
    from actors.resilience.dependency import Guards

    for thing in tuple(office.shared.values()):
        if isinstance(thing, Guards) and thing.breaker is not None:
            yield thing.breaker
    own = [guard for guard in tuple(office.guards) if isinstance(guard, CircuitBreaker)]
    yield from sorted(own, key=lambda guard: guard.name)


def bulkheads(office: Office) -> Iterator[Bulkhead]:
    """All bulkheads that are known there, those of dependencies first, and of others those that are most in demand."""
    from actors.resilience.bulkhead import Bulkhead
    from actors.resilience.dependency import Guards

    for thing in tuple(office.shared.values()):
        if isinstance(thing, Guards) and thing.bulkhead is not None:
            yield thing.bulkhead
    own = [guard for guard in tuple(office.guards) if isinstance(guard, Bulkhead)]
    seen = {guard: guard.statistics() for guard in own}
    own.sort(key=lambda guard: (-seen[guard].waiting, -seen[guard].running, guard.name))
    yield from own[:MOST_OWN]


def described(office: Office) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """How the breakers are, and how the bulkheads, in terms of JSON."""
    return [_breaker(one) for one in breakers(office)], [
        _bulkhead(one) for one in bulkheads(office)
    ]


def _breaker(breaker: CircuitBreaker) -> dict[str, Any]:
    seen = breaker.statistics()
    after = seen.retry_after
    return {
        "name": breaker.name,
        "state": str(seen.state),
        "retry_after": round(after, 1) if 0 < after < inf else None,
        "calls": seen.counts.calls,
        "failures": seen.counts.failures,
        "rejected": seen.rejected,
    }


def _bulkhead(bulkhead: Bulkhead) -> dict[str, Any]:
    places = bulkhead.statistics()
    return {
        "name": bulkhead.name,
        "limit": places.limit,
        "adaptive": places.adaptive,
        "busy": places.running,
        "waiting": places.waiting,
        "max_waiting": bulkhead.max_waiting,
        "rejected": places.rejected,
    }


def by_hand(office: Office, name: str, verb: str, seconds: float | None, why: str) -> str:
    """Open or close the breakers of this name; the tree hears of it, not whoever carries it out."""
    for breaker in list(breakers(office)):
        if breaker.name != name:
            continue
        home, breaker.home = breaker.home, office
        try:
            if verb == "breaker_close":
                breaker.close(f"closed {why}")
            else:
                breaker.open(seconds, f"opened {why}")
        finally:
            breaker.home = home
    return "is closed" if verb == "breaker_close" else "is open"
