"""Deadlines: nested budgets of time over Trio's cancel scopes.

Floor: above signals. The rule: there is no second system of deadlines: the effective one is Trio's, the nearest of all
enclosing scopes. A deadline counts from where its block is entered. Only an expiry of one's own is an error; an outer one
stays a cancellation, for whoever owns it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

import trio

from actors.errors import DeadlineExceeded, NoDeadline
from actors.resilience.signals import Unbounded, current_office, report

__all__ = ["deadline", "remaining", "require_deadlines"]

_required: ContextVar[bool] = ContextVar("deadlines_required", default=False)


@contextmanager
def deadline(
    seconds: float | None = None, *, reserve: float = 0.0, at: float | None = None, what: str = ""
) -> Generator[trio.CancelScope]:
    """Give a block at most so many seconds: `with deadline(25, reserve=5):` gives 20, or less if an enclosing one is nearer.

    Args:
        seconds: from the moment the block is entered; None takes only what encloses it.
        reserve: seconds kept back for what comes after the block, such as completing the job.
        at: an absolute time of Trio's clock, such as `ctx.deadline`; the nearer of the two holds.
        what: names the work in the error.

    Raises:
        DeadlineExceeded: its own time was up. If an enclosing deadline (or an equal one) expires, that one's owner is told.
    """
    for name, value in (("seconds", seconds), ("reserve", reserve)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must be a number of seconds, 0 or more, not {value!r}")
    now = trio.current_time()
    outer = trio.current_effective_deadline()
    own = now + seconds if seconds is not None else inf
    if at is not None:
        own = min(own, at)
    end = min(own, outer) - reserve if reserve else own
    end = max(end, now) if end < outer else end
    with trio.CancelScope(deadline=end) as scope:
        yield scope
    if scope.cancelled_caught:
        raise DeadlineExceeded(max(0.0, end - now), what=what)


def remaining() -> float:
    """Seconds until the nearest enclosing deadline: 0 if it has passed, inf if there is none."""
    return max(0.0, trio.current_effective_deadline() - trio.current_time())


@contextmanager
def require_deadlines() -> Generator[None]:
    """In this block, and in what it starts, a guarded call without any deadline raises `NoDeadline`: for tests."""
    token = _required.set(True)
    try:
        yield
    finally:
        _required.reset(token)


def note_unbounded(name: str) -> None:
    """A guarded call is about to be made without a deadline: report it once, or refuse it if deadlines are required."""
    if _required.get():
        raise NoDeadline(name)
    seen = current_office().shared
    if ("unbounded", name) not in seen:
        seen["unbounded", name] = True
        report(Unbounded, dependency=name)
