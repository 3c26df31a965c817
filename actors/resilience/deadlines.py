"""Deadlines: nested budgets of time over Trio's cancel scopes.

Floor: above signals. The rule: there is no second system of deadlines: the effective one is Trio's, the nearest of all
enclosing scopes. A deadline counts from where its block is entered. Only an expiry of one's own is an error; an outer one
stays a cancellation, for whoever owns it. Work that needs a minimum of time is refused before it begins, when nothing of it can
have had an effect; clean-up is the one thing that may go on past a deadline, and has a finite one of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from math import inf
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import trio
from trio.lowlevel import current_task

from actors.errors import DeadlineExceeded, NoDeadline, NotEnoughTime
from actors.options import OptionError, is_number, refuse_unfit
from actors.resilience.signals import Unbounded, current_office, report

__all__ = ["cleanup", "deadline", "remaining", "require_deadlines"]

P = ParamSpec("P")
T = TypeVar("T")

_required: ContextVar[bool] = ContextVar("deadlines_required", default=False)


class deadline:  # noqa: N801 - it is written like a verb: `with deadline(25):`, `@deadline(5)`
    """Give work at most so many seconds: `with deadline(25, reserve=5):` gives 20, or less if an enclosing one is nearer.

    A block, a decorator of an async function, or `await deadline(5).call(fn, *args)`; it may be used many times, also by
    several tasks at once, and counts anew each time. The block's variable is its `trio.CancelScope`.

    Args:
        seconds: from the moment the block is entered; None takes only what encloses it.
        reserve: seconds kept back for what comes after the block, such as completing the job.
        at: an absolute time of Trio's clock, such as `ctx.deadline`; the nearer of the two holds.
        at_least: seconds that the work needs at least: with less, of its own or of what encloses it, it is not begun.
        what: names the work in the error.

    Raises:
        NotEnoughTime: less than `at_least` is left; the block was not entered.
        DeadlineExceeded: its own time was up. If an enclosing deadline (or an equal one) expires, that one's owner is told.
    """

    __slots__ = ("_entered", "at", "at_least", "reserve", "seconds", "what")

    def __init__(
        self,
        seconds: float | None = None,
        *,
        reserve: float = 0.0,
        at: float | None = None,
        at_least: float = 0.0,
        what: str = "",
    ) -> None:
        for name, value in (("seconds", seconds), ("reserve", reserve), ("at_least", at_least)):
            if value is not None and not (is_number(value) and value >= 0):
                raise OptionError(
                    f"{name} must be a number of seconds, 0 or more, not {value!r}",
                    where="deadline",
                    option=name,
                )
        if reserve == inf:
            raise OptionError(
                "reserve must be finite: no work would ever be given any time",
                where="deadline",
                option="reserve",
            )
        if at is not None and not is_number(at):
            raise OptionError(
                f"at must be a time of Trio's clock, not {at!r}", where="deadline", option="at"
            )
        if at_least and seconds is not None and seconds - reserve < at_least:
            raise OptionError(
                f"at_least ({at_least:g} s) is more than the {max(0.0, seconds - reserve):g} s that it ever gives",
                where="deadline",
                option="at_least",
            )
        self.seconds = seconds
        self.reserve = reserve
        self.at = at
        self.at_least = at_least
        self.what = what
        self._entered: dict[trio.lowlevel.Task, list[tuple[trio.CancelScope, float]]] = {}

    def __enter__(self) -> trio.CancelScope:
        now = trio.current_time()
        outer = trio.current_effective_deadline()
        own = now + self.seconds if self.seconds is not None else inf
        if self.at is not None:
            own = min(own, self.at)
        end = min(own, outer) - self.reserve if self.reserve else own
        if self.at_least:
            refuse_too_late(min(end, outer) - now, self.at_least, self.what)
        if end < outer:
            end = max(end, now)
        scope = trio.CancelScope(deadline=end)
        scope.__enter__()
        self._entered.setdefault(current_task(), []).append((scope, end - now))
        return scope

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task = current_task()
        scope, given = self._entered[task].pop()
        if not self._entered[task]:
            del self._entered[task]
        scope.__exit__(kind, error, traceback)
        if scope.cancelled_caught:
            raise DeadlineExceeded(max(0.0, given), what=self.what)

    async def call(self, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Call `fn(*args, **kwargs)` within the deadline and return its result."""
        with self:
            return await fn(*args, **kwargs)

    def __call__(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate an async function: each call of it gets this deadline, counted from the call."""
        refuse_unfit(fn, "deadline")

        @wraps(fn)
        async def limited(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self.call(fn, *args, **kwargs)

        return limited

    def __repr__(self) -> str:
        parts = ["" if self.seconds is None else f"{self.seconds:g} s"]
        parts += [f"reserve={self.reserve:g}"] if self.reserve else []
        parts += [f"at={self.at:g}"] if self.at is not None else []
        return f"<deadline {', '.join(filter(None, parts)) or 'of what encloses it'}>"


def remaining() -> float:
    """Seconds until the nearest enclosing deadline: 0 if it has passed, inf if there is none."""
    return max(0.0, trio.current_effective_deadline() - trio.current_time())


def cleanup(seconds: float) -> trio.CancelScope:
    """A block that no cancellation reaches, for at most so many seconds: `with cleanup(5): await connection.close()`.

    For a `finally` whose steps have to wait: in a cancelled scope each wait would end at once, and a shield without an end
    holds up whoever cancelled. When its time is up the block ends quietly; `cancelled_caught` of the scope tells.
    """
    if not (is_number(seconds) and 0 < seconds < inf):
        raise OptionError(
            f"seconds must be a finite number above 0, not {seconds!r}",
            where="cleanup",
            option="seconds",
        )
    return trio.CancelScope(relative_deadline=seconds, shield=True)


def refuse_too_late(left: float, needed: float, what: str) -> None:
    """Raise `NotEnoughTime` if less time is left than the work needs. Of who is cancelled already the next checkpoint takes care."""
    if -inf < left < needed:
        raise NotEnoughTime(what, left=max(0.0, left), needed=needed)


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
