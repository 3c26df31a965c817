"""Schema: the tables of the SQLite engine, and how an older database is brought up to date.

Floor: above job. The rules: versions are steps that only add; the step and the new version number are one transaction that
begins with the write lock, so that of two processes which start at once, one migrates and the other finds it done; a database
of a later version is refused untouched.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from actors.jobs.errors import NotSupported, SchemaTooNew

__all__ = ["VERSION", "migrate"]

_FIRST: Final = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    due_at REAL NOT NULL,
    lease_until REAL,
    worker TEXT NOT NULL DEFAULT '',
    claims INTEGER NOT NULL DEFAULT 0,
    retries INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    deliveries INTEGER NOT NULL DEFAULT 0,
    snoozes INTEGER NOT NULL DEFAULT 0,
    variables TEXT NOT NULL,
    result TEXT,
    error TEXT,
    error_code TEXT,
    unique_text TEXT,
    idempotency_key TEXT,
    created_at REAL NOT NULL,
    finished_at REAL
);
CREATE INDEX jobs_ready ON jobs (type, priority DESC, due_at, id) WHERE state = 'ready';
CREATE INDEX jobs_scheduled ON jobs (type, due_at) WHERE state = 'scheduled';
CREATE INDEX jobs_active ON jobs (type, lease_until) WHERE state = 'active';
CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique ON jobs (type, unique_text)
    WHERE unique_text IS NOT NULL AND finished_at IS NULL;
CREATE TABLE poison_jobs (
    job_id INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    deliveries INTEGER NOT NULL,
    worker TEXT NOT NULL,
    variables TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE job_types (type TEXT PRIMARY KEY, paused INTEGER NOT NULL DEFAULT 0, most INTEGER);
CREATE TABLE job_schedules (name TEXT PRIMARY KEY, period INTEGER NOT NULL);
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    owner TEXT NOT NULL,
    state TEXT NOT NULL,
    claimed_at REAL NOT NULL,
    claimed_until REAL NOT NULL,
    result TEXT,
    done_at REAL,
    expires_at REAL
);
"""

_SECOND: Final = "ALTER TABLE idempotency ADD COLUMN job_id INTEGER"

# Incidents are few, and are looked for among all that ended well. The condition is compared for each job that changes its state: with
# a list of states in it that costs a third of all that is done to a job.
_THIRD: Final = """
ALTER TABLE jobs ADD COLUMN incident_at REAL;
CREATE INDEX jobs_incident ON jobs (type, id) WHERE state = 'incident'
"""

_STEPS: Final = (_FIRST, _SECOND, _THIRD)
VERSION: Final = len(_STEPS)
"""The version of a database that this code writes."""


def migrate(db: sqlite3.Connection, where: str) -> None:
    """Bring the database up to date. Safe to run at any time, by any number of processes.

    Raises:
        SchemaTooNew: it was written by a later version of this library.
    """
    if sqlite3.sqlite_version_info < (3, 38):
        raise NotSupported("sqlite", f"SQLite {sqlite3.sqlite_version}; 3.38 or later is needed")
    _check(_version(db), where)
    if _version(db) == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        found = _version(db)  # another process may have been faster
        _check(found, where)
        for step in _STEPS[found:]:
            for statement in step.split(";\n"):
                if statement.strip():
                    db.execute(statement)
        db.execute(
            "CREATE TABLE IF NOT EXISTS jobs_schema (one INTEGER PRIMARY KEY, version INTEGER)"
        )
        db.execute("INSERT OR REPLACE INTO jobs_schema VALUES (1, ?)", (VERSION,))
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _check(found: int, where: str) -> None:
    if found > VERSION:
        raise SchemaTooNew(where, found=found, known=VERSION)


def _version(db: sqlite3.Connection) -> int:
    there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs_schema'").fetchone()
    if there is None:
        return 0
    return int(db.execute("SELECT version FROM jobs_schema WHERE one = 1").fetchone()[0])
