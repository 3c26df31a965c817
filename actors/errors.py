"""Every exception of `actors`, built from fields.

Floor: the lowest; this file imports nothing of the project.
The rule: each class says whose fault it is and what to do, and a failed send hands its message back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, SupportsIndex, cast

import trio

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "ActorError",
    "ActorStopped",
    "AskCycle",
    "AskTimeout",
    "BpmnError",
    "BreakerOpen",
    "Built",
    "BulkheadFull",
    "DeadlineExceeded",
    "FailWithRetry",
    "HandlerFailed",
    "IncidentError",
    "MailboxFull",
    "MissingIdempotencyKey",
    "NameTaken",
    "NoDeadline",
    "NoSuchActor",
    "NotEnoughTime",
    "PoisonMessage",
    "Rejected",
    "SendError",
    "WouldWaitForItself",
    "noted",
    "shown",
]


class Built(Exception):
    """Base of every exception that is built from fields, so that it can be copied, also into another process."""

    def __reduce__(self) -> tuple[object, ...]:
        # A copy is made of text and fields: the constructors want more than the text.
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[Built], args: tuple[object, ...]) -> Built:
    made = kind.__new__(kind, *args)
    made.args = args  # an OSError sets them only in its constructor
    return made


class ActorError(Built):
    """Base of the errors below; never raised itself."""


class SendError(ActorError):
    """A message was not delivered; it is handed back as `message`."""

    def __init__(self, text: Callable[[], str], *, path: str, message: object) -> None:
        super().__init__(_Later(text))
        self.path = path
        self.message = message


class MailboxFull(SendError):
    """The receiver is slower than its senders. Wait with `await ref.tell()`, or enlarge the mailbox."""

    def __init__(self, path: str, message: object, *, queued: int, capacity: float) -> None:
        super().__init__(
            lambda: (
                f"mailbox of {path} is full ({queued} of {capacity:g}), so {_brief(message)} was not"
                " queued. Wait for room with 'await ref.tell()', or give it a larger MailboxSpec."
            ),
            path=path,
            message=message,
        )
        self.queued = queued
        self.capacity = capacity


_BRIEF = 60
_WAYS_OUT = {
    "disabled": "Enable it",
    "removed": "Add it again",
    "without replicas": "Scale it up",
}


class ActorStopped(SendError):
    """The receiver has ended for good (or is disabled), and nobody will read this message.

    With `why="interrupted"` it was being handled when the run was stopped: some of it may have been done.
    """

    def __init__(self, path: str, message: object, *, why: str) -> None:
        def text() -> str:
            if why == "interrupted":
                return (
                    f"{path} was stopped while it worked on {_brief(message)}; there is no answer."
                    " Before you send it again: some of it may have been done."
                )
            return (
                f"{path} is {why}, so {_brief(message)} was not delivered."
                f" {_WAYS_OUT.get(why, 'Start it again')}, or route to another replica."
            )

        super().__init__(text, path=path, message=message)
        self.why = why


class HandlerFailed(ActorError):
    """The receiver failed while it worked on this ask; its error is the `__cause__`."""

    def __init__(self, path: str, message: object, *, error: BaseException) -> None:
        super().__init__(
            _Later(
                lambda: (
                    f"{path} failed with {shown(error)} while handling {_brief(message)};"
                    " there is no answer."
                )
            )
        )
        self.path = path
        self.message = message
        self.error = error
        self.__cause__ = error


class AskTimeout(ActorError, trio.TooSlowError):
    """No answer came in time. The message may still be handled; its answer will be discarded."""

    def __init__(self, path: str, message: object, *, timeout: float, doing: str) -> None:
        super().__init__(
            _Later(
                lambda: (
                    f"ask({_brief(message)}) to {path} got no answer within {timeout:g} s; {doing}."
                    " Raise timeout=, or find out what holds the handler up."
                )
            )
        )
        self.path = path
        self.message = message
        self.timeout = timeout


class AskCycle(ActorError):
    """This ask closes a circle of actors waiting for each other; it would never be answered."""

    def __init__(self, circle: tuple[str, ...]) -> None:
        super().__init__(
            f"ask would wait for itself: {' -> '.join(circle)}."
            " Use tell() in one place, or answer later with ctx.answer_later()."
        )
        self.circle = circle


class WouldWaitForItself(ActorError):
    """A run asked to be stopped and waited for its own end. Use `ctx.stop()`, which does not wait."""

    def __init__(self, path: str, verb: str) -> None:
        super().__init__(
            f"{path} would wait for itself: '{verb}' waits for its end, and it is called from inside"
            " it. Call ctx.stop() and return, or let another task do it."
        )
        self.path = path
        self.verb = verb


class NameTaken(ActorError):
    """Somebody else holds the name; a name has one owner at a time."""

    def __init__(self, name: str, *, owner: str) -> None:
        super().__init__(
            f"the name {name!r} belongs to {owner}; it is free when that run has ended."
        )
        self.name = name
        self.owner = owner


class NoSuchActor(ActorError, LookupError):
    """Nothing has this path or name. The message lists the nearest ones."""

    def __init__(self, name: str, *, candidates: tuple[str, ...] = (), why: str = "") -> None:
        hint = f" Did you mean {', '.join(candidates)}?" if candidates else ""
        super().__init__(why or f"there is no actor {name!r} in this tree.{hint}")
        self.name = name
        self.candidates = candidates

    def __str__(self) -> str:
        return str(self.args[0])


class Rejected(ActorError):
    """A guard refused the call, which was not made. It says nothing about the caller; come back in `retry_after`."""

    def __init__(self, text: str, *, name: str, retry_after: float) -> None:
        super().__init__(text)
        self.name = name
        """Which guard."""
        self.retry_after = retry_after
        """Seconds after which a call may be admitted."""


class BreakerOpen(Rejected):
    """The dependency behind this breaker is failing. Hand the work back for `retry_after` seconds."""

    def __init__(self, name: str, *, retry_after: float, trying: bool, why: str) -> None:
        state = "is half-open and its trials are taken" if trying else "is open"
        super().__init__(
            f"breaker {name} {state} ({why}); the call was not made."
            f" It may be admitted in {retry_after:.3g} s.",
            name=name,
            retry_after=retry_after,
        )
        self.trying = trying
        """True if it is half-open and others are already trying."""
        self.why = why


class BulkheadFull(Rejected):
    """As many calls as allowed are running and waiting. Hand the work back, or raise limit or max_waiting."""

    def __init__(
        self,
        name: str,
        *,
        limit: int,
        waiting: int,
        waited: float | None,
        retry_after: float,
        places: int = 1,
        most: int | None = None,
    ) -> None:
        how = "no place" if places == 1 else f"not {places} places at once"
        how += " came free" if waited is None else f" came free within {waited:g} s"
        state = f"is full ({limit} running, {waiting} waiting), {how}"
        most = limit if most is None else most
        if 0 < most < places:
            state = f"has {most} places{' at most' * (most > limit)}, and {places} are wanted"
        super().__init__(
            f"bulkhead {name} {state}; the call was not made.",
            name=name,
            retry_after=retry_after,
        )
        self.limit = limit
        self.waiting = waiting
        self.waited = waited
        """How long it waited, or None if it was refused at once."""
        self.places = places
        """How many it asked for."""


class DeadlineExceeded(ActorError, trio.TooSlowError):
    """A deadline of one's own has passed and the work was cancelled."""

    def __init__(self, seconds: float, *, what: str = "") -> None:
        super().__init__(
            f"{what or 'the work'} took longer than its {seconds:g} s and was cancelled."
        )
        self.seconds = seconds
        self.what = what


class NotEnoughTime(Rejected, trio.TooSlowError):
    """Less time is left than the work is declared to need, so it was not begun. Hand it back: later it has all its time again."""

    def __init__(self, what: str, *, left: float, needed: float) -> None:
        super().__init__(
            f"{what or 'the work'} needs {needed:g} s at least and only {left:.3g} s are left; it was not begun.",
            name=what,
            retry_after=1.0,
        )
        self.left = left
        self.needed = needed


class NoDeadline(ActorError):
    """A guarded call was made without any deadline, which is a bug. Give the dependency a timeout."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} was called without any deadline: it may hang for ever."
            " Give it timeout=, or call it inside 'with deadline(seconds):'."
        )
        self.name = name


class MissingIdempotencyKey(ActorError):
    """A call that must not happen twice would be retried without a key that lets the other side see so."""

    def __init__(self, what: str, attempts: object) -> None:
        super().__init__(
            f"{what} is not idempotent, so it may not be retried ({attempts} attempts) without idempotency_key=."
            " Pass a key that is the same for every try, such as job.idempotency_key, or allow 1 attempt."
        )
        self.what = what


class PoisonMessage(ActorError):
    """This message or job can never succeed, whoever tries. Raise it to set it aside for a person."""


class FailWithRetry(ActorError):
    """Raise it in a job's handler to have the job again later, without using up a retry.

    Args:
        reason: why, for people.
        retry_in: seconds from now; at once if neither this nor `retry_at` is given.
        retry_at: a time with a zone, instead.
        retries: what the job may still fail from now on; without, as many as before.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        retry_in: float | None = None,
        retry_at: datetime | None = None,
        retries: int | None = None,
    ) -> None:
        if retry_in is not None and retry_at is not None:
            raise ValueError("give retry_in or retry_at, not both")
        if retry_in is not None and not 0 <= retry_in < float("inf"):
            raise ValueError(f"retry_in is a finite number of seconds, 0 or more, not {retry_in!r}")
        if retry_at is not None and retry_at.tzinfo is None:
            raise ValueError(f"retry_at needs a time zone, which {retry_at!r} does not have")
        if retries is not None and not (isinstance(retries, SupportsIndex) and retries >= 0):
            raise ValueError(f"retries must be a whole number, 0 or more, not {retries!r}")
        super().__init__(reason or "it asked to be tried again later")
        self.reason = reason
        self.retry_in = retry_in
        self.retry_at = retry_at
        self.retries = retries


class BpmnError(ActorError):
    """Raise it in a job's handler for a business outcome that the process routes by its `code`. No retry is used up."""

    def __init__(
        self, code: str, message: str = "", variables: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.variables = dict(variables or {})


class IncidentError(ActorError):
    """Raise it in a job's handler to stop the job at once and have a person look. Its retries stay as they are."""


def shown(value: object) -> str:
    """`repr(value)`, also of a value whose `repr` raises: a report about an error must not fail itself."""
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__qualname__}, whose repr raises {type(error).__name__}>"


def noted(error: BaseException, note: str) -> None:
    """Add `note` once; an error that refuses notes goes without."""
    with suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


class _Later:
    """A text that is made when somebody reads it.

    Most failed sends are caught, counted and never read, and to show a large message costs more than to handle it. A tree that
    is overloaded or stops has other things to do.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __str__(self) -> str:
        return self._make()

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, (str, _Later)) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return str, (str(self),)


def _brief(message: object) -> str:
    if type(message) in (str, bytes, bytearray):
        message = cast("str", message)[:_BRIEF]  # the rest would only be cut off again
    text = shown(message)
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 3]}..."
