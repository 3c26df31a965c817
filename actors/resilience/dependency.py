"""Dependency: all the armour round one downstream, in one declaration.

Floor: the highest of this room. The order is fixed, outermost first, and each layer sees what the inner ones decided:

    degrade (yours, outside) -> retry, with its budget -> breaker -> bulkhead -> attempt timeout -> call

So no place is held during a backoff, a refusal is cheap, the breaker counts attempts, a refusal by the bulkhead is neutral to
the breaker, a timeout of an attempt is a failure, and the caller's own deadline is a cancellation, which is neutral.
`total` is no layer: it bounds each wait and each attempt, so that an attempt which it ends is a failure of the dependency too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from math import inf
from random import Random
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import attrs
import trio

from actors.errors import DeadlineExceeded
from actors.options import (
    OptionError,
    checked,
    count,
    flag,
    more_seconds,
    refuse_unfit,
    seconds,
    some_seconds,
)
from actors.records import Record, record
from actors.resilience.block import Block
from actors.resilience.breaker import BreakerStatistics, CircuitBreaker
from actors.resilience.breaker_policy import BreakerPolicy
from actors.resilience.budget import BudgetPolicy, BudgetStatistics, RetryBudget
from actors.resilience.bulkhead import Bulkhead, BulkheadStatistics
from actors.resilience.deadlines import note_unbounded, refuse_too_late
from actors.resilience.guard import last_entry
from actors.resilience.retries import (
    RetryPolicy,
    Tries,
    is_non_idempotent,
    never_refused,
    refuse_without_key,
)
from actors.resilience.signals import current_tree, set_level, shared
from actors.resilience.vegas import VegasLimit, places_or_law

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

    owner: Dependency
    """Whose declaration they were made from."""
    breaker: CircuitBreaker | None
    bulkhead: Bulkhead | None
    budget: RetryBudget | None
    entered: dict[trio.lowlevel.Task, list[Block]] = attrs.field(
        factory=lambda: dict[trio.lowlevel.Task, "list[Block]"]()
    )

    def statistics(self) -> DependencyStatistics:
        """One look."""
        return DependencyStatistics(
            name=self.owner.name,
            breaker=self.breaker.statistics() if self.breaker is not None else None,
            bulkhead=self.bulkhead.statistics() if self.bulkhead is not None else None,
            budget=self.budget.statistics(trio.current_time()) if self.budget is not None else None,
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
    at_least: float = attrs.field(
        default=0.0,
        kw_only=True,
        validator=seconds,
        metadata={"doc": "seconds that an attempt needs: with less left it is not begun"},
    )
    limit: int | VegasLimit | None = attrs.field(
        default=None,
        kw_only=True,
        validator=attrs.validators.optional(places_or_law),
        metadata={
            "doc": "attempts that may run at once; a VegasLimit finds out how many; none is no limit"
        },
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
        default=None,
        kw_only=True,
        validator=_maybe(Random),
        metadata={"doc": "source of jitter, for tests"},
    )

    def __attrs_post_init__(self) -> None:
        if self.limit is None and (self.max_waiting or self.max_wait < inf):
            raise OptionError(
                "max_waiting and max_wait have no effect without limit", option="limit"
            )

        for option in ("timeout", "total"):
            given = getattr(self, option)
            if given is not None and given < self.at_least:
                raise OptionError(
                    f"at_least ({self.at_least:g} s) is more than {option} ({given:g} s), so no attempt would ever be made",
                    option="at_least",
                )

    def guards(self) -> Guards:
        """The live guards of the calling tree, made on first use.

        Declarations of one name share them, so they must agree on what is shared; timeouts and retries may differ.

        Raises:
            OptionError: another declaration of this name has another breaker, limit, waiting line or budget.
        """
        guards = shared("dependency", self.name, self._open)
        if guards.owner is not self:
            self._agree(guards.owner)
        return guards

    def _agree(self, other: Dependency) -> None:
        for option in ("breaker", "limit", "max_waiting", "max_wait", "budget"):
            mine, theirs = getattr(self, option), getattr(other, option)
            if mine != theirs:
                raise OptionError(
                    f"it is declared twice in this tree, with {option}={theirs!r} and {mine!r}",
                    where=f"dependency {self.name!r}",
                    option=option,
                )

    def _open(self) -> Guards:
        if self.breaker is not None:
            set_level("wf_worker_circuit_breaker_state", self.name, 0)
        breaker = bulkhead = None
        if self.breaker is not None:
            breaker = CircuitBreaker(self.name, self.breaker, random=self.random)
            breaker.home = current_tree()
        if self.limit is not None:
            bulkhead = Bulkhead(
                self.name,
                self.limit,
                max_waiting=self.max_waiting,
                max_wait=self.max_wait,
                random=self.random,
            )
            bulkhead.home = current_tree()
            bulkhead.fails = self.breaker.fails if self.breaker is not None else None
        budget = None if self.budget is None else RetryBudget(self.budget)
        return Guards(owner=self, breaker=breaker, bulkhead=bulkhead, budget=budget)

    @property
    def available(self) -> bool:
        """False while its breaker would refuse a call: take no new work that needs it."""
        breaker = self.guards().breaker
        return breaker is None or breaker.admits

    async def call(
        self,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> T:
        """Call `fn(*args, **kwargs)` within all layers; a given `idempotency_key` is passed on to it.

        Raises:
            BreakerOpen, BulkheadFull: the call was not made; `retry_after` says when to come back.
            NotEnoughTime: less than `at_least` is left; the call was not made.
            DeadlineExceeded: an attempt, or the whole, took too long.
            MissingIdempotencyKey: it would be retried, is not idempotent, and has no key.
            Exception: what the last attempt raised.
        """
        if not self.idempotent or is_non_idempotent(fn):
            refuse_without_key(f"a call to {self.name}", self.retry, idempotency_key)
        if idempotency_key is not None:
            kwargs["idempotency_key"] = idempotency_key
        guards = self.guards()
        until = inf
        if self.total is not None:
            until = trio.current_time() + self.total
        elif self.timeout is None and trio.current_effective_deadline() == inf:
            note_unbounded(self.name)
        if self.retry is None:
            return await self._attempt(guards, until, fn, args, kwargs)
        budget, attempt = guards.budget, (guards, until, fn, args, kwargs)
        if budget is not None:
            budget.attempted(trio.current_time())
        started = trio.current_time() if self.retry.total is not None else 0.0
        try:
            return await self._attempt(*attempt)
        except Exception as error:
            tries = Tries(
                self.retry,
                self.name,
                started=started,
                budget=budget,
                random=self.random,
                until=until,
                needs=self.at_least,
                refuses=never_refused if guards.breaker is None else guards.breaker.refuses_in,
            )
            if not tries.again(error):
                raise
        return await tries.go_on(self._attempt, attempt, {})

    async def _attempt(
        self,
        guards: Guards,
        until: float,
        fn: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> T:
        # Written out rather than nested: this is the path that every guarded call pays for.
        breaker, bulkhead = guards.breaker, guards.bulkhead
        ticket = breaker.enter() if breaker is not None else None
        try:
            if bulkhead is None:
                result = await self._bounded(until, fn, args, kwargs)
            else:
                place = bulkhead.enter_at_once()
                if place is None:
                    place = await bulkhead.enter_waiting(until)
                    if breaker is not None and ticket is not None:
                        ticket = _still_admitted(breaker, ticket, bulkhead, place)
                try:
                    result = await self._bounded(until, fn, args, kwargs)
                except Exception as error:
                    bulkhead.failed(place, error)
                    raise
                except BaseException:
                    bulkhead.left(place)
                    raise
                bulkhead.succeeded(place, result)
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
        self,
        until: float,
        fn: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> T:
        end = until if self.timeout is None else min(until, trio.current_time() + self.timeout)
        if self.at_least:
            self.refuse_too_late(end)
        if end == inf:
            return await fn(*args, **kwargs)
        # Also if the caller's deadline is nearer: it may be moved on meanwhile, as that of a renewed lease is.
        with trio.CancelScope(deadline=end):
            return await fn(*args, **kwargs)
        if end == until and self.total is not None:
            raise DeadlineExceeded(self.total, what=f"a call to {self.name} with its retries")
        raise DeadlineExceeded(self.timeout or 0.0, what=f"an attempt to call {self.name}")

    def refuse_too_late(self, end: float) -> None:
        """Raise `NotEnoughTime` if an attempt that may last until `end` has less than `at_least`."""
        left = min(end, trio.current_effective_deadline()) - trio.current_time()
        refuse_too_late(left, self.at_least, f"a call to {self.name}")

    def __call__(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate an async function so that each call of it is a call to this dependency."""
        refuse_unfit(fn, f"dependency {self.name!r}")

        @wraps(fn)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            if kwargs.get("idempotency_key", "") is None:  # it says so, and the function is told so
                return await self.call(partial(fn, **kwargs), *args)
            key: Any = kwargs.pop("idempotency_key", None)
            return await self.call(fn, *args, idempotency_key=key, **kwargs)

        return guarded

    async def __aenter__(self) -> Self:
        guards = self.guards()
        block = Block(
            self.name,
            guards.breaker,
            guards.bulkhead,
            self.total,
            self.timeout,
            self.refuse_too_late if self.at_least else None,
        )
        await block.enter()
        guards.entered.setdefault(trio.lowlevel.current_task(), []).append(block)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return last_entry(self.guards().entered).exit(kind, error, traceback)

    def statistics(self) -> DependencyStatistics:
        """One look, in the calling tree."""
        return self.guards().statistics()


def _still_admitted(breaker: CircuitBreaker, ticket: Any, bulkhead: Bulkhead, place: Any) -> Any:
    """The ticket of a call that has waited for its place; if it is not admitted any more, the place is given back."""
    try:
        return breaker.begins(ticket)
    except BaseException:
        bulkhead.left(place)
        raise
