"""What the jobs are measured beside, and which figures are wanted: see `plan`.

A value is microseconds of CPU for one job, here and in the server; beside it stands how many came in a second of the clock.
"""

from __future__ import annotations

from typing import Final

from tests.bench.plan import Block, Kind, Row, Side

__all__ = ["JOBS", "MILLION"]

_POSTGRES: Final = "postgres"


def _of_postgres(name: str, label: str, n: int, quick: int) -> Side:
    return Side(name, label, n, quick, needs=_POSTGRES, most=5)


_SIDES: Final = {
    side.name: side
    for side in (
        Side("jobs.sqlite_normal", "a job done, SQLite", 30_000, 300, most=5),
        Side("jobs_floor.sqlite_normal", "the same, floor", 30_000, 300, most=5),
        Side("jobs.sqlite_full", "a job done, SQLite, each commit on the disk", 20_000, 300, most=5),
        Side("jobs_floor.sqlite_full", "the same, floor", 20_000, 300, most=5),
        _of_postgres("jobs.threads", "a job done, PostgreSQL, a thread", 20_000, 300),
        _of_postgres("jobs.native", "a job done, PostgreSQL, native", 20_000, 300),
        _of_postgres("jobs_floor.postgres", "the same, floor, native", 20_000, 300),
        _of_postgres("jobs.threads_4", "a job done, PostgreSQL, four threads and workers", 20_000, 300),
        _of_postgres("jobs.native_4", "a job done, PostgreSQL, four native and workers", 20_000, 300),
        Side("jobs.one_sqlite_normal", "a job put in alone, SQLite", 5_000, 50, most=5),
        Side("jobs.many_sqlite_normal", "one of 32 put in, SQLite", 20_000, 320, most=5),
        Side("jobs.one_sqlite_full", "a job put in alone, SQLite, on the disk", 500, 20, most=5),
        Side("jobs.many_sqlite_full", "one of 32 put in, SQLite, on the disk", 10_000, 320, most=5),
        _of_postgres("jobs.one_postgres", "a job put in alone, PostgreSQL", 500, 20),
        _of_postgres("jobs.many_postgres", "one of 32 put in, PostgreSQL", 10_000, 320),
        _of_postgres("jobs.bulk_postgres", "one of 1,000 put in, PostgreSQL (COPY)", 50_000, 1_000),
    )
}  # fmt: skip


def _beside(title: str, ours: str, floor: str, goal: float) -> tuple[Row, Row]:
    return (
        Row(f"{title}, jobs in a second", f"{ours}:rate", f"{floor}:rate", Kind.PACE, goal),
        Row(f"{title}, jobs for a second of CPU", ours, floor, Kind.RATE),
    )


_ROWS: Final = (
    *_beside("SQLite, beside the floor", "jobs.sqlite_normal", "jobs_floor.sqlite_normal", 0.6),
    *_beside("the same, on the disk", "jobs.sqlite_full", "jobs_floor.sqlite_full", 0.6),
    *_beside("PostgreSQL, native, beside the floor", "jobs.native", "jobs_floor.postgres", 0.6),
    *_beside("the same, a thread", "jobs.threads", "jobs_floor.postgres", 0.6),
    *_beside("four native, beside that floor", "jobs.native_4", "jobs_floor.postgres", 1.0),
    *_beside("the same, four threads", "jobs.threads_4", "jobs_floor.postgres", 1.0),
)

JOBS: Final = Block("jobs", _SIDES, _ROWS)

_MANY: Final = 1_000_000
_MILLION: Final = {
    side.name: side
    for side in (
        Side(
            "million.sqlite", "growth, SQLite", _MANY, 2_000, "B",
            most=1, function="million.sqlite_file", patience=3_000.0,
        ),
        Side(
            "million.postgres", "growth, PostgreSQL", _MANY, 2_000, "B",
            most=1, function="million.postgres_server", patience=3_000.0, needs=_POSTGRES,
        ),
    )
}  # fmt: skip

MILLION: Final = Block(
    "million",
    _MILLION,
    tuple(
        Row(f"memory after 100 % beside 10 % of a million jobs, {where}", name, name, Kind.BYTES, 2e6)
        for name, where in (("million.sqlite", "SQLite"), ("million.postgres", "PostgreSQL"))
    ),
    apart=True,
)  # fmt: skip
