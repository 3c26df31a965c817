"""Rules about calls to others: timeouts, retries, breakers.

Floor: above reading. Pure functions of what was seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType

from actors.resilience.breaker_policy import BreakerPolicy
from actors.resilience.dependency import Dependency
from actors.resilience.retries import RetryPolicy, is_non_idempotent
from supervision.checklist.finding import Hit
from supervision.checklist.looking import Guarded, Seen
from supervision.checklist.reading import Call, calls

__all__ = ["blind_breaker", "long_waits", "many_retries", "no_key", "no_timeout"]

_MOST_RETRIES = 5
_LONGEST_WAIT = 10.0
_READS = ("check", "count", "fetch", "find", "get", "head", "list", "load", "look", "ping", "query", "read", "search")  # fmt: skip


def no_timeout(seen: Seen) -> Iterator[Hit]:
    """A downstream that hangs, hangs the worker with it; the breaker never hears of a call that does not end."""
    for guarded in seen.guarded:
        dependency = guarded.guard
        if isinstance(dependency, Dependency) and not (dependency.timeout or dependency.total):
            yield Hit(
                paths=seen.paths(guarded),
                about=guarded.name,
                text="its calls have no timeout",
                way_out="set timeout, the seconds of one attempt",
            )


def no_key(seen: Seen) -> Iterator[Hit]:
    """An attempt that failed may have taken effect all the same; only a key lets the other side see that it is the same call."""
    for worker in seen.workers:
        for function in worker.functions:
            for call in calls(function):
                made = _repeated(call)
                if made is None or _has_key(call.node):
                    continue
                dependency, target = made
                refused = not dependency.idempotent or is_non_idempotent(target)
                if not refused and _reads(call, target):
                    continue
                yield Hit(
                    paths=(worker.path,),
                    about=f"dependency {dependency.name!r}",
                    source=call.place,
                    text=(
                        f"{function.__qualname__} makes a call that is tried again, without an idempotency_key"
                        + (": it is refused at run time" if refused else "")
                    ),
                    way_out=(
                        "pass idempotency_key=, such as that of the job or order; a call that only reads is"
                        f" known by its name: {', '.join(_READS[:4])}, ..."
                    ),
                )


def _repeated(call: Call) -> tuple[Dependency, object] | None:
    """The dependency that a call goes to with retries, and the function it calls, if that can be seen."""
    if isinstance(call.owner, Dependency) and isinstance(call.node.func, ast.Attribute):
        dependency, target = call.owner, None
        if call.node.func.attr != "call":
            return None
    elif isinstance(call.thing, FunctionType):
        found = _decorating(call.thing)
        if found is None:
            return None
        dependency, target = found, call.thing
    else:
        return None
    retry = dependency.retry
    return None if retry is None or retry.attempts == 1 else (dependency, target)


def _decorating(function: FunctionType) -> Dependency | None:
    """The dependency that a function was decorated with."""
    if not hasattr(function, "__wrapped__"):
        return None
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, Dependency):
            return cell.cell_contents
    return None


def _has_key(node: ast.Call) -> bool:
    # `**options` may bring it.
    return any(keyword.arg in ("idempotency_key", None) for keyword in node.keywords)


def _reads(call: Call, target: object) -> bool:
    if target is not None:
        name = getattr(target, "__name__", "")
    else:
        first = call.node.args[0] if call.node.args else None
        name = first.attr if isinstance(first, ast.Attribute) else getattr(first, "id", "")
    return str(name).strip("_").lower().startswith(_READS)


def many_retries(seen: Seen) -> Iterator[Hit]:
    """A worker that tries for long holds its place, its lease and its stop; who gave the work can wait better."""
    for guarded, retry in _retries(seen):
        attempts = retry.attempts
        if (attempts is None and retry.total is None) or (attempts or 0) > _MOST_RETRIES + 1:
            how = "without limit" if attempts is None else f"{attempts - 1} times"
            yield Hit(
                paths=seen.paths(guarded),
                about=guarded.name,
                text=f"a call is tried again {how} in the worker; {_MOST_RETRIES} is plenty",
                way_out=(
                    "lower attempts, and let the job fail: its engine tries again later, on any machine"
                ),
            )


def long_waits(seen: Seen) -> Iterator[Hit]:
    """A wait in the worker is time in which neither this work nor any other is done there."""
    for guarded, retry in _retries(seen):
        last = min(retry.attempts or 1000, 1000) - 1
        if last < 1:
            continue
        backoff = retry.backoff
        longest = min(backoff.base(last) * (1 + backoff.jitter), backoff.maximum)
        if longest > _LONGEST_WAIT:
            yield Hit(
                paths=seen.paths(guarded),
                about=guarded.name,
                text=f"it waits up to {longest:.3g} s between two attempts; {_LONGEST_WAIT:g} s is the most that should be waited in a worker",
                way_out="lower the backoff's maximum, or raise FailWithRetry(retry_in=...) in the job",
            )


def _retries(seen: Seen) -> Iterator[tuple[Guarded, RetryPolicy]]:
    for guarded in seen.guarded:
        if guarded.retry is not None:
            yield guarded, guarded.retry


def blind_breaker(seen: Seen) -> Iterator[Hit]:
    """A breaker that counts refusals of one bad order as failures stops the good orders too."""
    everything = BreakerPolicy().on
    for guarded in seen.guarded:
        dependency = guarded.guard
        if not isinstance(dependency, Dependency) or dependency.breaker is None:
            continue
        breaker, retry = dependency.breaker, dependency.retry
        if retry is not None and retry.on != everything and breaker.on == everything and breaker.neutral == ():  # fmt: skip
            yield Hit(
                paths=seen.paths(guarded),
                about=guarded.name,
                text="its retry names the errors that are the other side's fault, and its breaker counts every error",
                way_out="give the breaker the same on=, or say which errors are neutral",
            )
