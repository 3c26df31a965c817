"""Keys: the idempotency records of a PostgreSQL database.

Floor: above engines. The rules:

* Each step is one transaction. A claim first takes a lock that belongs to its key, for as long as the transaction lasts, so that
  of two claims the second sees what the first has written; a unique index could not do that, since it would have to hold
  across partitions.
* Records lie in partitions, one for each day on which their work began. A day of which nothing is needed any more goes as a
  whole, at no cost to speak of; while it has a record that is, what has expired of it is deleted.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.jobs.errors import NotSupported
from actors.jobs.idempotency import (
    Begin,
    Decision,
    IdempotencyPolicy,
    IdempotencyRecord,
    IdempotencyStore,
    decide,
)
from actors.jobs.job import Job
from actors.jobs.postgres.engines import PostgresEngine
from actors.jobs.postgres.steps import Plan, Rows, Step, Task

__all__ = ["PostgresIdempotencyStore"]

_DAY: Final = 86400
_NO_PARTITION: Final = "23514"
_LOCKED: Final = "55P03"
_GONE: Final = "42P01"
_FORBIDDEN: Final = "42501"
_SETTLED: Final = 3600
"""Seconds after which no claim is under way any more that began in a day, or found a record before it expired."""
_BATCH: Final = 5000

_NOW: Final = "coalesce(to_timestamp(%(now)s::float8), statement_timestamp())"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 7468951))"
_LOOK: Final = f"""
SELECT extract(epoch FROM {_NOW})::float8,
    EXISTS (SELECT FROM {{s}}.jobs WHERE id = r.job_id AND finished_at IS NULL), r.*
FROM (VALUES (1)) AS one LEFT JOIN LATERAL (
    SELECT key, fingerprint, owner, state, extract(epoch FROM claimed_at)::float8 AS claimed_at,
        extract(epoch FROM claimed_until)::float8 AS claimed_until, result,
        extract(epoch FROM done_at)::float8 AS done_at, extract(epoch FROM expires_at)::float8 AS expires_at,
        job_id
    FROM {{s}}.idempotency WHERE key = %(key)s FOR UPDATE
) AS r ON true"""
_CLAIM: Final = f"""
WITH gone AS (DELETE FROM {{s}}.idempotency WHERE key = %(key)s)
INSERT INTO {{s}}.idempotency (key, fingerprint, owner, state, began_at, claimed_at, claimed_until, job_id)
SELECT %(key)s, %(fingerprint)s, %(owner)s, 'started', now, now, now + make_interval(secs => %(claim_for)s),
    %(job_id)s::bigint
FROM (SELECT {_NOW} AS now) AS clock"""
_NEEDS: Final = "UPDATE {s}.idempotency SET job_id = %(job_id)s WHERE key = %(key)s"
_EXTEND: Final = f"""
UPDATE {{s}}.idempotency SET claimed_until = {_NOW} + make_interval(secs => %(seconds)s)
WHERE key = %(key)s AND owner = %(owner)s AND state = 'started' RETURNING key"""
_FINISH: Final = f"""
UPDATE {{s}}.idempotency SET state = %(state)s, result = %(result)s, done_at = {_NOW},
    expires_at = {_NOW} + make_interval(secs => %(keep)s)
WHERE key = %(key)s AND owner = %(owner)s AND state IN ('started', %(state)s) RETURNING key"""
_FORGET: Final = """
DELETE FROM {s}.idempotency WHERE key = %(key)s AND (%(owner)s::text IS NULL OR owner = %(owner)s) RETURNING key"""
_DAYS_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('{s} idempotency', 0))"
_DAYS: Final = f"""
SELECT substr(c.relname, 13)::bigint, floor((extract(epoch FROM {_NOW}) - {_SETTLED}) / {_DAY})::bigint
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = '{{s}}.idempotency'::regclass AND c.relname ~ '^idempotency_[0-9]+$' ORDER BY 1"""
_FREE: Final = f"""expires_at <= {_NOW} AND NOT EXISTS
    (SELECT FROM {{s}}.jobs WHERE id = r.job_id AND finished_at IS NULL)"""
_NEEDED: Final = f"""
SELECT EXISTS (SELECT FROM {{s}}.idempotency_{{day}} AS r
        WHERE ({_FREE} AND expires_at <= {_NOW} - make_interval(secs => {_SETTLED})) IS NOT TRUE),
    (SELECT count(*) FROM {{s}}.idempotency_{{day}})"""
_PRUNE: Final = f"""
WITH old AS (
    SELECT key FROM {{s}}.idempotency AS r WHERE {_FREE} LIMIT %(batch)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {{s}}.idempotency WHERE expires_at <= {_NOW} AND key = ANY (ARRAY(SELECT key FROM old)) RETURNING 1"""


class PostgresIdempotencyStore(IdempotencyStore):
    """Records beside the jobs of a `PostgresEngine`, shared by all nodes that have its schema."""

    def __init__(self, engine: PostgresEngine, policy: IdempotencyPolicy | None = None) -> None:
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
        def plan() -> Plan[Decision]:
            yield self._step(_LOCK, key=key)
            rows: Rows = yield self._step(_LOOK, key=key)
            now, unfinished, *found = rows[0]
            record = (
                None
                if found[0] is None
                else IdempotencyRecord(**dict(zip(_FIELDS, found, strict=True)))
            )
            decision = decide(
                record,
                key=key,
                fingerprint=fingerprint,
                now=now,
                run_again=run_again,
                unfinished=unfinished,
            )
            if isinstance(decision, Begin):
                yield self._step(
                    _CLAIM,
                    key=key,
                    fingerprint=fingerprint,
                    owner=owner,
                    claim_for=float(claim_for),
                    job_id=job_id,
                )
            elif job_id is not None and not unfinished:
                # From now on it is this job that needs it.
                yield self._step(_NEEDS, key=key, job_id=job_id)
            return decision

        task = Task(plan, atomic=True)
        try:
            return await self._engine.carry_out(task)
        except Exception as error:
            if getattr(error, "sqlstate", None) != _NO_PARTITION:
                raise
        try:
            await self._engine.carry_out(Task(self._new_day, atomic=True))
        except Exception as error:
            if getattr(error, "sqlstate", None) != _FORBIDDEN:
                raise
            raise NotSupported(
                self._engine.name,
                "idempotency records for a role that may not make the table of a day: let it own the tables"
                " (GRANT owner TO role), or do without records",
            ) from error
        return await self._engine.carry_out(task)

    async def extend(self, key: str, owner: str, seconds: float) -> bool:
        return await self._changed(_EXTEND, key=key, owner=owner, seconds=float(seconds))

    async def finish(
        self, key: str, owner: str, state: str, result: str, *, keep_for: float | None
    ) -> bool:
        keep = None if keep_for is None else float(keep_for)
        text = result.replace("\0", "\ufffd")
        return await self._changed(
            _FINISH, key=key, owner=owner, state=state, result=text, keep=keep
        )

    async def forget(self, key: str, owner: str | None = None) -> bool:
        return await self._changed(_FORGET, key=key, owner=owner)

    async def prune(self) -> int:
        days = await self._engine.carry_out(Task(self._days, write=False))
        total = 0
        for day, today in days:
            if day < today:
                total += await self._drop(day)
        while True:
            gone = await self._engine.carry_out(Task(self._delete))
            total += gone
            if gone < _BATCH:
                return total

    async def _drop(self, day: int) -> int:
        """Drop the partition of a day, if nothing of it is needed. How many records it had."""
        try:
            return await self._engine.carry_out(Task(partial(self._without, day), atomic=True))
        except Exception as error:
            # Somebody reads it, a backup perhaps: all would wait behind us if we waited. The next call will find it. Or
            # another node has dropped it; or it is not ours to drop, and is emptied.
            if getattr(error, "sqlstate", None) not in (_LOCKED, _GONE, _FORBIDDEN):
                raise
            return 0

    # -- plans -----------------------------------------------------------------------------------

    def _step(self, text: str, **values: object) -> Step:
        return self._engine.step(text, **values)

    def _new_day(self) -> Plan[None]:
        """Make the partition of today, unless another node has."""
        yield self._step(_DAYS_LOCK)
        days: Rows = yield self._step(f"SELECT floor(extract(epoch FROM {_NOW}) / {_DAY})::bigint")
        day = int(days[0][0])
        there: Rows = yield self._step(f"SELECT to_regclass('{{s}}.idempotency_{day}') IS NOT NULL")
        if there[0][0]:
            return
        # To attach it locks out nobody. To create it in its place would wait for whoever reads, and all others behind that.
        yield self._step(
            f"CREATE TABLE {{s}}.idempotency_{day} (LIKE {{s}}.idempotency INCLUDING ALL)"
        )
        yield self._step(
            f"ALTER TABLE {{s}}.idempotency ATTACH PARTITION {{s}}.idempotency_{day}"
            f" FOR VALUES FROM (to_timestamp({day * _DAY})) TO (to_timestamp({(day + 1) * _DAY}))"
        )

    def _days(self) -> Plan[list[tuple[int, int]]]:
        rows: Rows = yield self._step(_DAYS)
        return [(int(day), int(today)) for day, today in rows]

    def _without(self, day: int) -> Plan[int]:
        yield self._step("SET LOCAL lock_timeout = '1s'")
        yield self._step(_DAYS_LOCK)  # two that have looked at one table could not both drop it
        rows: Rows = yield self._step(_NEEDED.replace("{day}", str(day)))
        needed, count = rows[0]
        if needed:
            return 0
        yield self._step(f"DROP TABLE {{s}}.idempotency_{day}")
        return int(count)

    def _delete(self) -> Plan[int]:
        rows: Rows = yield self._step(_PRUNE, batch=_BATCH)
        return len(rows)

    async def _changed(self, text: str, **values: object) -> bool:
        def plan() -> Plan[bool]:
            return bool((yield self._step(text, **values)))

        return await self._engine.carry_out(Task(plan))


_FIELDS: Final = (
    "key",
    "fingerprint",
    "owner",
    "state",
    "claimed_at",
    "claimed_until",
    "result",
    "done_at",
    "expires_at",
    "job_id",
)
