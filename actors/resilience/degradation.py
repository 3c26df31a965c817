"""Degradation: go on without an optional step that fails, and say so.

Floor: above signals. The rule: a degraded answer is marked, counted and limited in age; only an `Exception` is hidden, never a
cancellation; a feature has recovered when a call succeeds by the same rule that defines failure.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar, cast

import attrs
import trio

from actors.options import some_seconds
from actors.resilience.signals import DegradationChanged, Degraded, current_worker, report, shared
from actors.resilience.verdict import Errors, covers, leaves

__all__ = ["Answer", "FeatureState", "degrade"]

P = ParamSpec("P")
T = TypeVar("T")

logger: Final = logging.getLogger("actors.resilience")


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
    last: object = None
    last_at: float | None = None
    """When the last good result came."""


class degrade:  # noqa: N801 - it is written like a verb: `with degrade("x"):`, `@degrade("x")`
    """An optional step. A decorator, a block, or a call whose answer is marked.

    Synopsis::

        @degrade("recommendations", default=[])
        async def recommend(user): ...


        with degrade("analytics"):
            await track(charge)

    Args:
        feature: its name, in events and in the metric `wf_worker_degraded_total{worker,feature}`.
        default: what stands in for the result; a function without parameters is called for it.
        stale_for: serve the last good result, if it is at most this many seconds old, before `default`. An older one, and
            no default, is the real error.
        on: errors that degrade; others pass.
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
        on: Errors = (Exception,),
        fails: Callable[[Any], bool] | None = None,
    ) -> None:
        if not isinstance(feature, str) or not feature:
            raise ValueError(f"a feature has a name, not {feature!r}")
        some_seconds(None, cast(Any, _Named("stale_for")), stale_for)
        self.feature = feature
        self._default = default
        self._has_default = default is not None or stale_for is None
        self._stale_for = stale_for
        self._errors = on
        self._fails = fails

    @property
    def state(self) -> FeatureState:
        """What the calling tree knows of this feature."""
        return shared("feature", self.feature, FeatureState)

    async def call(self, fn: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> Answer[T]:
        """Call `fn`; its result, or what stands in for it, marked as such."""
        try:
            result = await fn(*args, **kwargs)
        except Exception as error:
            if not self._hides(error):
                raise
            return self._instead(error)
        if self._fails is not None and self._fails(result):
            return self._instead(ValueError(f"{result!r} counts as a failure"))
        self._succeeded(result)
        return Answer(value=result, degraded=False)

    def __call__(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate an async function; callers get the plain value."""

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
            self._succeeded(None)
            return False
        if not isinstance(error, Exception) or not self._hides(error):
            return False
        self._note(error)
        return True

    def _hides(self, error: Exception) -> bool:
        return all(
            isinstance(leaf, Exception) and covers(self._errors, leaf) for leaf in leaves(error)
        )

    def _succeeded(self, result: object) -> None:
        state = self.state
        if self._stale_for is not None:
            state.last, state.last_at = result, trio.current_time()
        if state.degraded:
            state.degraded, state.since = False, trio.current_time()
            report(DegradationChanged, feature=self.feature, degraded=False)

    def _instead(self, error: Exception) -> Answer[Any]:
        state, now = self.state, trio.current_time()
        if self._stale_for is not None and state.last_at is not None:
            age = now - state.last_at
            if age <= self._stale_for:
                self._note(error)
                return Answer(value=state.last, degraded=True, age=age, error=error)
        if not self._has_default:
            raise error
        self._note(error)
        value = self._default() if callable(self._default) else self._default
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
        logger.warning("goes on without %s: %r", self.feature, error)

    def __repr__(self) -> str:
        return f"<degrade {self.feature}>"


@attrs.frozen
class _Named:
    name: str
