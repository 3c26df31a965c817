"""Outcomes: what becomes of a job, as a value.

Floor: above job. Pure: an error, the job and the randomness of a wait in, an outcome out; engines carry outcomes out by
`effect`, which is the one table of what each does to the numbers of a job, or by `after`, which applies it to a row.

| the handler | retries | attempt | deliveries | then |
|---|---|---|---|---|
| returns | | | | completed |
| raises an `Exception` | one less | | 0 | again after its backoff, or an incident when none is left |
| raises `FailWithRetry` | | one less | 0 | again at that time |
| raises `BpmnError` | | | | errored, with its code |
| raises `IncidentError` | | | 0 | incident |
| raises `PoisonMessage` | | | | incident, and set aside |
| meets an open breaker or a full bulkhead | | one less | 0 | again when it may be back |
| is interrupted by a stop | | one less | one less | again at once |
| goes down with its worker | | | | again at once |
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from operator import index
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from actors.errors import BpmnError, FailWithRetry, IncidentError, PoisonMessage, shown
from actors.jobs.errors import NotStorable
from actors.jobs.job import LONGEST_WAIT, MOST_RETRIES, Job, encode
from actors.resilience.backoff import Backoff
from actors.resilience.retries import RetryPolicy
from actors.resilience.verdict import HandBack, RetryHere, judge, leaves, retry_after

__all__ = [
    "Completed",
    "Effect",
    "Errored",
    "Failed",
    "Incident",
    "Outcome",
    "Poisoned",
    "PutBack",
    "State",
    "Why",
    "after",
    "effect",
    "label",
    "outcome_of_error",
    "outcome_of_result",
    "the_wait",
]

_LONGEST: Final = 2000
"""Characters of a reason that are kept."""
_REFUSED_FOR: Final = 0.5
"""Seconds at least that a job waits after a breaker or bulkhead has let nothing through."""


class State(StrEnum):
    """Where a job is: in exactly one of these."""

    SCHEDULED = "scheduled"
    """not due yet"""
    READY = "ready"
    """whoever asks next gets it"""
    ACTIVE = "active"
    """a worker has it, until its lease runs out"""
    COMPLETED = "completed"
    """done, with a result"""
    ERRORED = "errored"
    """ended with a business outcome"""
    INCIDENT = "incident"
    """a person has to look"""
    CANCELLED = "cancelled"
    """ended by an operator"""


class Why(StrEnum):
    """Why a job is put back although it did not fail."""

    SNOOZED = "snoozed"
    """its handler asked for it"""
    REFUSED = "refused"
    """a breaker or a bulkhead that it needs let nothing through"""
    INTERRUPTED = "interrupted"
    """its worker was stopped"""
    CRASHED = "crashed"
    """its worker failed while it ran, perhaps because of it"""


@attrs.frozen
class Completed:
    """Done, with these variables, as JSON text."""

    variables: str = "{}"


@attrs.frozen
class Failed:
    """It failed: `retries` are left; if that is none, it is an incident."""

    reason: str
    # What looks like a number is made one here, where one handler's slip is one job's failure: an engine would meet it in the
    # midst of a batch, again and again.
    retries: int = attrs.field(converter=index)
    retry_in: float = attrs.field(default=0.0, converter=float)
    one_less: bool = False
    """True if `retries` is one less than what it was claimed with. An operator may have given it others since: then it is one less than
    those, in an engine that knows."""


@attrs.frozen
class PutBack:
    """It runs again, and that is not its fault."""

    why: Why
    reason: str = ""
    retry_in: float = attrs.field(default=0.0, converter=float)


@attrs.frozen
class Errored:
    """A business outcome, for the process to route."""

    code: str
    message: str = ""
    variables: str = "{}"


@attrs.frozen
class Incident:
    """A person has to look before it runs again."""

    reason: str


@attrs.frozen
class Poisoned:
    """As an incident, and its payload is set aside: it can never succeed, or kills whoever takes it."""

    reason: str


Outcome: TypeAlias = Completed | Failed | PutBack | Errored | Incident | Poisoned


_DONE: Final = Completed()


def outcome_of_result(result: object, limit: int) -> Outcome:
    """What a handler's return means: None or a mapping of variables; all else is a bug that another run would repeat."""
    if result is None:
        return _DONE
    try:
        return Completed(encode(result, "what the handler returned", limit))
    except NotStorable as error:
        return Incident(_cut(f"it ran to its end, but {error}"))


def outcome_of_error(
    error: Exception, job: Job, *, backoff: Backoff, random: Random, now: datetime, limit: int
) -> Outcome:
    """What an exception means; of a group, the most severe of its leaves decides."""
    found = list(leaves(error))
    for leaf in found:
        if isinstance(leaf, PoisonMessage):
            return Poisoned(_cut(str(leaf) or "it says so itself"))
    for leaf in found:
        if isinstance(leaf, IncidentError):
            return Incident(_cut(str(leaf) or "it says so itself"))
    for leaf in found:
        if isinstance(leaf, BpmnError):
            return _errored(leaf, limit)
    if all(isinstance(leaf, FailWithRetry) for leaf in found):
        waits = [(_wait(leaf, now), leaf) for leaf in found if isinstance(leaf, FailWithRetry)]
        wait, longest = max(waits, key=lambda pair: pair[0])
        if longest.retries is not None:
            return Failed(_cut(str(longest)), longest.retries, wait)
        return PutBack(Why.SNOOZED, _cut(str(longest)), wait)
    rules = RetryPolicy(on=(Exception,), attempts=None, backoff=backoff)
    verdict = judge(
        error,
        rules=rules,
        attempt=max(job.attempt, 1),
        elapsed=0.0,
        left=float("inf"),
        random=random,
        hint=retry_after(error),
    )
    if isinstance(verdict, HandBack):
        # A place may be free at once, but to ask for it again and again would be a loop through the engine.
        wait = max(_REFUSED_FOR, verdict.retry_in)  # in this order: what is no number is less
        return PutBack(Why.REFUSED, _cut(verdict.why), wait)
    delay = verdict.delay if isinstance(verdict, RetryHere) else backoff.delay(1, random)
    return Failed(_cut(shown(error)), max(job.retries - 1, 0), delay, one_less=True)


def _errored(error: BpmnError, limit: int) -> Outcome:
    try:
        text = encode(error.variables, "the variables of its BpmnError", limit)
    except NotStorable as problem:
        return Incident(_cut(f"it raised {error}, but {problem}"))
    return Errored(_cut(str(error.code)), _cut(str(error.message)), text)  # many codes are numbers


def _wait(error: FailWithRetry, now: datetime) -> float:
    if error.retry_at is not None:
        return max(0.0, (error.retry_at - now).total_seconds())
    return float(error.retry_in or 0.0)


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")  # an error may quote half a character
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def label(outcome: Outcome) -> str:
    """The word for it in metrics and events."""
    if isinstance(outcome, PutBack):
        return str(outcome.why)
    if isinstance(outcome, Failed):
        return "failed" if outcome.retries else "incident"
    return type(outcome).__name__.lower()


class Effect(NamedTuple):
    """What an outcome does to the numbers of a stored job, before they are known; None leaves a column as it is."""

    state: State
    retries: int | None = None
    attempt: int = 0
    """Is added."""
    deliveries: int | None = 0
    """Is added; None begins again at 0."""
    snoozes: int = 0
    """Is added."""
    retry_in: float | None = None
    """Seconds until it is due."""
    result: str | None = None
    error: str | None = None
    error_code: str | None = None
    finished: bool = False
    poison: bool = False


def effect(outcome: Outcome) -> Effect:
    """The row of the table above for this outcome."""
    if isinstance(outcome, Completed):
        return Effect(State.COMPLETED, result=outcome.variables, finished=True)
    if isinstance(outcome, Errored):
        return Effect(
            State.ERRORED,
            result=outcome.variables,
            error=outcome.message,
            error_code=outcome.code,
            finished=True,
        )
    reason = outcome.reason
    if isinstance(outcome, Poisoned):
        return Effect(State.INCIDENT, error=reason, poison=True)
    if isinstance(outcome, Incident):
        return Effect(State.INCIDENT, error=reason, deliveries=None)
    if isinstance(outcome, Failed) and not outcome.retries:
        return Effect(State.INCIDENT, error=reason, retries=0, deliveries=None)
    state = State.SCHEDULED if outcome.retry_in > 0 else State.READY
    wait = the_wait(outcome.retry_in)
    if isinstance(outcome, Failed):
        left = min(outcome.retries, MOST_RETRIES)
        return Effect(state, error=reason, retries=left, deliveries=None, retry_in=wait)
    if outcome.why is Why.CRASHED:
        return Effect(state, error=reason, retry_in=wait)
    if outcome.why is Why.INTERRUPTED:
        return Effect(state, error=reason, attempt=-1, deliveries=-1, retry_in=wait)
    snoozes = int(outcome.why is Why.SNOOZED)
    return Effect(state, error=reason, attempt=-1, deliveries=None, snoozes=snoozes, retry_in=wait)


def the_wait(seconds: float) -> float:
    """A wait that can be stored: one that is too long, or no number, would hold up its batch."""
    return min(seconds, LONGEST_WAIT) if seconds > 0 else 0.0


def after(outcome: Outcome, row: Mapping[str, Any], now: float) -> dict[str, Any]:
    """What an outcome changes in a stored job: the columns and their new values."""
    does = effect(outcome)
    changes: dict[str, Any] = {"state": does.state}
    for column in ("retries", "result", "error", "error_code"):
        if (value := getattr(does, column)) is not None:
            changes[column] = value
    for column in ("attempt", "snoozes"):
        if more := getattr(does, column):
            changes[column] = max(row[column] + more, 0)
    if does.deliveries is None:
        changes["deliveries"] = 0
    elif does.deliveries:
        changes["deliveries"] = max(row["deliveries"] + does.deliveries, 0)
    if does.retry_in is not None:
        changes["due_at"] = now + does.retry_in
    if does.finished:
        changes["finished_at"] = now
    if does.state is State.INCIDENT:
        changes["incident_at"] = now
    return changes
