"""Job: one piece of work, as it is given to an engine and as a worker gets it.

Floor: the lowest of this room. The rules: variables are a JSON object; a key is text, whatever the engine counts in; three
numbers are kept apart: `retries` (failures that are still allowed), `attempt` (runs that counted) and `deliveries` (runs
since the last one of which anything was heard). They follow job workers that count them as one and then cannot tell a
deploy from a failure (riverqueue/river#1290, oban-bg/oban#476) or a crash loop from a slow job (camunda/camunda#5655).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import attrs
from attrs.validators import optional

from actors.errors import shown
from actors.jobs.errors import LeaseLost, NotStorable, NotSupported
from actors.options import OptionError, checked, count, seconds

if TYPE_CHECKING:
    from actors.jobs.engine import Engine  # noqa: TC004 - attrs does not resolve it

__all__ = [
    "LONGEST_WAIT",
    "MAX_BYTES",
    "MOST_RETRIES",
    "Job",
    "Lease",
    "NewJob",
    "decode",
    "encode",
    "key_of",
]

MAX_BYTES: Final = 4_000_000
"""What variables may take as JSON text, unless an engine says otherwise."""
LONGEST_WAIT: Final = 1e9
"""Seconds, more than thirty years: databases can count so far, and nobody waits for longer."""
MOST_RETRIES: Final = 2**31 - 1
_LONGEST_TYPE: Final = 500
_LONGEST_TEXT: Final = 2000
"""Bytes: what a database can still look up by."""


# Made once: the functions of the module make one for each text.
_WRITER: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
_READER: Final = json.JSONDecoder()


class Lease(NamedTuple):
    """The right to a job for some time. Each claim makes a new one, and only the newest counts."""

    key: str
    token: str
    """Opaque: equal or not, nothing else."""


def key_of(engine: str, key: str, created: int) -> str:
    """The idempotency key of a job that was given none.

    Args:
        created: when it was put in, in milliseconds. A database that was made anew, or restored from a backup, gives numbers again that
            other jobs had. Who knows their keys would take the new job for one of those, and answer with what was done then.
    """
    return f"{engine}/{key}-{created:x}"


def encode(variables: object, what: str, limit: int = MAX_BYTES) -> str:
    """The JSON text of an object of variables.

    Raises:
        NotStorable: it is no object, holds what JSON has not (NaN, bytes, a set), or is too large.
    """
    if not isinstance(variables, Mapping):
        raise NotStorable(
            f"{what} must be a mapping of names to values, not {_short(shown(variables))}"
        )
    named = dict(cast("Mapping[object, object]", variables))
    for name in named:
        if not isinstance(name, str):
            raise NotStorable(f"the names in {what} must be texts, not {_short(shown(name))}")
    try:
        text = _WRITER.encode(named)
        size = len(text.encode("utf-8"))  # fails for half a character, which no database takes
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStorable(f"{what} cannot be written as JSON: {error}") from error
    if size > limit:
        raise NotStorable(
            f"{what} takes {size:,} bytes as JSON, more than the {limit:,} allowed:"
            " store it elsewhere and pass where it is"
        )
    return text


def decode(text: object) -> dict[str, Any]:
    """The variables that a stored text holds.

    Raises:
        NotStorable: it holds none; somebody else wrote it.
    """
    try:
        value: object = _read(cast(str, text))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStorable(f"its stored variables are not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotStorable(f"its stored variables are not a JSON object: {_short(repr(value))}")
    return cast("dict[str, Any]", value)


def _read(text: str) -> object:
    try:
        value, end = _READER.raw_decode(text)
        if end == len(text):  # what we have written has nothing around it
            return value
    except (TypeError, ValueError):
        pass  # somebody else has
    return json.loads(text)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _texts(most: int) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, str) or not value:
            raise OptionError(
                f"{field.name} must be a text that is not empty, not {_short(shown(value))}",
                option=field.name,
            )
        try:
            size = len(value.encode("utf-8"))
        except UnicodeEncodeError:
            raise OptionError(
                f"{field.name} holds half a character, which cannot be stored: {_short(ascii(value))}",
                option=field.name,
            ) from None
        if size > most:
            raise OptionError(
                f"{field.name} must be {most:,} bytes at most, not {size:,}: jobs are looked up by it;"
                " use a digest of what is longer",
                option=field.name,
            )

    return check


def _whole(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise OptionError(
            f"{field.name} must be a whole number of 64 bits, not {_short(shown(value))}",
            option=field.name,
        )


@checked()
@attrs.frozen
class NewJob:
    """A job to be enqueued: `NewJob("charge", {"order": 7})`."""

    type: str = attrs.field(validator=_texts(_LONGEST_TYPE))
    """Which workers take it."""
    variables: Mapping[str, object] = attrs.field(factory=dict[str, object])
    """A JSON object."""
    retries: int = attrs.field(default=3, validator=count, kw_only=True)
    """How often it may run and fail; the last failure makes it an incident."""
    priority: int = attrs.field(default=0, validator=_whole, kw_only=True)
    """Higher goes first."""
    delay: float = attrs.field(default=0.0, validator=seconds, kw_only=True)
    """Seconds before it may run."""
    unique: str | None = attrs.field(
        default=None, validator=optional(_texts(_LONGEST_TEXT)), kw_only=True
    )
    """At most one unfinished job of a type has this text; enqueuing another returns the one that is there."""
    idempotency_key: str | None = attrs.field(
        default=None, validator=optional(_texts(_LONGEST_TEXT)), kw_only=True
    )
    """What downstream systems see as the same piece of work; made from the engine's name and the job's key if not given."""

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.retries <= MOST_RETRIES:
            raise OptionError(
                f"retries must be 1 or more, since with 0 the job could not run, and {MOST_RETRIES:,} at most,"
                f" not {self.retries}",
                option="retries",
            )
        if self.delay > LONGEST_WAIT:
            raise OptionError(
                f"delay must be {LONGEST_WAIT:,.0f} seconds at most, thirty years, not {self.delay:g}",
                option="delay",
            )


@attrs.define(eq=False, kw_only=True)
class Job:
    """A job in the hands of a worker."""

    key: str
    type: str
    variables: dict[str, Any]
    """Its variables, or those of them that the worker asked for."""
    retries: int
    """How often it may still fail, this run included."""
    attempt: int
    """Which run this is, from 1; a run that was put off or interrupted does not count."""
    deliveries: int
    """Runs begun since anything was heard of one, this one included."""
    lease: Lease
    """Its right to be worked on here; renewed leases keep their token."""
    deadline: float
    """When the lease runs out unless renewed, by the engine's clock."""
    idempotency_key: str
    """Stable over all runs of this job, and no other job's: pass it to whatever must not act twice."""
    fence: int = 0
    """Grows with each claim of this job, for downstream systems that refuse older writers; 0 if the engine has no such number."""
    priority: int = 0
    snoozes: int = 0
    """How often it was put off on its own request."""
    worker: str = ""
    """The name and incarnation of whoever holds it."""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """What a workflow engine says about it beside its variables."""
    engine: Engine | None = attrs.field(default=None, repr=False)
    completed: bool = attrs.field(default=False, init=False)
    """True once a transaction of its own has completed it."""
    effects: dict[str, object] = attrs.field(factory=dict[str, object], init=False, repr=False)
    """What was done in this run under which idempotency key."""
    deciding: bool = attrs.field(default=False, init=False, repr=False)
    """True while a transaction of its own is under way: then it is this that hears first whether the lease was lost."""

    async def transaction(self, fn: Callable[..., Any], *args: object) -> Any:
        """Do the handler's writes and complete the job, both or neither: `await job.transaction(book, amount)`.

        `fn(connection, *args)` runs in a transaction of the engine's own database; what it returns, a mapping or None, is
        what the job is completed with. Effects in the same database then happen exactly once: a worker whose lease was lost
        is refused before `fn` runs. What the handler does afterwards changes nothing.

        Raises:
            LeaseLost: the job is no longer ours; nothing was written.
            NotSupported: the engine has no transactions to share.
            NotStorable: what `fn` returned cannot be stored; nothing was written.
        """
        if self.engine is None:
            raise NotSupported("none", "transactions")
        if self.completed:
            raise LeaseLost(self.key)
        self.deciding = True
        try:
            result = await self.engine.transact(self.lease, fn, *args)
            self.completed = True
        finally:
            self.deciding = False
        return result
