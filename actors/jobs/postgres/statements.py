"""Statements: the SQL of workers, with the reasons for its shape.

Floor: the lowest of this room. Theory:

* `{now}` is the server's clock at the start of a statement, so that a long transaction of the caller's is no old time; a number
  given as `now` takes its place, for tests.
* The common exchange is one statement, thus one round trip and one commit: it ends what has ended and claims what is ready.
  It claims only while its *gate* is open: no job of the type has fallen due or lost its lease, and nobody has paused or limited
  the type. Otherwise it says so, and the claim follows as a second transaction that looks at all of that, and is a little
  slower.
* Jobs are found by their primary key whatever the planner believes: by `= ANY(ARRAY(SELECT ...))`, and with `state || ''` where
  the index of all active jobs would look shorter to it, as it does while the table is young.
* Rows are locked in the order of their ids, and claimed ones with SKIP LOCKED, so that two statements never wait for each other
  in a circle.
* NOTIFY is delivered at the commit, and equal ones of a transaction are one.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CLAIM",
    "CLAIM_FAST",
    "COMPLETE",
    "CONFLICTS",
    "DOUBT",
    "ENQUEUE",
    "EXTEND",
    "FIRE",
    "HELD",
    "LOCK_TYPE",
    "NOTIFY",
    "NUMBERS",
    "PROMOTE",
    "SETTLE",
]

_NOW: Final = "clock AS MATERIALIZED (SELECT coalesce(to_timestamp(%(now)s::float8), statement_timestamp()) AS now)"

_TOLD: Final = """
told AS (
    UPDATE {s}.jobs j
    SET state = 'completed', result = coalesce(x.result, '{{}}')::json, finished_at = clock.now
    FROM clock, unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(results)s::text[]) AS x (id, token, result)
    WHERE j.id = x.id AND j.claims = x.token AND j.state || '' = 'active'
    RETURNING j.id, j.claims
)"""

COMPLETE: Final = f"WITH {_NOW}, {_TOLD} SELECT id, claims FROM told"

_TAKE: Final = """
    SET state = 'active', lease_until = gate.now + make_interval(secs => %(lease)s), worker = %(worker)s,
        claims = j.claims + 1, attempt = j.attempt + 1, deliveries = j.deliveries + 1
    FROM gate"""

_ODD: Final = " + ".join(
    rf"position(E'\{escape}' IN j.variables::text)" for escape in (r"\u0000", r"\ud", r"\uD")
)
_TAKEN: Final = f"""
    RETURNING j.id, j.priority, j.due_at, j.claims, j.retries, j.attempt, j.deliveries, j.snoozes, j.idempotency_key,
        (extract(epoch FROM j.created_at) * 1000)::bigint AS created,
        CASE WHEN %(fetch)s::text[] IS NULL OR {_ODD} > 0 THEN j.variables::text END AS whole,
        CASE WHEN %(fetch)s::text[] IS NOT NULL AND {_ODD} = 0 THEN ARRAY(
            SELECT (j.variables -> x.name)::text FROM unnest(%(fetch)s::text[]) WITH ORDINALITY AS x (name, n) ORDER BY n
        ) END AS parts"""
# What has an escaped NUL in it, or half a character, PostgreSQL keeps, but cannot take apart: then it is done here.

_ROWS: Final = """
    taken.id, taken.claims, taken.retries, taken.attempt, taken.deliveries, taken.priority, taken.snoozes,
    taken.idempotency_key, taken.created, taken.whole, taken.parts
FROM gate LEFT JOIN taken ON true
ORDER BY taken.priority DESC, taken.due_at, taken.id"""

CLAIM_FAST: Final = f"""
WITH {_NOW}, {_TOLD},
gate AS MATERIALIZED (
    SELECT now, due, lapse, due <= now OR lapse <= now OR special AS shut FROM (
        SELECT now,
            coalesce((SELECT min(due_at) FROM {{s}}.jobs WHERE type = %(type)s AND state = 'scheduled'), 'infinity') AS due,
            coalesce((SELECT min(lease_until) FROM {{s}}.jobs WHERE type = %(type)s AND state = 'active'), 'infinity') AS lapse,
            EXISTS (SELECT FROM {{s}}.job_types WHERE type = %(type)s AND (paused OR most IS NOT NULL)) AS special
        FROM clock OFFSET 0
    ) AS seen
),
picked AS MATERIALIZED (
    SELECT id, deliveries < %(max)s AS good FROM {{s}}.jobs
    WHERE type = %(type)s AND state = 'ready' AND NOT (SELECT shut FROM gate)
    ORDER BY priority DESC, due_at, id LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
),
taken AS (
    UPDATE {{s}}.jobs j {_TAKE} WHERE j.id = ANY (ARRAY(SELECT id FROM picked WHERE good)) {_TAKEN}
)
SELECT extract(epoch FROM gate.now)::float8,
    CASE WHEN due < 'infinity' THEN extract(epoch FROM due - now)::float8 END,
    CASE WHEN lapse < 'infinity' THEN extract(epoch FROM lapse - now)::float8 END,
    shut OR EXISTS (SELECT FROM picked WHERE NOT good),
    CASE WHEN (SELECT count(*) FROM told) < cardinality(%(ids)s::bigint[]) THEN (SELECT coalesce(array_agg(ARRAY[id, claims]), '{{{{}}}}') FROM told) END,
    NULL::json,
{_ROWS}"""
"""Settles completions and claims. Its rows begin with: now, seconds until a job falls due and until a lease ends, whether `CLAIM`
has to follow, and the ids that were settled if they are not all."""

LOCK_TYPE: Final = "SELECT FROM {s}.job_types WHERE type = %(type)s FOR UPDATE"
"""Two claims of one limited type come one after the other; the statements after it see what the first has taken."""

PROMOTE: Final = f"""
WITH {_NOW}
UPDATE {{s}}.jobs SET state = 'ready' WHERE id = ANY (ARRAY(
    SELECT id FROM {{s}}.jobs, clock WHERE type = %(type)s AND state = 'scheduled' AND due_at <= now
    ORDER BY due_at LIMIT 1000 FOR UPDATE OF jobs SKIP LOCKED
))"""

CLAIM: Final = f"""
WITH {_NOW},
gate AS MATERIALIZED (
    SELECT now, least(%(most)s, CASE
        WHEN paused THEN 0
        WHEN most IS NOT NULL THEN greatest(0, most - (
            SELECT count(*) FROM {{s}}.jobs WHERE type = %(type)s AND state = 'active' AND lease_until > now))
        ELSE %(most)s END) AS room
    FROM clock LEFT JOIN {{s}}.job_types ON type = %(type)s
),
ready AS MATERIALIZED (
    SELECT id, priority, due_at, deliveries FROM {{s}}.jobs WHERE type = %(type)s AND state = 'ready'
    ORDER BY priority DESC, due_at, id LIMIT (SELECT room FROM gate)
    FOR UPDATE SKIP LOCKED
),
lapsed AS MATERIALIZED (
    SELECT id, priority, due_at, deliveries FROM {{s}}.jobs
    WHERE type = %(type)s AND state = 'active' AND lease_until <= (SELECT now FROM gate)
    ORDER BY priority DESC, due_at, id LIMIT (SELECT room FROM gate)
    FOR UPDATE SKIP LOCKED
),
picked AS MATERIALIZED (
    SELECT id, deliveries < %(max)s AS good FROM (SELECT * FROM ready UNION ALL SELECT * FROM lapsed) AS both_
    ORDER BY priority DESC, due_at, id LIMIT (SELECT room FROM gate)
),
bad AS (
    UPDATE {{s}}.jobs j SET state = 'incident', incident_at = (SELECT now FROM gate),
        error = format('it was handed out %%s times and nothing was heard of it (worker lost, last %%s)', deliveries, worker)
    WHERE j.id = ANY (ARRAY(SELECT id FROM picked WHERE NOT good))
    RETURNING j.id, j.type, j.error, j.deliveries, j.worker, j.variables
),
aside AS (
    INSERT INTO {{s}}.poison_jobs (job_id, at, deliveries, type, reason, worker, variables)
    SELECT id, now, deliveries, type, error, worker, variables FROM bad, clock
    ON CONFLICT (job_id) DO UPDATE SET at = excluded.at, deliveries = excluded.deliveries, reason = excluded.reason,
        worker = excluded.worker, variables = excluded.variables
),
taken AS (
    UPDATE {{s}}.jobs j {_TAKE} WHERE j.id = ANY (ARRAY(SELECT id FROM picked WHERE good)) {_TAKEN}
)
SELECT extract(epoch FROM gate.now)::float8,
    (SELECT extract(epoch FROM min(due_at) - now)::float8 FROM {{s}}.jobs
        WHERE type = %(type)s AND state = 'scheduled' AND due_at > now),
    (SELECT extract(epoch FROM min(lease_until) - now)::float8 FROM {{s}}.jobs
        WHERE type = %(type)s AND state = 'active' AND lease_until > now),
    room > 0 AND EXISTS (SELECT FROM bad),
    NULL::bigint[],
    (SELECT json_agg(json_build_array(id, type, error, deliveries, worker, variables::text) ORDER BY id) FROM bad),
{_ROWS}"""
"""Claims whatever there is, and sets aside what was handed out too often. Rows as of `CLAIM_FAST`."""

# A job that failed in the usual way has one retry less than it has by now, which may not be what it was claimed with.
_STATE: Final = """
    CASE WHEN NOT x.one_less THEN x.state WHEN j.retries <= 1 THEN 'incident' WHEN x.retry_in > 0 THEN 'scheduled' ELSE 'ready' END"""

SETTLE: Final = f"""
WITH {_NOW},
x AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(told)s::json) AS x (
        id bigint, token bigint, state text, retries bigint, attempt int, deliveries int, snoozes int, retry_in float8,
        result text, error text, error_code text, finished boolean, poison boolean, one_less boolean)
),
told AS (
    UPDATE {{s}}.jobs j SET
        state = {_STATE},
        retries = CASE WHEN x.one_less THEN greatest(j.retries - 1, 0) ELSE coalesce(x.retries, j.retries) END,
        attempt = greatest(j.attempt + x.attempt, 0),
        deliveries = CASE WHEN x.deliveries IS NULL THEN 0 ELSE greatest(j.deliveries + x.deliveries, 0) END,
        snoozes = j.snoozes + x.snoozes,
        due_at = coalesce(now + make_interval(secs => x.retry_in), due_at),
        result = coalesce(x.result::json, j.result),
        error = coalesce(x.error, j.error),
        error_code = coalesce(x.error_code, j.error_code),
        finished_at = CASE WHEN finished THEN now END,
        incident_at = CASE WHEN {_STATE} = 'incident' THEN now ELSE j.incident_at END
    FROM clock, x
    WHERE j.id = x.id AND j.claims = x.token AND j.state || '' = 'active'
    RETURNING j.id, j.claims, j.type, j.state, j.error, j.deliveries, j.worker, j.variables, x.poison
),
aside AS (
    INSERT INTO {{s}}.poison_jobs (job_id, at, deliveries, type, reason, worker, variables)
    SELECT id, now, deliveries, type, error, worker, variables FROM told, clock WHERE poison
    ON CONFLICT (job_id) DO UPDATE SET at = excluded.at, deliveries = excluded.deliveries, reason = excluded.reason,
        worker = excluded.worker, variables = excluded.variables
),
rung AS MATERIALIZED (
    SELECT pg_notify(%(channel)s, %(origin)s || type) FROM (
        SELECT DISTINCT type FROM told WHERE state = 'ready') AS types
)
SELECT id, claims, extract(epoch FROM now)::float8 FROM told, clock WHERE (SELECT count(*) FROM rung) >= 0"""
"""Settles whatever is more than a completion. Returns what was settled, and when."""

DOUBT: Final = """
SELECT id, claims FROM {s}.jobs
WHERE id = ANY (%(ids)s::bigint[]) AND state NOT IN ('active', 'cancelled')"""

EXTEND: Final = f"""
WITH {_NOW},
ours AS MATERIALIZED (
    SELECT j.id, j.claims FROM {{s}}.jobs j, unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS x (id, token)
    WHERE j.id = x.id AND j.claims = x.token AND j.state || '' = 'active'
),
free AS MATERIALIZED (
    SELECT j.id FROM {{s}}.jobs j, ours WHERE j.id = ours.id AND j.claims = ours.claims AND j.state || '' = 'active'
    FOR NO KEY UPDATE OF j SKIP LOCKED
),
renewed AS (
    UPDATE {{s}}.jobs j SET lease_until = now + make_interval(secs => %(seconds)s)
    FROM clock, free WHERE j.id = free.id
)
SELECT id, claims FROM ours"""
# One whose own transaction is under way is locked by it, and was waited for, with the leases of all others. It needs no renewal:
# claims pass over what is locked.

HELD: Final = """
SELECT FROM {s}.jobs WHERE id = %(id)s AND claims = %(token)s AND state = 'active' FOR UPDATE"""

ENQUEUE: Final = f"""
WITH {_NOW},
fresh AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('{{s}}.jobs', 'id')) AS id, x.*
    FROM unnest(
        %(types)s::text[], %(priorities)s::bigint[], %(delays)s::float8[], %(retries)s::bigint[], %(variables)s::text[],
        %(uniques)s::text[], %(keys)s::text[]
    ) WITH ORDINALITY AS x (type, priority, delay, retries, variables, unique_text, idempotency_key, n)
),
made AS (
    INSERT INTO {{s}}.jobs (
        id, type, state, priority, due_at, retries, variables, unique_text, idempotency_key, created_at)
    SELECT id, type, CASE WHEN delay > 0 THEN 'scheduled' ELSE 'ready' END, priority,
        now + make_interval(secs => delay), retries, variables::json, unique_text, idempotency_key, now
    FROM fresh, clock ORDER BY n
    ON CONFLICT (type, unique_text) WHERE unique_text IS NOT NULL AND finished_at IS NULL DO NOTHING
    RETURNING id, type, state
),
rung AS MATERIALIZED (
    SELECT pg_notify(%(channel)s, %(origin)s || type) FROM (
        SELECT DISTINCT type FROM made WHERE state = 'ready') AS types
)
SELECT fresh.id, made.id IS NOT NULL FROM fresh LEFT JOIN made USING (id)
WHERE (SELECT count(*) FROM rung) >= 0
ORDER BY fresh.n"""
"""Inserts; returns for each the id that it has, or would have had, and whether it has it."""

CONFLICTS: Final = """
SELECT x.n, j.id FROM unnest(%(types)s::text[], %(uniques)s::text[]) WITH ORDINALITY AS x (type, unique_text, n)
JOIN {s}.jobs j ON j.type = x.type AND j.unique_text = x.unique_text AND j.finished_at IS NULL"""

NUMBERS: Final = f"""
WITH {_NOW}
SELECT nextval(pg_get_serial_sequence('{{s}}.jobs', 'id')), extract(epoch FROM now)::float8
FROM clock, generate_series(1, %(count)s)"""

NOTIFY: Final = """
SELECT pg_notify(%(channel)s, %(origin)s || x.type) FROM unnest(%(types)s::text[]) AS x (type)"""

FIRE: Final = f"""
WITH {_NOW},
rounded AS (
    SELECT extract(epoch FROM now)::float8 AS at,
        floor((extract(epoch FROM now)::float8 - %(offset)s) / %(every)s)::bigint AS period
    FROM clock
),
seen AS MATERIALIZED (
    SELECT at, CASE WHEN (period + 1) * %(every)s + %(offset)s <= at THEN period + 1 ELSE period END AS period FROM rounded
),
won AS (
    INSERT INTO {{s}}.job_schedules AS old SELECT %(schedule)s, period FROM seen
    ON CONFLICT (name) DO UPDATE SET period = excluded.period
    WHERE excluded.period > old.period OR old.period > excluded.period + %(ahead)s
    RETURNING 1
)
SELECT EXISTS (SELECT FROM won), (period + 1) * %(every)s + %(offset)s - at FROM seen"""
