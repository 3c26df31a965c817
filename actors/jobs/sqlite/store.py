"""Store: what workers do to the tables, as functions of an open transaction and the time.

Floor: above schema and engine. Nothing here commits, waits or reads a clock: whoever runs a function of this file does so
inside a transaction that has the write lock. So the engine in memory and the one in a file are the same code.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, Final

import attrs

from actors.jobs.engine import Claim, Enqueued, Exchange, Fired, Settlement, most_ahead, the_period
from actors.jobs.errors import LeaseLost, NotStorable
from actors.jobs.job import Job, Lease, NewJob, decode, encode, key_of
from actors.jobs.outcomes import Completed, Failed, Outcome, Poisoned, State, after
from actors.jobs.poison import PoisonJob
from actors.jobs.sqlite.database import lend

__all__ = ["Prepared", "enqueue", "exchange", "extend", "fire", "prepare", "set_aside", "transact"]

_LOST: Final = "it was handed out {} times and nothing was heard of it (worker lost, last {})"
Prepared = tuple[NewJob, str]


def prepare(jobs: Iterable[NewJob], limit: int) -> list[Prepared]:
    """The jobs with their variables as text. Raises `NotStorable` before anything was done."""
    return [
        (job, encode(job.variables, f"the variables of a {job.type!r} job", limit)) for job in jobs
    ]


def enqueue(db: sqlite3.Connection, now: float, jobs: Iterable[Prepared]) -> list[Enqueued]:
    """Insert jobs, except those whose unique text is taken."""
    done: list[Enqueued] = []
    cursor = db.cursor()
    cursor.row_factory = None  # the connection may be somebody else's, and so what it makes of rows
    for job, text in jobs:
        if job.unique is not None:
            there = cursor.execute(
                "SELECT id FROM jobs WHERE type = ? AND unique_text = ? AND finished_at IS NULL",
                (job.type, job.unique),
            ).fetchone()
            if there is not None:
                done.append(Enqueued(str(there[0]), created=False))
                continue
        state = State.SCHEDULED if job.delay > 0 else State.READY
        cursor.execute(
            "INSERT INTO jobs (type, state, priority, due_at, retries, variables, unique_text,"
            " idempotency_key, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                job.type,
                state,
                job.priority,
                now + job.delay,
                job.retries,
                text,
                job.unique,
                job.idempotency_key,
                now,
            ),
        )
        done.append(Enqueued(str(cursor.lastrowid), created=True))
    return done


def fire(
    db: sqlite3.Connection, now: float, schedule: str, every: float, offset: float, job: Prepared
) -> Fired:
    """Enqueue the job of the period that `now` is in, if it is the first to ask."""
    period, next_in = the_period(now, every, offset)
    changed = db.execute(
        "INSERT INTO job_schedules VALUES (?, ?) ON CONFLICT (name)"
        " DO UPDATE SET period = excluded.period"
        " WHERE excluded.period > period OR period > excluded.period + ?",
        (schedule, period, most_ahead(every)),
    ).rowcount
    key = enqueue(db, now, [job])[0].key if changed else None
    return Fired(key, next_in)


def exchange(
    db: sqlite3.Connection,
    now: float,
    name: str,
    settlements: Sequence[Settlement],
    claim: Claim | None,
) -> Exchange:
    """Settle, then claim."""
    refused = _settle_all(db, now, settlements)
    if claim is None:
        return Exchange(refused=refused)
    due, lapse = db.execute(_SOONEST, (claim.type, claim.type)).fetchone()
    soonest = min((time for time in (due, lapse) if time is not None), default=inf)
    late = soonest <= now
    jobs, poisoned = _claim(db, now, name, claim, late=late)
    if late:
        next_in = _next_in(db, now, claim.type)
    else:
        soonest = min(soonest, now + claim.lease) if jobs else soonest
        next_in = soonest - now if soonest < inf else None
    return Exchange(jobs=tuple(jobs), refused=refused, poisoned=tuple(poisoned), next_in=next_in)


_SOONEST: Final = (
    "SELECT (SELECT min(due_at) FROM jobs WHERE type = ? AND state = 'scheduled'),"
    " (SELECT min(lease_until) FROM jobs WHERE type = ? AND state = 'active')"
)
"""When a job falls due and when a lease ends. Mostly that is later, and then there are only ready ones to look at."""
_HELD: Final = "id = ? AND claims = ? AND state = 'active'"


def _held(lease: Lease) -> tuple[int, int]:
    """What identifies a claim; nothing has the id 0."""
    try:
        key, token = int(lease.key), int(lease.token)
    except ValueError:
        return 0, 0
    return (key, token) if max(abs(key), abs(token)) < 2**63 else (0, 0)


def _settle_all(
    db: sqlite3.Connection, now: float, settlements: Sequence[Settlement]
) -> frozenset[Lease]:
    """Settle; return what came too late."""
    done = [one for one in settlements if isinstance(one.outcome, Completed)]
    if len(done) > 1 and len(done) == len(settlements) and _complete_all(db, now, done):
        return frozenset()
    return frozenset(
        one.lease for one in settlements if not _settle(db, now, one.lease, one.outcome)
    )


_COMPLETE: Final = f"UPDATE jobs SET state = 'completed', result = ?, finished_at = ? WHERE {_HELD}"


def _complete_all(db: sqlite3.Connection, now: float, done: Sequence[Settlement]) -> bool:
    """By far the most frequent, so it has a way that costs less. False if one of them came too late; then nothing was done."""
    rows = [
        (one.outcome.variables, now, *_held(one.lease))
        for one in done
        if isinstance(one.outcome, Completed)
    ]
    db.execute("SAVEPOINT completions")
    good = db.executemany(_COMPLETE, rows).rowcount == len(rows)
    if not good:
        db.execute("ROLLBACK TO completions")
    db.execute("RELEASE completions")
    return good


def _settle(db: sqlite3.Connection, now: float, lease: Lease, outcome: Outcome) -> bool:
    held = _held(lease)
    if isinstance(outcome, Completed):  # no need to look first
        return bool(db.execute(_COMPLETE, (outcome.variables, now, *held)).rowcount)
    row = db.execute(f"SELECT * FROM jobs WHERE {_HELD}", held).fetchone()
    if row is None:
        return False
    if isinstance(outcome, Failed) and outcome.one_less:
        outcome = attrs.evolve(outcome, retries=max(row["retries"] - 1, 0))
    changes = after(outcome, dict(row), now)
    if isinstance(outcome, Poisoned):
        set_aside(db, now, row, outcome.reason)
    names = ", ".join(f"{column} = ?" for column in changes)
    db.execute(f"UPDATE jobs SET {names} WHERE id = ?", (*changes.values(), held[0]))
    return True


def set_aside(db: sqlite3.Connection, now: float, row: sqlite3.Row, reason: str) -> PoisonJob:
    """Put a copy of a job among the poison jobs."""
    poison = PoisonJob(
        key=str(row["id"]),
        type=row["type"],
        reason=reason,
        deliveries=row["deliveries"],
        worker=row["worker"],
        variables=str(row["variables"]),
        at=now,
    )
    db.execute(
        "INSERT OR REPLACE INTO poison_jobs VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            row["id"],
            poison.type,
            reason,
            poison.deliveries,
            poison.worker,
            poison.variables,
            now,
        ),
    )
    return poison


_ORDER: Final = "ORDER BY priority DESC, due_at, id LIMIT ?"
_COLUMNS: Final = "id, priority, due_at, worker, claims, retries, attempt, deliveries, snoozes, idempotency_key, created_at"


def _claim(
    db: sqlite3.Connection, now: float, name: str, claim: Claim, *, late: bool
) -> tuple[list[Job], list[PoisonJob]]:
    if late:
        db.execute(
            "UPDATE jobs SET state = 'ready' WHERE type = ? AND state = 'scheduled' AND due_at <= ?",
            (claim.type, now),
        )
    most = _allowed(db, now, claim)
    jobs: list[Job] = []
    poisoned: list[PoisonJob] = []
    while (wanted := most - len(jobs)) > 0:
        rows = _candidates(db, now, claim, wanted, late=late)
        handed_out: list[tuple[object, ...]] = []
        for row in rows:
            (number, _, _, worker, _, _, _, deliveries, *_) = row
            if deliveries >= claim.max_deliveries:
                reason = _LOST.format(deliveries, worker)
            else:
                try:
                    jobs.append(_job(row, now, name, claim))
                    handed_out.append((now + claim.lease, claim.worker, number))
                    continue
                except NotStorable as error:
                    reason = str(error)
            whole = db.execute("SELECT * FROM jobs WHERE id = ?", (number,)).fetchone()
            poisoned.append(set_aside(db, now, whole, reason))
            db.execute(
                "UPDATE jobs SET state = 'incident', error = ?, incident_at = ? WHERE id = ?",
                (reason, now, number),
            )
        db.executemany(
            "UPDATE jobs SET state = 'active', lease_until = ?, worker = ?, claims = claims + 1,"
            " attempt = attempt + 1, deliveries = deliveries + 1 WHERE id = ?",
            handed_out,
        )
        if len(rows) < wanted:
            break
    return jobs, poisoned


def _allowed(db: sqlite3.Connection, now: float, claim: Claim) -> int:
    row = db.execute("SELECT paused, most FROM job_types WHERE type = ?", (claim.type,)).fetchone()
    if row is None:
        return claim.most
    if row["paused"]:
        return 0
    if row["most"] is None:
        return claim.most
    (active,) = db.execute(
        "SELECT count(*) FROM jobs WHERE type = ? AND state = 'active' AND lease_until > ?",
        (claim.type, now),
    ).fetchone()
    return min(claim.most, max(0, int(row["most"] - active)))


def _candidates(
    db: sqlite3.Connection, now: float, claim: Claim, most: int, *, late: bool
) -> list[sqlite3.Row]:
    columns, values = _COLUMNS, list[object]()
    if claim.fetch is None:
        columns += ", variables"
    else:
        # Only what is asked for is read: a worker that wants an id does not pay for the document beside it.
        columns += ", json_valid(variables) AS valid"
        for n, field in enumerate(claim.fetch):
            columns += f", CASE WHEN json_valid(variables) THEN variables -> ? END AS v{n}"
            # A name stands in JSON with its escapes, and is looked up as it stands there.
            values.append(f"$.{json.dumps(field, ensure_ascii=False)}")
    ready = db.execute(
        f"SELECT {columns} FROM jobs WHERE type = ? AND state = 'ready' {_ORDER}",
        (*values, claim.type, most),
    ).fetchall()
    if not late:
        return ready
    lapsed = db.execute(
        f"SELECT {columns} FROM jobs WHERE type = ? AND state = 'active' AND lease_until <= ? {_ORDER}",
        (*values, claim.type, now, most),
    ).fetchall()
    if not lapsed:
        return ready
    both = [*ready, *lapsed]
    both.sort(key=lambda row: (-row[1], row[2], row[0]))
    return both[:most]


def _job(row: sqlite3.Row, now: float, name: str, claim: Claim) -> Job:
    """The job as it is from now on."""
    (
        number,
        priority,
        _,
        _,
        claims,
        retries,
        attempt,
        deliveries,
        snoozes,
        given,
        created,
        *payload,
    ) = row
    key, claims = str(number), claims + 1
    return Job(
        key=key,
        type=claim.type,
        variables=decode(payload[0]) if claim.fetch is None else _picked(payload, claim.fetch),
        retries=retries,
        attempt=attempt + 1,
        deliveries=deliveries + 1,
        lease=Lease(key, str(claims)),
        deadline=now + claim.lease,
        idempotency_key=given or key_of(name, key, int(created * 1000)),
        fence=claims,
        priority=priority,
        snoozes=snoozes,
        worker=claim.worker,
    )


def _picked(payload: Sequence[Any], fetch: Sequence[str]) -> dict[str, Any]:
    valid, *texts = payload
    if not valid:
        raise NotStorable("its stored variables are not JSON")
    found = zip(fetch, texts, strict=True)
    return {field: decode(f'{{"v":{text}}}')["v"] for field, text in found if text is not None}


def _next_in(db: sqlite3.Connection, now: float, job_type: str) -> float | None:
    """Seconds until a job falls due or a lease runs out."""
    times = [
        db.execute(query, (job_type, now)).fetchone()[0]
        for query in (  # what was due before and was not handed out is held back by a pause or a limit
            "SELECT min(due_at) FROM jobs WHERE type = ? AND state = 'scheduled' AND due_at > ?",
            "SELECT min(lease_until) FROM jobs WHERE type = ? AND state = 'active' AND lease_until > ?",
        )
    ]
    known = [time for time in times if time is not None]
    return max(0.0, min(known) - now) if known else None


def extend(
    db: sqlite3.Connection, now: float, leases: Sequence[Lease], seconds: float
) -> frozenset[Lease]:
    """Renew; return what was lost."""
    return frozenset(
        lease
        for lease in leases
        if not db.execute(
            f"UPDATE jobs SET lease_until = ? WHERE {_HELD}", (now + seconds, *_held(lease))
        ).rowcount
    )


def transact(
    db: sqlite3.Connection,
    now: float,
    limit: int,
    lease: Lease,
    fn: Callable[..., object],
    args: tuple[object, ...],
) -> object:
    """Run `fn` and complete the job, in the transaction that is open."""
    # First: a worker that lost its lease does not even begin. The lock is held, so it stays true until the commit.
    if db.execute(f"SELECT 1 FROM jobs WHERE {_HELD}", _held(lease)).fetchone() is None:
        raise LeaseLost(lease.key)
    result = lend(db, fn, *args)
    text = "{}" if result is None else encode(result, "what the transaction returned", limit)
    _settle(db, now, lease, Completed(text))
    return result
