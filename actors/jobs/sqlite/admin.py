"""Admin: what operators do to the tables, as functions of an open transaction and the time.

Floor: above store. The rule: an incident is resolved only into a job that can run (camunda/camunda#18110).
"""

from __future__ import annotations

import sqlite3
from typing import Final

from actors.jobs.engine import EngineStatistics, JobInfo, as_it_is
from actors.jobs.errors import NoRetriesLeft, NoSuchJob
from actors.jobs.outcomes import State
from actors.jobs.poison import PoisonJob

__all__ = [
    "PRUNED_AT_ONCE",
    "cancel",
    "drop",
    "find",
    "jobs",
    "limit",
    "pause",
    "poison",
    "prune",
    "resolve",
    "run_now",
    "set_retries",
    "statistics",
]

PRUNED_AT_ONCE: Final = 5000
"""Rows that one transaction deletes at most: everything else, also in other processes, waits for it."""
_UNFINISHED: Final = "id = ? AND finished_at IS NULL"


def _number(key: str) -> int:
    try:
        number = int(key)
    except ValueError:
        return 0
    return number if abs(number) < 2**63 else 0


def find(db: sqlite3.Connection, now: float, key: str) -> JobInfo:
    """One job."""
    row = db.execute("SELECT * FROM jobs WHERE id = ?", (_number(key),)).fetchone()
    if row is None:
        raise NoSuchJob(key, wanted="stored here")
    return _info(row, now)


def _info(row: sqlite3.Row, now: float) -> JobInfo:
    since = row["incident_at"] if row["state"] == State.INCIDENT else None
    state, due_in = as_it_is(row["state"], row["due_at"] - now)
    return JobInfo(
        key=str(row["id"]),
        type=row["type"],
        state=state,
        retries=row["retries"],
        attempt=row["attempt"],
        deliveries=row["deliveries"],
        snoozes=row["snoozes"],
        priority=row["priority"],
        due_in=due_in,
        worker=row["worker"],
        variables=row["variables"],
        result=row["result"],
        error=row["error"],
        error_code=row["error_code"],
        age=now - row["created_at"],
        incident_for=None if since is None else now - since,
    )


_WHERE: Final = {
    **{state: (("", f"state = '{state}'"),) for state in State},
    State.READY: (
        ("INDEXED BY jobs_ready", "state = 'ready'"),
        ("INDEXED BY jobs_scheduled", "state = 'scheduled' AND due_at <= :now"),
    ),
    State.SCHEDULED: (("INDEXED BY jobs_scheduled", "state = 'scheduled' AND due_at > :now"),),
    State.ACTIVE: (("INDEXED BY jobs_active", "state = 'active'"),),
    State.INCIDENT: (("INDEXED BY jobs_incident", "state = 'incident'"),),
}
"""Where the jobs of a state stand. What is finished is most of all, and is found by going through all from the first on."""


def jobs(
    db: sqlite3.Connection, now: float, state: State, job_type: str | None, most: int
) -> tuple[JobInfo, ...]:
    """Those of a state, in the order of their keys."""
    of = "" if job_type is None else " AND type = :type"
    # A sign before it keeps the order of ids from being had by a walk over all jobs.
    ids = " UNION ALL ".join(
        f"SELECT * FROM (SELECT id FROM jobs {index} WHERE {where}{of}"
        f" ORDER BY {'+' if index else ''}id LIMIT :most)"
        for index, where in _WHERE[state]
    )
    rows = db.execute(
        f"SELECT * FROM jobs WHERE id IN ({ids}) ORDER BY id LIMIT :most",
        {"now": now, "type": job_type, "most": most},
    )
    return tuple(_info(row, now) for row in rows)


def cancel(db: sqlite3.Connection, now: float, key: str) -> str | None:
    """End an unfinished job. Returns its type if it was one."""
    row = db.execute(
        f"UPDATE jobs SET state = 'cancelled', finished_at = ? WHERE {_UNFINISHED} RETURNING type",
        (now, _number(key)),
    ).fetchone()
    db.execute("DELETE FROM poison_jobs WHERE job_id = ?", (_number(key),))
    return None if row is None else str(row[0])


def set_retries(db: sqlite3.Connection, key: str, retries: int) -> None:
    """Set what is left of an unfinished job's retries."""
    query = f"UPDATE jobs SET retries = ? WHERE {_UNFINISHED}"
    if not db.execute(query, (retries, _number(key))).rowcount:
        raise NoSuchJob(key, wanted="unfinished")


def resolve(db: sqlite3.Connection, now: float, key: str, retries: int | None) -> str:
    """Make an incident ready to run. Returns its type."""
    row = db.execute(
        "SELECT type, retries FROM jobs WHERE id = ? AND state = 'incident'", (_number(key),)
    ).fetchone()
    if row is None:
        raise NoSuchJob(key, wanted="an incident")
    left = row["retries"] if retries is None else retries
    if left < 1:
        raise NoRetriesLeft(key)
    db.execute(
        "UPDATE jobs SET state = 'ready', due_at = ?, retries = ?, deliveries = 0 WHERE id = ?",
        (now, left, _number(key)),
    )
    db.execute("DELETE FROM poison_jobs WHERE job_id = ?", (_number(key),))
    return str(row["type"])


def run_now(db: sqlite3.Connection, now: float, key: str) -> str:
    """Make a scheduled job due. Returns its type."""
    row = db.execute(
        "UPDATE jobs SET state = 'ready', due_at = ?"
        " WHERE id = ? AND state = 'scheduled' AND due_at > ? RETURNING type",
        (now, _number(key), now),
    ).fetchone()
    if row is None:
        raise NoSuchJob(key, wanted="scheduled for later")
    return str(row[0])


def drop(db: sqlite3.Connection, now: float, key: str) -> None:
    """Cancel an incident."""
    row = db.execute(
        "SELECT 1 FROM jobs WHERE id = ? AND state = 'incident'", (_number(key),)
    ).fetchone()
    if row is None:
        raise NoSuchJob(key, wanted="an incident")
    cancel(db, now, key)


def poison(db: sqlite3.Connection, job_type: str | None, most: int) -> tuple[PoisonJob, ...]:
    """What was set aside, oldest first."""
    rows = db.execute(
        "SELECT * FROM poison_jobs WHERE ? IS NULL OR type = ? ORDER BY at, job_id LIMIT ?",
        (job_type, job_type, most),
    )
    return tuple(
        PoisonJob(
            key=str(row["job_id"]),
            type=row["type"],
            reason=row["reason"],
            deliveries=row["deliveries"],
            worker=row["worker"],
            variables=row["variables"],
            at=row["at"],
        )
        for row in rows
    )


def pause(db: sqlite3.Connection, job_type: str, paused: bool) -> None:
    """Hand the type out no more, or again."""
    db.execute(
        "INSERT INTO job_types (type, paused) VALUES (?, ?)"
        " ON CONFLICT (type) DO UPDATE SET paused = excluded.paused",
        (job_type, int(paused)),
    )


def limit(db: sqlite3.Connection, job_type: str, most: int | None) -> None:
    """Set how many of a type may be active at once."""
    db.execute(
        "INSERT INTO job_types (type, most) VALUES (?, ?)"
        " ON CONFLICT (type) DO UPDATE SET most = excluded.most",
        (job_type, most),
    )


def prune(db: sqlite3.Connection, now: float, older_than: float) -> int:
    """Delete some of what was finished longer ago than that; how many."""
    return db.execute(
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE finished_at IS NOT NULL"
        " AND finished_at < ? LIMIT ?)",
        (now - older_than, PRUNED_AT_ONCE),
    ).rowcount


def statistics(db: sqlite3.Connection, name: str) -> EngineStatistics:
    """Counts by type and state."""
    jobs: dict[str, dict[str, int]] = {}
    for job_type, state, count in db.execute(
        "SELECT type, state, count(*) FROM jobs GROUP BY type, state ORDER BY type, state"
    ):
        jobs.setdefault(job_type, {})[state] = count
    types = db.execute("SELECT type, paused, most FROM job_types").fetchall()
    return EngineStatistics(
        name=name,
        jobs=jobs,
        poison=db.execute("SELECT count(*) FROM poison_jobs").fetchone()[0],
        paused=frozenset(row["type"] for row in types if row["paused"]),
        limits={row["type"]: row["most"] for row in types if row["most"] is not None},
    )
