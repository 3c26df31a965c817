"""Every exception of jobs that is not a handler's own word, built from fields.

Floor: the lowest of this room. What a handler raises to say what becomes of its job stands in `actors.errors`, where the armour
sees it, too.
"""

from __future__ import annotations

from actors.errors import ActorError, IncidentError, Rejected

__all__ = [
    "AmbiguousAttempt",
    "DatabaseMoved",
    "EngineUnreachable",
    "KeyBusy",
    "KeyReused",
    "LeaseLost",
    "NoRetriesLeft",
    "NoSuchJob",
    "NotStorable",
    "NotSupported",
    "ResultNotStored",
    "SchemaTooNew",
    "StoredFailure",
]


class LeaseLost(ActorError):
    """The job is no longer this worker's, so nothing was written. Let the handler end; somebody else has the job."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the lease of job {key} was lost: it ran out and another worker has the job, or the job was cancelled;"
            " nothing was written"
        )
        self.key = key


class NotStorable(ActorError, ValueError):
    """These variables cannot be stored: they are no JSON object, or too large. Correct what makes them."""


class NotSupported(ActorError):
    """This engine has no such feature. Use one that has, or do without."""

    def __init__(self, engine: str, what: str) -> None:
        super().__init__(f"engine {engine!r} does not support {what}")
        self.engine = engine
        self.what = what


class NoSuchJob(ActorError, LookupError):
    """The engine has no job of this key in the state that the call is about."""

    def __init__(self, key: str, *, wanted: str) -> None:
        super().__init__(f"there is no job {key!r} that is {wanted}")
        self.key = key
        self.wanted = wanted

    def __str__(self) -> str:
        return str(self.args[0])


class NoRetriesLeft(ActorError):
    """An incident cannot be resolved while its job has no retries: it could not run. Give it some first."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"job {key} has no retries left, so resolving its incident would lead nowhere:"
            " call set_retries(key, n) first, or resolve(key, retries=n)"
        )
        self.key = key


class SchemaTooNew(ActorError):
    """The database was written by a later version of this library. Update the library; nothing was changed."""

    def __init__(self, where: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{where} has schema version {found}, and this library knows versions up to {known}:"
            " update it. Nothing was changed."
        )
        self.where = where
        self.found = found
        self.known = known


class DatabaseMoved(ActorError):
    """The file of an engine was deleted, or another one stands in its place. What was written to it would be seen by nobody."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} was deleted or replaced while it was open: what is written to the old file would be lost with this"
            " process. Nothing was done. Put the file back where it was, or restart the process to work with what is there"
        )
        self.path = path


class EngineUnreachable(ActorError, ConnectionError):
    """The database of an engine cannot be reached, or the connection was lost; `unsure` tells which.

    A job worker goes on asking by itself. Whoever called the engine tries again later; if it is unsure, what was asked for may
    have been done, and only what may happen twice, or has a `unique` text, is safe to be asked for again.
    """

    def __init__(self, where: str, reason: str, *, unsure: bool = False) -> None:
        if unsure:
            text = (
                f"the connection to {where} was lost ({reason}): what was being done then may or may not"
                " be done. The next call connects again."
            )
        else:
            text = (
                f"{where} cannot be reached ({reason}): nothing was done. Check that the server runs there, takes"
                " connections, and has this database and user. The next call tries again."
            )
        super().__init__(text)
        self.where = where
        self.reason = reason
        self.unsure = unsure


class KeyBusy(Rejected):
    """Somebody else is at work under this idempotency key. Come back in `retry_after` seconds."""

    def __init__(self, key: str, *, owner: str, retry_after: float) -> None:
        super().__init__(
            f"idempotency key {key!r} is held by {owner} for another {retry_after:.3g} s",
            name=key,
            retry_after=retry_after,
        )
        self.owner = owner


class KeyReused(IncidentError):
    """An idempotency key was used again with another payload, or in one run of a job for other work: one of the two is a bug."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"idempotency key {key!r} was first used with another payload or for other work, so this is not a repetition."
            " Nothing was done. Give each piece of work its own key, as once_for(job, ..., step='...') does."
        )
        self.key = key


class AmbiguousAttempt(IncidentError):
    """An earlier attempt began and never told its end, so whether it acted is not known. A person has to look."""

    def __init__(self, key: str, *, owner: str, claimed_at: float) -> None:
        super().__init__(
            f"an attempt under idempotency key {key!r} by {owner} began and never ended: it may have acted or not."
            " Find out, then forget the key, or allow running again with ambiguous='run'."
        )
        self.key = key
        self.owner = owner
        self.claimed_at = claimed_at


class StoredFailure(IncidentError):
    """The final failure of an earlier attempt under this key, told again. Nothing was executed this time."""

    replayed = True
    """Always: a fresh failure is never told by this error."""

    def __init__(self, key: str, reason: str, *, at: float) -> None:
        super().__init__(f"under idempotency key {key!r} it failed for good before: {reason}")
        self.key = key
        self.reason = reason
        self.at = at
        """When it failed, by the store's clock."""


class ResultNotStored(ActorError):
    """The work was done, but its record could not be written. The job is not done: it may act again."""

    def __init__(self, key: str, *, seconds: float) -> None:
        super().__init__(
            f"the result under idempotency key {key!r} could not be stored within {seconds:g} s;"
            " the work was done and may be done again"
        )
        self.key = key
