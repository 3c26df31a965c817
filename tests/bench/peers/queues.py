"""What the files of the peers that work on jobs share: their databases, and 32 of everything."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tests.bench.meter import Work

__all__ = ["PLACES", "Work", "batches", "database", "redis"]

PLACES = 32


def database() -> str:
    """The URL of a new database of the server that the benchmark has started."""
    import psycopg

    url = os.environ["TREEWARDEN_BENCH_POSTGRES"]
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")
        db.execute("CREATE DATABASE bench")
        db.execute("CHECKPOINT")
    return f"{url.rpartition('/')[0]}/bench"


def redis() -> str:
    """The URL of the server that the benchmark has started."""
    return os.environ["TREEWARDEN_BENCH_REDIS"]


def batches(n: int) -> Iterator[range]:
    """The numbers below `n`, 32 at a time."""
    for begin in range(0, n, PLACES):
        yield range(begin, min(begin + PLACES, n))
