"""Dependency: all the armour round one downstream, in one declaration.

Floor: the highest of this room. The order is fixed, outermost first, and each layer sees what the inner ones decided:

    degrade (yours, outside) -> total deadline -> retry, with its budget -> breaker -> bulkhead -> attempt timeout -> call

So no place is held during a backoff, a refusal is cheap, the breaker counts attempts, a refusal by the bulkhead is neutral to
the breaker, a timeout of an attempt is a failure, and the caller's own deadline is a cancellation, which is neutral.
A trial's lease begins when the breaker admits it, at most `max_wait` before the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from math import inf
from random import Random
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import attrs
import trio

from actors.errors import DeadlineExceeded
from actors.options import OptionError, checked, count, flag, more_seconds, some_seconds
from actors.records import Record, record
from actors.resilience.breaker import BreakerStatistics, CircuitBreaker
from actors.resilience.breaker_policy import BreakerPolicy, BreakerState
from actors.resilience.budget import BudgetPolicy, BudgetStatistics, RetryBudget
from actors.resilience.bulkhead import Bulkhead, BulkheadStatistics
from actors.resilience.deadlines import deadline, note_unbounded
from actors.resilience.retries import RetryPolicy, refuse_without_key, retry_call
from actors.resilience.signals import shared

__all__ = ["Dependency", "DependencyStatistics", "Guards"]

P = ParamSpec("P")
T = TypeVar("T")


def _name(_: object, field: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str) or not value:
        raise OptionError(
            f"{field.name} must be a text that is not empty, not {value!r}", option=field.name
        )


def _maybe(kind: type[Any]) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is not None and not isinstance(value, kind):
            raise OptionError(
                f"{field.name} is a {kind.__name__}(...) or None, not {value!r}", option=field.name
            )

    return check


@record
class DependencyStatistics(Record):
    """One look at a dependency, as the calling tree knows it."""

    name: str
    breaker: BreakerStatistics | None
    bulkhead: BulkheadStatistics | None
    budget: BudgetStatistics | None


@attrs.define(eq=False)
class Guards:
    """The live guards of one dependency in one tree, shared by all replicas."""

    breaker: CircuitBreaker | None
    bulkhead: Bulkhead | None
    budget: RetryBudget | None
    entered: dict[trio.lowlevel.Task, list[_Block]] = attrs.field(
        factory=lambda: dict[trio.lowlevel.Task, "list[_Block]"]()
    )


@checked()
@attrs.frozen
class Dependency:
    """One downstream and how it is called: `await stripe.call(client.charge, order, idempotency_key=key)`.

    Declared once, at module level for instance; breaker, bulkhead and retry budget come to life in the tree that uses it and are
    shared by all of its replicas. Also a decorator, and a block (`async with stripe:`), which is one attempt.
    """

    name: str = attrs.field(validator=_name)
    timeout: float | None = attrs.field(
        default=None,
        kw_only=True,
        validator=some_seconds,
        metadata={"doc": "seconds for one attempt; without, the caller's deadline has to do"},
    )
    total: float | None = attrs.field(
        default=None,
        kw_only=True,
        validator=some_seconds,
        metadata={"doc": "seconds for all attempts and waits of one call"},
    )
    limit: int | None = attrs.field(
        default=None,
        kw_only=True,
        validator=attrs.validators.optional(count),
        metadata={"doc": "attempts that may run at once; none is no limit"},
    )
    max_waiting: int = attrs.field(
        default=0,
        kw_only=True,
        validator=count,
        metadata={"doc": "attempts that may wait for a place"},
    )
    max_wait: float = attrs.field(
        default=inf,
        kw_only=True,
        validator=more_seconds,
        metadata={"doc": "seconds that each may wait"},
    )
    retry: RetryPolicy | None = attrs.field(
        default=None,
        kw_only=True,
        validator=_maybe(RetryPolicy),
        metadata={"doc": "which failures are tried again here"},
    )
    budget: BudgetPolicy | None = attrs.field(
        default=BudgetPolicy(),
        kw_only=True,
        validator=_maybe(BudgetPolicy),
        metadata={"doc": "how many of the calls may be retries; none is no limit"},
    )
    breaker: BreakerPolicy | None = attrs.field(
        default=None,
        kw_only=True,
        validator=_maybe(BreakerPolicy),
        metadata={"doc": "when to stop calling"},
    )
    idempotent: bool = attrs.field(
        default=True,
        kw_only=True,
        validator=flag,
        metadata={"doc": "false: retried only with an idempotency_key"},
    )
    random: Random | None = attrs.field(
        default=None, kw_only=True, metadata={"doc": "source of jitter, for tests"}
    )

    def __attrs_post_init__(self) -> None:
        if self.limit is None and (self.max_waiting or self.max_wait < inf):
            raise OptionError(
                "max_waiting and max_wait have no effect without limit", option="limit"
            )

    def guards(self) -> Guards:
        """The live guards of the calling tree, made on first use."""
        return shared("dependency", self.name, self._open)

    def _open(self) -> Guards:
        return Guards(
            breaker=None
            if self.breaker is None
            else CircuitBreaker(self.name, self.breaker, random=self.random),
            bulkhead=None
            if self.limit is None
            else Bulkhead(
                self.name, self.limit, max_waiting=self.max_waiting, max_wait=self.max_wait
            ),
            budget=None if self.budget is None or self.retry is None else RetryBudget(self.budget),
        )

    @property
    def available(self) -> bool:
        """False while its breaker would refuse a call: take no new work that needs it."""
        breaker = self.guards().breaker
        return breaker is None or breaker.state is not BreakerState.OPEN

    async def call(
        self,
        fn: Callable[..., Awaitable[T]],
        *args: Any,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> T:
        """Call `fn(*args, **kwargs)` within all layers; a given `idempotency_key` is passed on to it.

        Raises:
            BreakerOpen, BulkheadFull: the call was not made; `retry_after` says when to come back.
            DeadlineExceeded: an attempt, or the whole, took too long.
            MissingIdempotencyKey: it would be retried, is not idempotent, and has no key.
            Exception: what the last attempt raised.
        """
        if not self.idempotent or getattr(fn, "__non_idempotent__", False):
            refuse_without_key(f"a call to {self.name}", self.retry, idempotency_key)
        if idempotency_key is not None:
            kwargs["idempotency_key"] = idempotency_key
        if self.total is None:
            return await self._attempts(fn, args, kwargs)
        with deadline(self.total, what=f"a call to {self.name} with its retries"):
            return await self._attempts(fn, args, kwargs)

    async def _attempts(
        self, fn: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        guards = self.guards()
        if self.retry is None:
            return await self._attempt(guards, fn, args, kwargs)
        return await retry_call(
            self._attempt,
            (guards, fn, args, kwargs),
            {},
            self.retry,
            name=self.name,
            budget=guards.budget,
            random=self.random,
        )

    async def _attempt(
        self,
        guards: Guards,
        fn: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> T:
        # Written out rather than nested: this is the path that every guarded call pays for.
        breaker, bulkhead = guards.breaker, guards.bulkhead
        ticket = breaker.enter() if breaker is not None else None
        try:
            if bulkhead is None:
                result = await self._bounded(fn, args, kwargs)
            else:
                place = await bulkhead.enter_waiting()
                try:
                    result = await self._bounded(fn, args, kwargs)
                finally:
                    bulkhead.left(place)
        except Exception as error:
            if breaker is not None and ticket is not None:
                breaker.failed(ticket, error)
            raise
        except BaseException:
            if breaker is not None and ticket is not None:
                breaker.left(ticket)
            raise
        if breaker is not None and ticket is not None:
            breaker.succeeded(ticket, result)
        return result

    async def _bounded(
        self, fn: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        outer = trio.current_effective_deadline()
        if self.timeout is None:
            if outer == inf:
                note_unbounded(self.name)
            return await fn(*args, **kwargs)
        end = trio.current_time() + self.timeout
        if outer <= end:
            return await fn(
                *args, **kwargs
            )  # the caller's deadline is nearer: a scope of our own would change nothing
        with trio.CancelScope(deadline=end):
            return await fn(*args, **kwargs)
        raise DeadlineExceeded(self.timeout, what=f"an attempt to call {self.name}")

    def __call__(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate an async function so that each call of it is a call to this dependency."""

        @wraps(fn)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            key: Any = kwargs.pop("idempotency_key", None)
            return await self.call(fn, *args, idempotency_key=key, **kwargs)

        return guarded

    async def __aenter__(self) -> Self:
        guards = self.guards()
        block = _Block(self, guards)
        await block.enter()
        guards.entered.setdefault(trio.lowlevel.current_task(), []).append(block)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        entered = self.guards().entered
        task = trio.lowlevel.current_task()
        block = entered[task].pop()
        if not entered[task]:
            del entered[task]
        return block.exit(kind, error, traceback)

    def statistics(self) -> DependencyStatistics:
        """One look, in the calling tree."""
        guards = self.guards()
        return DependencyStatistics(
            name=self.name,
            breaker=guards.breaker.statistics() if guards.breaker is not None else None,
            bulkhead=guards.bulkhead.statistics() if guards.bulkhead is not None else None,
            budget=guards.budget.statistics() if guards.budget is not None else None,
        )


class _Block:
    """`async with dependency:`, one attempt without a retry."""

    __slots__ = ("_breaker", "_bulkhead", "_dependency", "_place", "_scope", "_ticket")

    def __init__(self, dependency: Dependency, guards: Guards) -> None:
        self._dependency = dependency
        self._breaker = guards.breaker
        self._bulkhead = guards.bulkhead
        self._ticket: Any = None
        self._place: Any = None
        self._scope: trio.CancelScope | None = None

    async def enter(self) -> None:
        breaker, timeout = self._breaker, self._dependency.timeout
        if breaker is not None:
            self._ticket = breaker.enter()
        try:
            if self._bulkhead is not None:
                self._place = await self._bulkhead.enter_waiting()
        except BaseException:
            if breaker is not None:
                breaker.left(self._ticket)
            raise
        if timeout is None and trio.current_effective_deadline() == inf:
            note_unbounded(self._dependency.name)
        self._scope = trio.CancelScope(
            deadline=inf if timeout is None else trio.current_time() + timeout
        )
        self._scope.__enter__()

    def exit(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        assert self._scope is not None
        caught = bool(self._scope.__exit__(kind, error, traceback))
        late: DeadlineExceeded | None = None
        if caught and self._scope.cancelled_caught:
            name, timeout = self._dependency.name, self._dependency.timeout or 0.0
            late = DeadlineExceeded(timeout, what=f"a block that calls {name}")
            error = late
        if self._bulkhead is not None:
            self._bulkhead.left(self._place)
        if self._breaker is not None:
            if error is None:
                self._breaker.succeeded(self._ticket, None)
            elif isinstance(error, Exception):
                self._breaker.failed(self._ticket, error)
            else:
                self._breaker.left(self._ticket)
        if late is not None:
            raise late
        return caught
