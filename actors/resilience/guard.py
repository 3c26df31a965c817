"""Guard: the three shapes that every guard has.

Floor: the lowest. The rule: `enter` admits synchronously or raises; exactly one of `succeeded`, `failed` and `left` follows,
synchronously too, whatever way the call ends. So bookkeeping cannot be cancelled half-way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar

import trio

from actors.office import Office
from actors.options import refuse_unfit

__all__ = ["NO_RESULT", "Guard", "last_entry"]

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")

NO_RESULT: Final = object()
"""What a block returns: it has no result that could be looked at."""


def last_entry(entered: dict[trio.lowlevel.Task, list[K]]) -> K:
    """Take out what the calling task entered last.

    A block in an async generator that nobody closed is left in another task than the one that entered it. It takes the oldest
    entry there is, so that as many leave as have entered: none must stay for ever.
    """
    task, which = trio.lowlevel.current_task(), -1
    if task not in entered:
        task, which = next(iter(entered)), 0
    entry = entered[task].pop(which)
    if not entered[task]:
        del entered[task]
    return entry


class Guard(Generic[K]):
    """Base of breaker and bulkhead; `K` is what `enter` hands out for one call."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"a guard has a name, the dependency's, not {name!r}")
        self.name = name
        self.home: Office | None = None
        """The tree that it belongs to, which hears of what is done to it from outside; None is whoever calls."""
        self._entered: dict[trio.lowlevel.Task, list[K]] = {}

    def enter(self) -> K:
        """Admit a call without waiting, or raise."""
        raise NotImplementedError

    def enter_at_once(self) -> K | None:
        """Admit a call if that takes no waiting; None if it does, and `enter_waiting` is next."""
        raise NotImplementedError

    async def enter_waiting(self) -> K:
        """Admit a call, waiting if that is this guard's way."""
        return self.enter()

    def succeeded(self, ticket: K, result: object) -> None:
        """The call returned."""
        raise NotImplementedError

    def failed(self, ticket: K, error: Exception) -> None:
        """The call raised an `Exception`."""
        raise NotImplementedError

    def left(self, ticket: K) -> None:
        """The call ended by something else, such as a cancellation."""
        raise NotImplementedError

    async def call(self, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Call `fn(*args, **kwargs)` within the guard and return its result."""
        ticket = self.enter_at_once()
        if ticket is None:
            ticket = await self.enter_waiting()
        try:
            result = await fn(*args, **kwargs)
        except Exception as error:
            self.failed(ticket, error)
            raise
        except BaseException:
            self.left(ticket)
            raise
        self.succeeded(ticket, result)
        return result

    def __call__(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate an async function so that each call of it is guarded."""
        refuse_unfit(fn, f"guard {self.name!r}")

        @wraps(fn)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            # As `call`, less a coroutine: that is a third of what a guard costs.
            ticket = self.enter_at_once()
            if ticket is None:
                ticket = await self.enter_waiting()
            try:
                result = await fn(*args, **kwargs)
            except Exception as error:
                self.failed(ticket, error)
                raise
            except BaseException:
                self.left(ticket)
                raise
            self.succeeded(ticket, result)
            return result

        return guarded

    async def __aenter__(self) -> Self:
        ticket = await self.enter_waiting()
        self._entered.setdefault(trio.lowlevel.current_task(), []).append(ticket)
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        ticket = last_entry(self._entered)
        if error is None:
            self.succeeded(ticket, NO_RESULT)
        elif isinstance(error, Exception):
            self.failed(ticket, error)
        else:
            self.left(ticket)
