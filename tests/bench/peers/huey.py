"""huey on SQLite: a job leaves the file before it runs, so one that dies with its worker is gone."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from huey import SqliteHuey
from huey.consumer import Consumer

from tests.bench.peers.kit import main
from tests.bench.peers.queues import Work


def _opened(folder: str, *, fsync: bool) -> SqliteHuey:
    path = Path(folder) / "huey.db"
    return SqliteHuey("bench", filename=str(path), fsync=fsync, results=False)


def _work(n: int, *, fsync: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="treewarden-bench-") as folder:
        huey, count, done = _opened(folder, fsync=fsync), 0, threading.Event()

        @huey.task()
        def noop(i: int) -> None:
            nonlocal count
            count += 1
            if count == n:
                done.set()

        _put(noop, n)
        # One thread: with 32 of them they only stand in each other's way.
        consumer = Consumer(
            huey, workers=1, worker_type="thread", periodic=False,
            initial_delay=0.01, max_delay=0.05, check_worker_health=False,
        )  # fmt: skip
        with Work(n) as work:
            consumer.start()
            done.wait()
        consumer.stop(graceful=True)
    return work.found


def _put(noop: object, n: int) -> None:
    assert callable(noop)
    for i in range(n):
        noop(i)


def _one(n: int, *, fsync: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="treewarden-bench-") as folder:
        huey = _opened(folder, fsync=fsync)
        noop = huey.task()(lambda i: None)
        with Work(n) as work:
            _put(noop, n)
    return work.found


def work(n: int) -> dict[str, float]:
    return _work(n, fsync=False)


def work_full(n: int) -> dict[str, float]:
    return _work(n, fsync=True)


def one(n: int) -> dict[str, float]:
    return _one(n, fsync=False)


def one_full(n: int) -> dict[str, float]:
    return _one(n, fsync=True)


if __name__ == "__main__":
    main(globals())
