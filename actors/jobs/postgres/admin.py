"""Admin: what operators do to the tables, as plans.

Floor: above steps. The rule: an incident is resolved only into a job that can run (camunda/camunda#18110).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.jobs.engine import EngineStatistics, JobInfo, as_it_is
from actors.jobs.errors import NoRetriesLeft, NoSuchJob
from actors.jobs.outcomes import State
from actors.jobs.poison import PoisonJob
from actors.jobs.postgres.steps import Plan, Rows, Step

__all__ = ["Admin"]

_NOW: Final = "coalesce(to_timestamp(%(now)s::float8), statement_timestamp())"
_INFO: Final = f"""
SELECT id, type, state, retries, attempt, deliveries, snoozes, priority,
    extract(epoch FROM due_at - {_NOW})::float8, worker, variables::text, result::text, error, error_code,
    extract(epoch FROM {_NOW} - created_at)::float8,
    CASE WHEN state = 'incident' THEN extract(epoch FROM {_NOW} - incident_at)::float8 END
FROM {{s}}.jobs"""
_FIND: Final = f"{_INFO} WHERE id = %(id)s"
_WHERE: Final = {
    **{state: (f"state = '{state}'",) for state in State},
    State.READY: ("state = 'ready'", f"state = 'scheduled' AND due_at <= {_NOW}"),
    State.SCHEDULED: (f"state = 'scheduled' AND due_at > {_NOW}",),
}
"""Where the jobs of a state stand. Those that are not finished have an index each."""
_FINISHED: Final = (State.COMPLETED, State.ERRORED, State.CANCELLED)
_OF_TYPE: Final = " AND type = %(type)s"
_CANCEL: Final = f"""
WITH gone AS (DELETE FROM {{s}}.poison_jobs WHERE job_id = %(id)s)
UPDATE {{s}}.jobs SET state = 'cancelled', finished_at = {_NOW}
WHERE id = %(id)s AND finished_at IS NULL RETURNING type"""
_RETRIES: Final = """
UPDATE {s}.jobs SET retries = %(retries)s WHERE id = %(id)s AND finished_at IS NULL RETURNING id"""
_INCIDENT: Final = """
SELECT retries FROM {s}.jobs WHERE id = %(id)s AND state = 'incident' FOR UPDATE"""
_RESOLVE: Final = f"""
WITH gone AS (DELETE FROM {{s}}.poison_jobs WHERE job_id = %(id)s),
job AS (
    UPDATE {{s}}.jobs SET state = 'ready', due_at = {_NOW}, retries = %(retries)s, deliveries = 0
    WHERE id = %(id)s RETURNING type
)
SELECT type, pg_notify(%(channel)s, %(origin)s || type) FROM job"""
_RUN_NOW: Final = f"""
WITH job AS (
    UPDATE {{s}}.jobs SET state = 'ready', due_at = {_NOW}
    WHERE id = %(id)s AND state = 'scheduled' AND due_at > {_NOW} RETURNING type
)
SELECT type, pg_notify(%(channel)s, %(origin)s || type) FROM job"""
_POISON: Final = """
SELECT job_id, type, reason, deliveries, worker, variables::text, extract(epoch FROM at)::float8
FROM {s}.poison_jobs WHERE %(type)s::text IS NULL OR type = %(type)s ORDER BY at, job_id LIMIT %(most)s"""
_PAUSE: Final = """
WITH job AS (
    INSERT INTO {s}.job_types (type, paused) VALUES (%(type)s, %(paused)s)
    ON CONFLICT (type) DO UPDATE SET paused = excluded.paused RETURNING type
)
SELECT pg_notify(%(channel)s, %(origin)s || type) FROM job"""
_LIMIT: Final = """
WITH job AS (
    INSERT INTO {s}.job_types (type, most) VALUES (%(type)s, %(most)s)
    ON CONFLICT (type) DO UPDATE SET most = excluded.most RETURNING type
)
SELECT pg_notify(%(channel)s, %(origin)s || type) FROM job"""
_PRUNE: Final = f"""
WITH old AS MATERIALIZED (
    SELECT id FROM {{s}}.jobs
    WHERE finished_at IS NOT NULL AND finished_at < {_NOW} - make_interval(secs => %(older)s)
    ORDER BY finished_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM {{s}}.jobs WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING 1)
SELECT count(*) FROM gone"""
_COUNTS: Final = (
    "SELECT type, state, count(*) FROM {s}.jobs GROUP BY type, state ORDER BY type, state"
)
_TYPES: Final = "SELECT type, paused, most FROM {s}.job_types"
_ASIDE: Final = "SELECT count(*) FROM {s}.poison_jobs"
PRUNED_AT_ONCE: Final = 5000
"""Jobs that one transaction deletes at most: none holds its locks for long, or leaves a standby far behind."""


class Admin:
    """The plans for one schema.

    Args:
        name: of the engine.
        schema: where the tables are.
        ring: channel and origin of notifications.
        clock: instead of the server's.
    """

    def __init__(
        self, name: str, schema: str, ring: dict[str, str], clock: Callable[[], float] | None
    ) -> None:
        self._name = name
        self._schema = schema
        self._ring = ring
        self._clock = clock

    def step(self, text: str, **values: object) -> Step:
        """A statement, with the schema in place of `{s}` and the values that are often asked for."""
        now = None if self._clock is None else self._clock()
        whole = {"now": now, **self._ring, **values}
        return Step(text.format(s=self._schema).encode(), whole, hot=False)

    def find(self, key: str) -> Plan[JobInfo]:
        """One job."""
        rows: Rows = yield self.step(_FIND, id=_number(key))
        if not rows:
            raise NoSuchJob(key, wanted="stored here")
        return _info(rows[0])

    def jobs(self, state: State, job_type: str | None, most: int) -> Plan[tuple[JobInfo, ...]]:
        """Those of a state, in the order of their keys."""
        if _impossible(job_type):
            return ()
        of = "" if job_type is None else _OF_TYPE
        # Something added keeps the planner from the order of the primary key: that would be a walk over all jobs.
        order = "id" if state in _FINISHED else "id + 0"
        ids = " UNION ALL ".join(
            f"(SELECT id FROM {{s}}.jobs WHERE {where}{of} ORDER BY {order} LIMIT %(most)s)"
            for where in _WHERE[state]
        )
        text = f"{_INFO} WHERE id = ANY (ARRAY({ids})) ORDER BY id LIMIT %(most)s"
        rows: Rows = yield self.step(text, type=job_type, most=most)
        return tuple(map(_info, rows))

    def cancel(self, key: str) -> Plan[str | None]:
        """End an unfinished job. Returns its type if it was one."""
        rows: Rows = yield self.step(_CANCEL, id=_number(key))
        return str(rows[0][0]) if rows else None

    def set_retries(self, key: str, retries: int) -> Plan[None]:
        """Set what is left of an unfinished job's retries."""
        if not (yield self.step(_RETRIES, id=_number(key), retries=retries)):
            raise NoSuchJob(key, wanted="unfinished")

    def resolve(self, key: str, retries: int | None) -> Plan[str]:
        """Make an incident ready to run. Returns its type. One transaction."""
        rows: Rows = yield self.step(_INCIDENT, id=_number(key))
        if not rows:
            raise NoSuchJob(key, wanted="an incident")
        left = rows[0][0] if retries is None else retries
        if left < 1:
            raise NoRetriesLeft(key)
        done: Rows = yield self.step(_RESOLVE, id=_number(key), retries=left)
        return str(done[0][0])

    def run_now(self, key: str) -> Plan[str]:
        """Make a scheduled job due. Returns its type."""
        rows: Rows = yield self.step(_RUN_NOW, id=_number(key))
        if not rows:
            raise NoSuchJob(key, wanted="scheduled for later")
        return str(rows[0][0])

    def drop(self, key: str) -> Plan[None]:
        """Cancel an incident. One transaction."""
        rows: Rows = yield self.step(_INCIDENT, id=_number(key))
        if not rows:
            raise NoSuchJob(key, wanted="an incident")
        yield from self.cancel(key)

    def poison(self, job_type: str | None, most: int) -> Plan[tuple[PoisonJob, ...]]:
        """What was set aside, oldest first."""
        if _impossible(job_type):
            return ()
        rows: Rows = yield self.step(_POISON, type=job_type, most=most)
        return tuple(
            PoisonJob(
                key=str(key),
                type=kind,
                reason=reason,
                deliveries=deliveries,
                worker=worker,
                variables=variables,
                at=at,
            )
            for key, kind, reason, deliveries, worker, variables, at in rows
        )

    def pause(self, job_type: str, paused: bool) -> Plan[None]:
        """Hand the type out no more, or again."""
        yield self.step(_PAUSE, type=job_type, paused=paused)

    def limit(self, job_type: str, most: int | None) -> Plan[None]:
        """Set how many of a type may be active at once."""
        yield self.step(_LIMIT, type=job_type, most=most)

    def prune(self, older_than: float) -> Plan[int]:
        """Delete some of what was finished longer ago than that; how many."""
        rows: Rows = yield self.step(_PRUNE, older=float(older_than), batch=PRUNED_AT_ONCE)
        return int(rows[0][0])

    def counts(self) -> Plan[EngineStatistics]:
        """Counts by type and state."""
        counts, types, aside = yield [self.step(one) for one in (_COUNTS, _TYPES, _ASIDE)]
        jobs: dict[str, dict[str, int]] = {}
        for kind, state, count in counts:
            jobs.setdefault(kind, {})[state] = count
        return EngineStatistics(
            name=self._name,
            jobs=jobs,
            poison=aside[0][0],
            paused=frozenset(kind for kind, paused, _ in types if paused),
            limits={kind: most for kind, _, most in types if most is not None},
        )


def _impossible(job_type: str | None) -> bool:
    """Whether it holds what PostgreSQL has no character for: such a job was refused when it was put in."""
    return job_type is not None and "\0" in job_type


def _info(row: tuple[Any, ...]) -> JobInfo:
    number, kind, stored, retries, attempt, deliveries, snoozes, priority, due, *rest = row
    worker, variables, result, error, error_code, age, incident_for = rest
    state, due_in = as_it_is(stored, due)
    return JobInfo(
        key=str(number),
        type=kind,
        state=state,
        retries=retries,
        attempt=attempt,
        deliveries=deliveries,
        snoozes=snoozes,
        priority=priority,
        due_in=due_in,
        worker=worker,
        variables=variables,
        result=result,
        error=error,
        error_code=error_code,
        age=age,
        incident_for=incident_for,
    )


def _number(key: str) -> int:
    try:
        number = int(key)
    except ValueError:
        return 0
    return number if abs(number) < 2**63 else 0
