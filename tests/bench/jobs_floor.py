"""The floors of the jobs: what a Trio worker with a task for each job costs, if all that it does is claim in batches and complete.

One statement, or one transaction of SQLite, completes the last batch and claims the next, as ours does. There are no outcomes but
completion, no renewal of leases, no cancel scopes, nothing is reported, and nobody can stop it.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from tests.bench.jobs import PLACES, database
from tests.bench.meter import Work

Done = list[tuple[int, int]]
Exchange = Callable[[Done, int], Awaitable[Sequence[tuple[int, int, Any]]]]

TABLE = """
CREATE TABLE jobs (
    id {key} PRIMARY KEY, type text NOT NULL, state smallint NOT NULL DEFAULT 0, priority int NOT NULL DEFAULT 0,
    due_at {time} NOT NULL, attempt int NOT NULL DEFAULT 0, lease_until {time}, variables {json} NOT NULL, done_at {time}
)"""
INDEX = "CREATE INDEX jobs_ready ON jobs (type, priority, due_at, id) WHERE state = 0"


async def _handle(variables: dict[str, Any]) -> None:
    """The handler that does nothing."""


async def _drain(exchange: Exchange, n: int) -> dict[str, float]:
    done: Done = []
    running = handled = 0
    enough = trio.Event()

    async def run(key: int, attempt: int, text: Any) -> None:
        nonlocal running, handled
        await _handle(json.loads(text) if isinstance(text, str) else text)
        handled += 1
        running -= 1
        done.append((key, attempt))
        enough.set()

    with Work(n) as work:
        async with trio.open_nursery() as nursery:
            while handled < n or done:
                told, done = done, []
                for row in await exchange(told, PLACES - running):
                    running += 1
                    nursery.start_soon(run, *row)
                if running:
                    enough = trio.Event()
                    await enough.wait()
    return work.found


# -- SQLite --------------------------------------------------------------------------------------


async def _sqlite(synchronous: str, n: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="treewarden-bench-") as folder:
        db = sqlite3.connect(
            Path(folder) / "floor.db", isolation_level=None, check_same_thread=False
        )
        db.execute("PRAGMA journal_mode = WAL").fetchone()
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute(TABLE.format(key="integer", time="real", json="text"))
        db.execute(INDEX)
        db.execute("BEGIN")
        now = time.time()
        db.executemany(
            "INSERT INTO jobs (type, due_at, variables) VALUES ('noop', ?, ?)",
            ((now, json.dumps({"n": i})) for i in range(n)),
        )
        db.execute("COMMIT")
        try:
            one = trio.CapacityLimiter(1)

            async def exchange(told: Done, most: int) -> Sequence[tuple[int, int, Any]]:
                return await trio.to_thread.run_sync(_both, db, told, most, limiter=one)

            found = await _drain(exchange, n)
            assert db.execute("SELECT count(*) FROM jobs WHERE state = 2").fetchone() == (n,)
        finally:
            db.close()
    return found


def _both(db: sqlite3.Connection, told: Done, most: int) -> Sequence[tuple[int, int, Any]]:
    now = time.time()
    db.execute("BEGIN IMMEDIATE")
    db.executemany(
        "UPDATE jobs SET state = 2, done_at = ? WHERE id = ? AND attempt = ? AND state = 1",
        [(now, key, attempt) for key, attempt in told],
    )
    rows = db.execute(
        "UPDATE jobs SET state = 1, attempt = attempt + 1, lease_until = ? WHERE id IN ("
        " SELECT id FROM jobs WHERE type = 'noop' AND state = 0 AND due_at <= ?"
        " ORDER BY priority, due_at, id LIMIT ?) RETURNING id, attempt, variables",
        (now + 60, now, most),
    ).fetchall()
    db.execute("COMMIT")
    return rows


# -- PostgreSQL, on one connection that Trio itself waits for -------------------------------------

BOTH = b"""
WITH told AS (
    UPDATE jobs SET state = 2, done_at = now() FROM unnest(%s::bigint[], %s::int[]) AS x (id, attempt)
    WHERE jobs.id = x.id AND jobs.attempt = x.attempt AND state = 1
)
UPDATE jobs SET state = 1, attempt = attempt + 1, lease_until = now() + interval '60 s' WHERE id = ANY (ARRAY(
    SELECT id FROM jobs WHERE type = 'noop' AND state = 0 AND due_at <= now()
    ORDER BY priority, due_at, id LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING id, attempt, variables
"""


async def _postgres(n: int) -> dict[str, float]:
    import psycopg

    from actors.jobs.postgres.native import Native

    db = psycopg.connect(database(), autocommit=True)
    try:
        db.execute(
            TABLE.format(
                key="bigint GENERATED ALWAYS AS IDENTITY", time="timestamptz", json="jsonb"
            ).encode()
        )
        db.execute(INDEX)
        db.execute(
            "INSERT INTO jobs (type, due_at, variables)"
            " SELECT 'noop', now(), jsonb_build_object('n', i) FROM generate_series(1, %s) AS i",
            [n],
        )
        db.execute("ANALYZE jobs")
        native = Native(db)

        async def exchange(told: Done, most: int) -> Sequence[tuple[int, int, Any]]:
            keys, attempts = [key for key, _ in told], [attempt for _, attempt in told]
            cursor = await native.execute(BOTH, [keys, attempts, most], prepare=True)
            return await cursor.fetchall()

        found = await _drain(exchange, n)
        done = db.execute("SELECT count(*) FROM jobs WHERE state = 2").fetchone()
        assert done == (n,), done
    finally:
        db.close()
    return found


def sqlite_normal(n: int) -> dict[str, float]:
    """In a file; a power cut may take the last commits."""
    return trio.run(_sqlite, "NORMAL", n)


def sqlite_full(n: int) -> dict[str, float]:
    """In a file; each commit waits for the disk."""
    return trio.run(_sqlite, "FULL", n)


def postgres(n: int) -> dict[str, float]:
    """On one connection."""
    return trio.run(partial(_postgres, n))
