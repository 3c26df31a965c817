"""Block: one attempt at a dependency as a block of code, `async with dependency:`, without a retry.

Floor: above bulkhead. The rule: what `enter` was given, `exit` gives back, each guard for itself, whatever way the block ends. Its scope
is entered last and left first, so that an attempt which took too long is told apart from a cancellation by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import Any

import trio

from actors.errors import DeadlineExceeded
from actors.resilience.breaker import CircuitBreaker
from actors.resilience.bulkhead import Bulkhead
from actors.resilience.deadlines import note_unbounded
from actors.resilience.guard import NO_RESULT

__all__ = ["Block"]


class Block:
    """One attempt, in three layers: breaker, bulkhead, time.

    Args:
        name: of the dependency.
        breaker: if it has one.
        bulkhead: if it has one.
        total: seconds for the block and the wait for its place.
        timeout: seconds for the block.
        check_time: called with the time at which the block ends at the latest, if there is need to; raises if that is too soon to begin.
    """

    __slots__ = (
        "_breaker",
        "_bulkhead",
        "_check_time",
        "_name",
        "_place",
        "_scope",
        "_seconds",
        "_ticket",
        "_timeout",
        "_total",
    )

    def __init__(
        self,
        name: str,
        breaker: CircuitBreaker | None,
        bulkhead: Bulkhead | None,
        total: float | None,
        timeout: float | None,
        check_time: Callable[[float], object] | None,
    ) -> None:
        self._name = name
        self._breaker = breaker
        self._bulkhead = bulkhead
        self._total = total
        self._timeout = timeout
        self._check_time = check_time
        self._ticket: Any = None
        self._place: Any = None
        self._scope: trio.CancelScope | None = None
        self._seconds = inf

    async def enter(self) -> None:
        """Be admitted by each guard, waiting for a place if need be, and begin the time."""
        breaker, bulkhead, timeout = self._breaker, self._bulkhead, self._timeout
        until = inf if self._total is None else trio.current_time() + self._total
        if until == inf and timeout is None and trio.current_effective_deadline() == inf:
            note_unbounded(self._name)
        if breaker is not None:
            self._ticket = breaker.enter()
        try:
            if bulkhead is not None:
                self._place = bulkhead.enter_at_once()
                if self._place is None:
                    self._place = await bulkhead.enter_waiting(until)
                    if breaker is not None:
                        self._ticket = breaker.begins(self._ticket)
            end = until if timeout is None else min(until, trio.current_time() + timeout)
            if self._check_time is not None:
                self._check_time(end)
        except BaseException:
            if self._place is not None and bulkhead is not None:
                bulkhead.left(self._place)
            if breaker is not None:
                breaker.left(self._ticket)
            raise
        self._seconds = end - trio.current_time()
        self._scope = trio.CancelScope(deadline=end)
        self._scope.__enter__()

    def exit(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """End the time, and tell each guard how it went.

        Raises:
            DeadlineExceeded: it took too long.
        """
        assert self._scope is not None
        try:
            caught = bool(self._scope.__exit__(kind, error, traceback))
        except BaseException as rest:  # of a group, when the scope took its cancellation out of it
            self._settle(rest)
            raise
        if self._scope.cancelled_caught:
            late = DeadlineExceeded(self._seconds, what=f"a block that calls {self._name}")
            self._settle(late)
            raise late
        self._settle(error)
        return caught

    def _settle(self, error: BaseException | None) -> None:
        try:
            if self._bulkhead is not None:
                _settle(self._bulkhead, self._place, error)
        finally:  # its own rules may raise
            if self._breaker is not None:
                _settle(self._breaker, self._ticket, error)


def _settle(guard: CircuitBreaker | Bulkhead, ticket: Any, error: BaseException | None) -> None:
    if error is None:
        guard.succeeded(ticket, NO_RESULT)
    elif isinstance(error, Exception):
        guard.failed(ticket, error)
    else:
        guard.left(ticket)
