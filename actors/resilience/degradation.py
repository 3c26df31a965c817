"""Degradation: go on without an optional step that fails, and say so.

Floor: above signals. The rule: a degraded answer is marked, counted and limited in age; only an `Exception` is hidden, never a
cancellation nor poison; a feature has recovered when a call succeeds by the same rule that defines failure.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial, wraps
from math import inf
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar, cast

import attrs
import trio

from actors.errors import PoisonMessage, shown
from actors.options import OptionError, at_once, refuse_unfit, some_seconds
from actors.resilience.signals import DegradationChanged, Degraded, current_worker, report, shared
from actors.resilience.verdict import Errors, as_errors, covers, kinds, leaves

__all__ = ["Answer", "FeatureState", "degrade"]

P = ParamSpec("P")
T = TypeVar("T")

logger: Final = logging.getLogger("actors.resilience")
_MOST_KEPT: Final = 1000


@attrs.frozen(kw_only=True)
class Answer(Generic[T]):
    """The result of an optional step, or what stands in for it."""

    value: T
    degraded: bool
    """True if `value` stands in for a result."""
    age: float | None = None
    """Of a degraded answer that is an older result: its age in seconds."""
    error: Exception | None = None
    """Why it is degraded."""


@attrs.define(eq=False)
class FeatureState:
    """What a tree knows of one optional feature."""

    degraded: bool = False
    since: float = 0.0
    answers: int = 0
    """Degraded answers so far."""
    kept: OrderedDict[object, tuple[object, float]] = attrs.field(
        factory=lambda: OrderedDict[object, "tuple[object, float]"]()
    )
    """The last good result of each function and arguments, and when it came; the oldest go when there are many."""


class degrade:  # noqa: N801 - it is written like a verb: `with degrade("x"):`, `@degrade("x")`
    """An optional step. A decorator, a block, or a call whose answer is marked.

    Synopsis::

        @degrade("recommendations", default=list)
        async def recommend(user): ...


        with degrade("analytics"):
            await track(charge)

    Args:
        feature: its name, in events and in the metric `wf_worker_degraded_total{worker,feature}`.
        default: what stands in for the result; a function without parameters is called for it each time, so give `list`
            and not `[]`, which all callers would share.
        stale_for: serve the last good result of the same function and arguments (they must be hashable), if it is at most
            this many seconds old, before `default`. None so young, and no default, is the real error.
        on: errors that degrade: classes, or a function of the error; others pass, and `PoisonMessage` always does.
        fails: a function of a result: true if it is a failure after all.
    """

    __slots__ = (
        "_default",
        "_errors",
        "_fails",
        "_has_default",
        "_stale_for",
        "feature",
        "outcome",
    )

    def __init__(
        self,
        feature: str,
        *,
        default: Any = None,
        stale_for: float | None = None,
        on: Errors | type[Exception] = (Exception,),
        fails: Callable[[Any], bool] | None = None,
    ) -> None:
        if not isinstance(feature, str) or not feature:
            raise OptionError(f"a feature has a name, not {feature!r}", option="feature")
        errors = as_errors(on)
        try:
            some_seconds(None, cast(Any, _Named("stale_for")), stale_for)
            kinds(None, cast(Any, _Named("on")), errors)
            at_once(None, cast(Any, _Named("fails")), fails)
            if callable(default):
                at_once(None, cast(Any, _Named("default")), default)
        except OptionError as problem:
            where = f"degrade {feature!r}"
            raise OptionError(problem.text, where=where, option=problem.option) from None
        self.feature = feature
        self._default = default
        self._has_default = default is not None or stale_for is None
        self._stale_for = stale_for
        self._errors = errors
        self._fails = fails

    @property
    def state(self) -> FeatureState:
        """What the calling tree knows of this feature."""
        return shared("feature", self.feature, FeatureState)

    async def call(
        self, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any
    ) -> Answer[T]:
        """Call `fn`; its result, or what stands in for it, marked as such."""
        try:
            result = await fn(*args, **kwargs)
        except Exception as error:
            if _never_made(error) or not self._hides(error):
                raise
            return self._instead(error, _key(fn, args, kwargs))
        if self._fails is not None and self._fails(result):
            failure = ValueError(f"{shown(result)} is a failure")
            return self._instead(failure, _key(fn, args, kwargs))
        if self._stale_for is not None:
            self._keep(result, _key(fn, args, kwargs))
        self._succeeded()
        return Answer(value=result, degraded=False)

    def __call__(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate an async function; callers get the plain value."""
        refuse_unfit(fn, f"degrade {self.feature!r}")

        @wraps(fn)
        async def degradable(*args: P.args, **kwargs: P.kwargs) -> T:
            return (await self.call(fn, *args, **kwargs)).value

        return degradable

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> bool:
        if error is None:
            self._succeeded()
            return False
        if not isinstance(error, Exception) or not self._hides(error):
            return False
        self._note(error)
        return True

    def _hides(self, error: Exception) -> bool:
        return all(
            not isinstance(leaf, PoisonMessage) and covers(self._errors, leaf)
            for leaf in leaves(error)
        )

    def _keep(self, result: object, key: object) -> None:
        kept = self.state.kept
        if key is not None:
            kept[key] = (result, trio.current_time())
            kept.move_to_end(key)
            if len(kept) > _MOST_KEPT:
                kept.popitem(last=False)

    def _succeeded(self) -> None:
        state = self.state
        if state.degraded:
            state.degraded, state.since = False, trio.current_time()
            report(DegradationChanged, feature=self.feature, degraded=False)

    def _instead(self, error: Exception, key: object) -> Answer[Any]:
        if self._stale_for is not None:
            last, at = self.state.kept.get(key, (None, -inf))
            age = trio.current_time() - at
            if age <= self._stale_for:
                self._note(error)
                return Answer(value=last, degraded=True, age=age, error=error)
        if not self._has_default:
            raise error
        value = self._default() if callable(self._default) else self._default
        self._note(error)  # only now: a default that cannot be made is no answer
        return Answer(value=value, degraded=True, error=error)

    def _note(self, error: Exception) -> None:
        state = self.state
        state.answers += 1
        if not state.degraded:
            state.degraded, state.since = True, trio.current_time()
            report(DegradationChanged, feature=self.feature, degraded=True)
        report(
            Degraded,
            count=("wf_worker_degraded_total", current_worker(), self.feature),
            feature=self.feature,
            error=error,
        )
        with suppress(Exception):  # logging that fails is no reason to fail the step
            logger.warning("goes on without %s: %s", self.feature, shown(error))

    def __repr__(self) -> str:
        return f"<degrade {self.feature}>"


def _never_made(error: Exception) -> bool:
    """True for what Python says of wrong arguments and of results that cannot be awaited: a mistake, and no failure."""
    trace = error.__traceback__
    return isinstance(error, TypeError) and trace is not None and trace.tb_next is None


def _key(fn: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """What a result is kept under; None if it cannot be compared: another's result must never be served."""
    while isinstance(fn, partial):  # as a rule one that was made for this call alone
        bound = cast("partial[object]", fn)
        fn, args, kwargs = bound.func, (*bound.args, *args), {**bound.keywords, **kwargs}
    try:
        key = (fn, args, frozenset(kwargs.items()))
        hash(key)
    except TypeError:
        return None
    return key


@attrs.frozen
class _Named:
    name: str
