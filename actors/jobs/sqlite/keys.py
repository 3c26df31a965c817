"""Keys: the idempotency records of an SQLite database, or of one in memory.

Floor: above engines. The rule: each step is one transaction that begins with the write lock.
"""

from __future__ import annotations

import sqlite3

from actors.jobs.idempotency import (
    Begin,
    Decision,
    IdempotencyPolicy,
    IdempotencyRecord,
    IdempotencyStore,
    decide,
)
from actors.jobs.job import Job
from actors.jobs.sqlite import admin
from actors.jobs.sqlite.engines import SQLEngine

__all__ = ["SQLIdempotencyStore"]


class SQLIdempotencyStore(IdempotencyStore):
    """Records beside the jobs of a `MemoryEngine` or an `SQLiteEngine`, shared by all that share its database.

    For effects outside of the database, open the engine with `synchronous="FULL"`: a power cut must not take a record.
    """

    def __init__(self, engine: SQLEngine, policy: IdempotencyPolicy | None = None) -> None:
        super().__init__(policy)
        self._engine = engine

    def job_id(self, job: Job) -> int | None:
        return int(job.key) if job.engine is self._engine else None

    async def claim(
        self,
        key: str,
        fingerprint: str,
        owner: str,
        *,
        claim_for: float,
        run_again: bool,
        job_id: int | None = None,
    ) -> Decision:
        def step(db: sqlite3.Connection, now: float) -> Decision:
            row = db.execute("SELECT * FROM idempotency WHERE key = ?", (key,)).fetchone()
            record = None if row is None else IdempotencyRecord(**dict(row))
            unfinished = record is not None and _unfinished(db, record.job_id)
            found = decide(
                record,
                key=key,
                fingerprint=fingerprint,
                now=now,
                run_again=run_again,
                unfinished=unfinished,
            )
            if isinstance(found, Begin):
                db.execute(
                    "INSERT OR REPLACE INTO idempotency (key, fingerprint, owner, state, claimed_at,"
                    " claimed_until, job_id) VALUES (?, ?, ?, 'started', ?, ?, ?)",
                    (key, fingerprint, owner, now, now + claim_for, job_id),
                )
            elif job_id is not None and not unfinished:
                # From now on it is this job that needs it.
                db.execute("UPDATE idempotency SET job_id = ? WHERE key = ?", (job_id, key))
            return found

        return await self._engine.at_now(step)

    async def extend(self, key: str, owner: str, seconds: float) -> bool:
        return await self._changed(
            "UPDATE idempotency SET claimed_until = :now + :seconds"
            " WHERE key = :key AND owner = :owner AND state = 'started'",
            key=key,
            owner=owner,
            seconds=seconds,
        )

    async def finish(
        self, key: str, owner: str, state: str, result: str, *, keep_for: float | None
    ) -> bool:
        return await self._changed(
            "UPDATE idempotency SET state = :state, result = :result, done_at = :now,"
            " expires_at = :now + :keep WHERE key = :key AND owner = :owner AND state IN ('started', :state)",
            key=key,
            owner=owner,
            state=state,
            result=result,
            keep=keep_for,
        )

    async def forget(self, key: str, owner: str | None = None) -> bool:
        return await self._changed(
            "DELETE FROM idempotency WHERE key = :key AND (:owner IS NULL OR owner = :owner)",
            key=key,
            owner=owner,
        )

    async def prune(self) -> int:
        def step(db: sqlite3.Connection, now: float) -> int:
            return db.execute(
                "DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency AS r"
                " WHERE expires_at <= ? AND NOT EXISTS"
                " (SELECT 1 FROM jobs WHERE id = r.job_id AND finished_at IS NULL) LIMIT ?)",
                (now, admin.PRUNED_AT_ONCE),
            ).rowcount

        total = 0
        while True:
            gone = await self._engine.at_now(step)
            total += gone
            if gone < admin.PRUNED_AT_ONCE:
                return total

    async def _changed(self, statement: str, **values: object) -> bool:
        def step(db: sqlite3.Connection, now: float) -> bool:
            return db.execute(statement, {"now": now, **values}).rowcount > 0

        return await self._engine.at_now(step)


def _unfinished(db: sqlite3.Connection, job_id: int | None) -> bool:
    query = "SELECT 1 FROM jobs WHERE id = ? AND finished_at IS NULL"
    return job_id is not None and db.execute(query, (job_id,)).fetchone() is not None
