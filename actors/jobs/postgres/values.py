"""Values: between what a worker says and what a statement is given, both ways.

Floor: above steps. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from actors.errors import NotStorable
from actors.jobs.engine import Settlement
from actors.jobs.job import Job, Lease, NewJob, encode
from actors.jobs.outcomes import Completed
from actors.jobs.poison import PoisonJob

__all__ = [
    "Prepared",
    "aside",
    "completions",
    "held",
    "leases_of",
    "numbers",
    "arrays",
    "prepare",
    "sorted_out",
]

Prepared = tuple[NewJob, str]
_NOTHING: Final = "{}"
_LONGEST: Final = 1000
"""Bytes of a text that is indexed."""


def prepare(jobs: Iterable[NewJob], limit: int) -> list[Prepared]:
    """The jobs with their variables as text. Raises `NotStorable` before anything was done."""
    found: list[Prepared] = []
    for job in jobs:
        _text("type", job.type, _LONGEST)
        if job.unique is not None:
            _text("unique text", job.unique, _LONGEST)
        if job.idempotency_key is not None:
            _text("idempotency key", job.idempotency_key, limit)
        found.append((job, encode(job.variables, f"the variables of a {job.type!r} job", limit)))
    return found


def _text(what: str, text: str, longest: int) -> None:
    size = len(text.encode("utf-8"))
    if "\0" in text:
        raise NotStorable(
            f"the {what} {text[:80]!r} of a job holds what PostgreSQL has no character for"
        )
    if size > longest:
        raise NotStorable(
            f"the {what} {text[:80]!r}... of a job takes {size:,} bytes, more than {longest:,}"
        )


def numbers(values: Iterable[object]) -> str:
    """An array of whole numbers as PostgreSQL reads it, which is quicker made than the driver's own."""
    return f"{{{','.join(map(str, values))}}}"


def held(lease: Lease) -> tuple[int, int]:
    """What identifies a claim; nothing has the id 0."""
    try:
        key, token = int(lease.key), int(lease.token)
    except ValueError:
        return 0, 0
    same = (str(key), str(token)) == lease and max(abs(key), abs(token)) < 2**63
    return (key, token) if same else (0, 0)


def sorted_out(
    settlements: Sequence[Settlement],
) -> tuple[dict[Lease, Settlement], dict[Lease, Settlement], set[Lease]]:
    """Completions, other outcomes, and leases that are settled a second time, which is always too late."""
    done: dict[Lease, Settlement] = {}
    others: dict[Lease, Settlement] = {}
    twice: set[Lease] = set()
    for one in settlements:
        lease = one.lease
        if lease in done or lease in others:
            twice.add(lease)
        elif isinstance(one.outcome, Completed):
            done[lease] = one
        else:
            others[lease] = one
    return done, others, twice


def completions(done: dict[Lease, Settlement]) -> dict[str, object]:
    """What completions give to a statement, in the order in which their rows are to be locked."""
    rows = sorted((*held(lease), _result(one)) for lease, one in done.items())
    results = [row[2] for row in rows]
    if all(text == _NOTHING for text in results):
        return {**arrays(rows), "results": None}
    return {**arrays(rows), "results": results}


def _result(one: Settlement) -> str:
    assert isinstance(one.outcome, Completed)
    return one.outcome.variables


def arrays(rows: Sequence[tuple[Any, ...]]) -> dict[str, object]:
    """Two arrays of the first two of each row: ids and tokens."""
    return {"ids": numbers(row[0] for row in rows), "tokens": numbers(row[1] for row in rows)}


def leases_of(rows: Iterable[Sequence[Any]]) -> frozenset[Lease]:
    """The leases whose ids and tokens come first in these rows."""
    return frozenset(Lease(str(key), str(token)) for key, token, *_ in rows)


def aside(job: Job, why: str, now: float) -> PoisonJob:
    """What was set aside of a job that was claimed and cannot be read."""
    return PoisonJob(
        key=job.key,
        type=job.type,
        reason=why,
        deliveries=job.deliveries,
        worker=job.worker,
        variables=job.headers["variables"],
        at=now,
    )
