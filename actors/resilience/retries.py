"""Retry: trying again, for errors that are named, within attempts, time and budget.

Floor: above verdict and budget. The rule: only an `Exception` is ever retried, so a cancellation cannot be. Every decision is
`verdict.judge`'s, made between the failure and the wait; a wait that would reach past a deadline is never begun, and what is
raised in the end is the real error of the last attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial, wraps
from math import inf
from random import Random
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, cast

import attrs
import trio

from actors.errors import MissingIdempotencyKey, Rejected, noted, shown
from actors.options import OptionError, checked, flag, refuse_unfit, seconds, some_seconds
from actors.resilience.backoff import Backoff
from actors.resilience.budget import RetryBudget
from actors.resilience.signals import CallRetried, current_worker, report
from actors.resilience.verdict import (
    Errors,
    HandBack,
    RetryHere,
    Verdict,
    as_errors,
    judge,
    kinds,
    retry_after,
)

__all__ = ["Attempt", "Attempts", "RetryPolicy", "non_idempotent", "retry"]

P = ParamSpec("P")
T = TypeVar("T")

_RANDOM: Final = Random()
_GAVE_UP: Final = "gave up"
_MARK: Final = "__non_idempotent__"


def _attempts(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(
            f"{field.name} counts calls, the first one included, so it is 1 or more"
            f" (or None for no limit), not {value!r}",
            option=field.name,
        )


@checked()
@attrs.frozen(kw_only=True)
class RetryPolicy:
    """Which failures are worth another attempt, how many and how soon. Used by `retry`, as a decorator, or in a loop.

    Synopsis::

        @RetryPolicy(on=(ConnectionError,), attempts=3)
        async def fetch(): ...


        async for attempt in RetryPolicy(on=(ConnectionError,)).attempts_of("fetch"):
            with attempt:
                ...
    """

    on: Errors = attrs.field(
        converter=as_errors,
        validator=kinds,
        metadata={
            "doc": "errors that another attempt may cure: classes, or a function of the error"
        },
    )
    never: Errors = attrs.field(
        default=(),
        converter=as_errors,
        validator=kinds,
        metadata={"doc": "exceptions from `on`: classes, or a function of the error"},
    )
    attempts: int | None = attrs.field(
        default=3,
        validator=_attempts,
        metadata={"doc": "calls in all, the first one included; none is no limit"},
    )
    total: float | None = attrs.field(
        default=None,
        validator=some_seconds,
        metadata={"doc": "seconds after the first call within which the last one has to begin"},
    )
    backoff: Backoff = attrs.field(
        default=Backoff(initial=0.1, factor=2.0, maximum=2.0, jitter=0.5),
        validator=attrs.validators.instance_of(Backoff),
        metadata={"doc": "the waits between attempts"},
    )
    hints: bool = attrs.field(
        default=True,
        validator=flag,
        metadata={"doc": "honour a Retry-After that the error carries"},
    )
    hint_max: float = attrs.field(
        default=30.0,
        validator=seconds,
        metadata={"doc": "seconds of a Retry-After that are waited here; a longer one is final"},
    )

    def wait(self, attempt: int, random: Random) -> float:
        """Seconds to wait after failed attempt number `attempt`, from 1."""
        return self.backoff.delay(attempt, random)

    def __call__(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate an async function so that each call of it is retried."""
        refuse_unfit(fn, "RetryPolicy")

        @wraps(fn)
        async def retried(*args: P.args, **kwargs: P.kwargs) -> T:
            # As `retry`, less a coroutine: with success at the first attempt that is most of what a retry costs.
            if getattr(retried, _MARK):
                refuse_without_key(_name_of(fn), self, _key_of(fn, kwargs))
            started = trio.current_time() if self.total is not None else 0.0
            try:
                return await fn(*args, **kwargs)
            except Exception as error:
                tries = Tries(self, started=started)
                if not tries.again(error):
                    raise
            return await tries.go_on(fn, args, kwargs)

        setattr(retried, _MARK, is_non_idempotent(fn))  # below this decorator; or it will be, above
        return retried

    def attempts_of(
        self, name: str = "", *, budget: RetryBudget | None = None, random: Random | None = None
    ) -> Attempts:
        """The block form: `async for attempt in policy.attempts_of("stripe"): with attempt: ...`."""
        return Attempts(self, name, budget=budget, random=random)


def never_refused(_: float) -> bool:
    """Without a breaker no attempt is known to be refused."""
    return False


async def retry(
    fn: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    policy: RetryPolicy,
    name: str = "",
    budget: RetryBudget | None = None,
    random: Random | None = None,
    **kwargs: Any,
) -> T:
    """Call `fn(*args, **kwargs)`, again after failures that `policy` names; returns its result.

    The caller's deadline is looked at before each wait: if it leaves no room for another attempt, the error of the last one is
    raised at once, noted with what was tried. A `Retry-After` is waited for if it fits; a refusal by a breaker or bulkhead
    is final here.

    Args:
        name: of the dependency, for events and metrics.
        budget: shared with others who call the same dependency.
        random: source of jitter, for tests.

    Raises:
        MissingIdempotencyKey: `fn` is marked `@non_idempotent` and no `idempotency_key` is among `kwargs`.
    """
    if is_non_idempotent(fn):
        refuse_without_key(_name_of(fn), policy, _key_of(fn, kwargs))
    if budget is not None:
        budget.attempted(trio.current_time())
    started = trio.current_time() if policy.total is not None else 0.0
    try:
        return await fn(*args, **kwargs)
    except Exception as error:
        tries = Tries(policy, name, started=started, budget=budget, random=random)
        if not tries.again(error):
            raise
    return await tries.go_on(fn, args, kwargs)


class Tries:
    """A call whose first attempt has failed. Made only then: a call that succeeds at once pays for none of it.

    Args:
        until: a deadline that no cancel scope knows.
        needs: seconds that an attempt needs at least.
        refuses: tells if an attempt in so many seconds would be refused: then it is made at once, to be told when to come back,
            instead of waiting for that.
    """

    __slots__ = (
        "_attempt",
        "_budget",
        "_earlier",
        "_name",
        "_needs",
        "_policy",
        "_random",
        "_refuses",
        "_started",
        "_until",
        "_wait",
    )

    def __init__(
        self,
        policy: RetryPolicy,
        name: str = "",
        *,
        started: float,
        budget: RetryBudget | None = None,
        random: Random | None = None,
        until: float = inf,
        needs: float = 0.0,
        refuses: Callable[[float], bool] = never_refused,
    ) -> None:
        self._policy = policy
        self._name = name
        self._started = started
        self._budget = budget
        self._random = random
        self._until = until
        self._needs = needs
        self._refuses = refuses
        self._attempt = 1
        self._wait = 0.0
        self._earlier: list[Exception] = []

    def again(self, error: Exception) -> bool:
        """The last attempt raised `error`: True if another is to be made."""
        verdict = weigh(
            error,
            self._policy,
            attempt=self._attempt,
            started=self._started,
            budget=self._budget,
            random=self._random,
            until=self._until,
            needs=self._needs,
            refuses=self._refuses,
        )
        if not isinstance(verdict, RetryHere):
            note_tries(error, self._earlier, verdict)
            return False
        remember(self._earlier, error)
        if self._refuses(verdict.delay):
            self._wait = 0.0
        else:
            _announce(self._name, self._attempt, verdict.delay, error)
            self._wait = verdict.delay
        self._attempt += 1
        return True

    async def go_on(
        self, fn: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        """Wait and call `fn` until it succeeds, or is not to be called again."""
        while True:
            await trio.sleep(self._wait)
            try:
                return await fn(*args, **kwargs)
            except Exception as error:
                if not self.again(error):
                    raise


def weigh(
    error: Exception,
    policy: RetryPolicy,
    *,
    attempt: int,
    started: float,
    budget: RetryBudget | None,
    random: Random | None,
    until: float = inf,
    needs: float = 0.0,
    refuses: Callable[[float], bool] = never_refused,
) -> Verdict:
    """`judge` with the times of this moment."""
    now = trio.current_time()

    def may_retry(delay: float) -> bool:
        return (
            budget is None or refuses(delay) or budget.take(now)
        )  # a refused attempt costs nothing

    return judge(
        error,
        rules=policy,
        attempt=attempt,
        elapsed=now - started,
        left=min(until, trio.current_effective_deadline()) - now - needs,
        random=random or _RANDOM,
        hint=retry_after(error) if policy.hints else None,
        may_retry=may_retry,
    )


def remember(earlier: list[Exception], error: Exception) -> None:
    """Keep the first and the last few errors; an endless loop must not keep them all."""
    earlier.append(error)
    if len(earlier) > 5:
        del earlier[1]


def note_tries(error: Exception, earlier: list[Exception], verdict: Verdict) -> None:
    """Say on the final error what was tried before, and why it ended."""
    # Some owners raise one error object again and again: what an earlier call said on it is not true of this one.
    with suppress(Exception):  # other people's notes: of any type, or of an error that refuses them
        error.__notes__[:] = [note for note in error.__notes__ if not note.startswith(_GAVE_UP)]
    # A guard's refusal says all of it itself.
    if not earlier and (isinstance(error, Rejected) or not isinstance(verdict, HandBack)):
        return
    why = getattr(verdict, "why", "")
    before = f" after {', '.join(map(shown, earlier))}" if earlier else ""
    noted(error, f"{_GAVE_UP}{before}: {why}")


def _announce(name: str, attempt: int, delay: float, error: Exception) -> None:
    report(
        CallRetried,
        count=("wf_worker_retries_total", current_worker(), name),
        dependency=name,
        attempt=attempt,
        delay=delay,
        error=error,
    )


def non_idempotent(fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Mark a call that must not take effect twice: it is retried only with an `idempotency_key`."""
    setattr(fn, _MARK, True)
    below: object = getattr(fn, "__wrapped__", None)
    while below is not None:  # a retry that has to know may be any number of decorators below
        with suppress(AttributeError, TypeError):
            setattr(getattr(below, "__func__", below), _MARK, True)
        below = getattr(below, "__wrapped__", None)
    return fn


def is_non_idempotent(fn: object) -> bool:
    """True if `fn`, or what it is a `functools.partial` of, is marked."""
    while not getattr(fn, _MARK, False):
        if not isinstance(fn, partial):
            return False
        fn = cast("partial[object]", fn).func
    return True


def _key_of(fn: object, kwargs: dict[str, Any]) -> object:
    key: object = kwargs.get("idempotency_key")
    while key is None and isinstance(fn, partial):
        bound = cast("partial[object]", fn)
        fn, key = bound.func, bound.keywords.get("idempotency_key")
    return key


def _name_of(fn: object) -> str:
    return str(getattr(fn, "__qualname__", None) or shown(fn))


def refuse_without_key(what: str, policy: RetryPolicy | None, key: object) -> None:
    """Raise `MissingIdempotencyKey` if `policy` would repeat a call that has no key; an empty one is none."""
    if key in (None, "") and policy is not None and policy.attempts != 1:
        raise MissingIdempotencyKey(
            what, "unlimited" if policy.attempts is None else policy.attempts
        )


class Attempt:
    """One pass of the block form: `with attempt:`. An error that will be tried again ends here."""

    __slots__ = ("_loop", "number")

    def __init__(self, loop: Attempts, number: int) -> None:
        self._loop = loop
        self.number = number
        """Which attempt this is, from 1."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> bool:
        return self._loop.ended(error)


class Attempts:
    """The loop of the block form. It holds no scope between two passes, so leaving it early is harmless."""

    __slots__ = (
        "_budget",
        "_delay",
        "_earlier",
        "_name",
        "_number",
        "_policy",
        "_random",
        "_started",
    )

    def __init__(
        self, policy: RetryPolicy, name: str, *, budget: RetryBudget | None, random: Random | None
    ) -> None:
        self._policy = policy
        self._name = name
        self._budget = budget
        self._random = random
        self._number = 0
        self._delay: float | None = 0.0
        self._started = inf
        self._earlier: list[Exception] = []

    def __aiter__(self) -> Attempts:
        # Each loop counts anew: to one who keeps the object, a second loop must not be a body that is never run.
        return Attempts(self._policy, self._name, budget=self._budget, random=self._random)

    async def __anext__(self) -> Attempt:
        if self._delay is None:
            await trio.lowlevel.checkpoint()
            raise StopAsyncIteration
        await trio.sleep(self._delay)
        if self._number == 0:
            self._started = trio.current_time()
            if self._budget is not None:
                self._budget.attempted(self._started)
        self._number += 1
        self._delay = None
        return Attempt(self, self._number)

    def ended(self, error: BaseException | None) -> bool:
        """A pass ended; True if its error is dealt with here by another pass."""
        if not isinstance(error, Exception):
            return False
        verdict = weigh(
            error,
            self._policy,
            attempt=self._number,
            started=self._started,
            budget=self._budget,
            random=self._random,
        )
        if not isinstance(verdict, RetryHere):
            note_tries(error, self._earlier, verdict)
            return False
        remember(self._earlier, error)
        _announce(self._name, self._number, verdict.delay, error)
        self._delay = verdict.delay
        return True
