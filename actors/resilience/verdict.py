"""The brain: what to do about one failed attempt, as a value.

Floor: above backoff. Pure: error, policy, attempt, times and randomness in, a verdict out. A retry loop, a job worker and a
supervisor carry the same verdicts out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from actors.errors import PoisonMessage, Rejected
from actors.options import OptionError, at_once

if TYPE_CHECKING:
    from actors.resilience.retries import RetryPolicy

__all__ = [
    "Degrade",
    "Fail",
    "HandBack",
    "Poison",
    "RetryHere",
    "Verdict",
    "as_errors",
    "covers",
    "judge",
    "kinds",
    "leaves",
    "retry_after",
]


@attrs.frozen
class RetryHere:
    """Try again in `delay` seconds."""

    delay: float


@attrs.frozen
class HandBack:
    """Put the work back for `retry_in` seconds; the attempt is not the work's fault and is not counted against it."""

    retry_in: float
    why: str


@attrs.frozen
class Fail:
    """This failed; whoever gave the work decides what comes next."""

    why: str


@attrs.frozen
class Poison:
    """It can never succeed; set it aside for a person."""

    why: str


@attrs.frozen
class Degrade:
    """It was optional; go on without."""

    why: str


Verdict: TypeAlias = RetryHere | HandBack | Fail | Poison | Degrade
Errors: TypeAlias = tuple[type[Exception], ...] | Callable[[Exception], bool]


def judge(
    error: Exception,
    *,
    rules: RetryPolicy,
    attempt: int,
    elapsed: float,
    left: float,
    random: Random,
    hint: float | None = None,
    may_retry: Callable[[float], bool] | None = None,
    optional: bool = False,
) -> Verdict:
    """What to do about `error`, raised by attempt number `attempt` (the first call is 1).

    Args:
        error: what was raised, possibly a group; the most severe of its leaves decides.
        rules: attempts, total time and which errors are worth another try.
        elapsed: seconds since the first attempt began.
        left: seconds until the caller's deadline; inf if it has none.
        random: for the jitter of the wait.
        hint: seconds the other side asked to be left alone.
        may_retry: takes one retry, which would be made in so many seconds, from a shared budget, or refuses; asked last, and only then.
        optional: whether the work can be left out.
    """
    found = list(leaves(error))
    for leaf in found:
        if isinstance(leaf, PoisonMessage):
            return Poison(str(leaf))
    give_up = Degrade if optional else Fail
    refused = [leaf for leaf in found if isinstance(leaf, Rejected)]
    if refused and len(refused) == len(found):
        longest = max(refused, key=lambda leaf: leaf.retry_after)
        return give_up(str(longest)) if optional else HandBack(longest.retry_after, str(longest))
    if not all(isinstance(leaf, Exception) and _worth_it(leaf, rules) for leaf in found):
        return give_up("not an error that another attempt may cure")
    if rules.attempts is not None and attempt >= rules.attempts:
        return give_up(f"{attempt} of {rules.attempts} attempts made")
    delay = rules.wait(attempt, random)
    if hint is not None and hint > delay:
        if hint > rules.hint_max:
            why = f"it asks for {hint:.3g} s, and no more than {rules.hint_max:g} s are waited here"
            return give_up(why) if optional else HandBack(hint, why)
        delay = hint
    if delay >= left or (rules.total is not None and elapsed + delay > rules.total):
        room = min(left, inf if rules.total is None else rules.total - elapsed)
        why = (
            f"the next attempt would be in {delay:.3g} s, but only {max(room, 0.0):.3g} s are left"
        )
        return HandBack(delay, why) if hint is not None and not optional else give_up(why)
    if may_retry is not None and not may_retry(delay):
        return give_up("the retry budget is used up")
    return RetryHere(delay)


def _worth_it(leaf: Exception, rules: RetryPolicy) -> bool:
    if isinstance(leaf, Rejected):
        return False
    return covers(rules.on, leaf) and not covers(rules.never, leaf)


def as_errors(value: Errors | type[Exception] | Iterable[type[Exception]]) -> Errors:
    """A converter for options that name errors: one class, several, or a function of the error."""
    if isinstance(value, (type, str)) or not (callable(value) or isinstance(value, Iterable)):
        return (cast("type[Exception]", value),)
    return value if callable(value) else tuple(value)


def kinds(_: object, field: attrs.Attribute[Any], value: Errors) -> None:
    """Classes of Exception, or a function that answers at once."""
    if not isinstance(value, tuple):
        at_once(None, field, value)
    named = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    for kind in named:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise OptionError(
                f"{field.name} lists classes of Exception, not {kind!r}; a cancellation is none",
                option=field.name,
            )


def covers(errors: Errors, error: BaseException) -> bool:
    """True if one of `errors` (classes, or a predicate) says yes to this one error."""
    if isinstance(errors, tuple):
        return isinstance(error, errors)
    return isinstance(error, Exception) and bool(errors(error))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors at the bottom of a group; a plain error is its own leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error


def retry_after(error: BaseException) -> float | None:
    """The longest wait that any leaf of `error` asks for, in seconds, or None.

    Looked for in an attribute `retry_after`, and in the `Retry-After` header of an attribute `response` (seconds only: a date
    would need the other side's clock). What cannot be read asks for nothing.
    """
    hints = [hint for leaf in leaves(error) if (hint := _hint(leaf)) is not None]
    return max(hints) if hints else None


def _hint(leaf: BaseException) -> float | None:
    for read in (_attribute, _header):
        with suppress(Exception):  # other people's errors: no such thing, of any type, or it raises
            seconds = float(read(leaf))
            if 0 <= seconds < inf:
                return seconds
    return None


def _attribute(leaf: Any) -> Any:
    return leaf.retry_after


def _header(leaf: Any) -> Any:
    headers = leaf.response.headers
    return headers.get("retry-after") or headers.get("Retry-After")
