"""Processes, connections and servers that end at random moments: no job is lost and, with the transactional recipe, no effect repeated."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Self

import psycopg
import pytest
import trio

from actors.jobs import NewJob
from tests.jobs.crash_worker import opened
from tests.jobs.kit import ask
from tests.jobs.server import Server

ROOT = Path(__file__).parent.parent.parent
JOBS = 1500
FEWER = 500
WORKERS = 3
PATIENCE = 90.0

pytestmark = pytest.mark.slow


class Fleet:
    """Worker processes on one database, and how many were killed."""

    def __init__(self, kind: str, where: str, random: Random) -> None:
        self.command = [sys.executable, "-m", "tests.jobs.crash_worker", kind, where]
        self.random = random
        self.killed = 0
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.processes = [self.start() for _ in range(WORKERS)]
        for process in self.processes:
            self.wait_for(process)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def start(self) -> subprocess.Popen[bytes]:
        seed = str(self.random.randrange(10**6))
        return subprocess.Popen([*self.command, seed], cwd=ROOT, stdout=subprocess.PIPE)

    @staticmethod
    def wait_for(process: subprocess.Popen[bytes]) -> None:
        """Until it is at work."""
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

    def kill_one(self) -> None:
        n = self.random.randrange(WORKERS)
        self.processes[n].send_signal(signal.SIGKILL)
        self.processes[n].wait()
        self.processes[n].stdout.close()
        self.killed += 1
        self.processes[n] = self.start()
        if self.random.random() < 0.7:  # otherwise it may be killed as it starts
            self.wait_for(self.processes[n])

    def stop(self) -> None:
        """Stop all in order, as an operator would."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE) for process in self.processes] == [0] * WORKERS


async def prepare(kind: str, where: str, jobs: int = JOBS) -> None:
    async with opened(kind, where) as engine:
        await ask(engine, "CREATE TABLE effects (key text)")
        await engine.enqueue_many(NewJob("a", {"n": n}, retries=100) for n in range(jobs))


def count_in_file(path: Path, query: str) -> int:
    with closing(sqlite3.connect(path, timeout=10)) as db:
        return int(db.execute(query.format(s="")).fetchone()[0])


def count_on_server(where: str, query: str) -> int:
    with closing(psycopg.connect(where, autocommit=True)) as db:
        return int(db.execute(query.format(s="treewarden.").encode()).fetchone()[0])


def until_done(
    count: Callable[[str], int],
    harm: Callable[[], object],
    random: Random,
    enough: Callable[[], bool],
    jobs: int = JOBS,
) -> None:
    """Do harm again and again until all is done and enough of it was."""
    # The clock of the machine: other processes are at work, so no virtual time reaches them.
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(random.uniform(0.1, 0.6))
        done = count("SELECT count(*) FROM {s}jobs WHERE state = 'completed'")
        if done == jobs and enough():
            return
        harm()


def check(count: Callable[[str], int], jobs: int = JOBS) -> None:
    """0 lost, 0 doubled."""
    assert count("SELECT count(*) FROM {s}jobs WHERE state != 'completed'") == 0
    assert count("SELECT count(DISTINCT key) FROM effects") == jobs
    assert count("SELECT count(*) FROM effects") == jobs


def test_killed_on_sqlite(tmp_path):
    """Three processes on a file, killed again and again with leases of half a second: 0 jobs lost, 0 effects doubled."""
    path, random = tmp_path / "shop.db", Random(7)
    count = partial(count_in_file, path)
    trio.run(prepare, "sqlite", str(path))
    with Fleet("sqlite", str(path), random) as fleet:
        until_done(count, fleet.kill_one, random, lambda: fleet.killed >= 5)

    check(count)
    # It was a trial: kills met jobs at work, which were delivered again.
    assert count("SELECT count(*) FROM jobs WHERE deliveries > 1") > 0


async def test_killed_on_postgres(driver, where):
    """Three processes on PostgreSQL, killed again and again with leases of half a second: 0 jobs lost, 0 effects doubled."""
    random, count = Random(8), partial(count_on_server, where)
    await prepare(driver, where)
    with Fleet(driver, where, random) as fleet:
        await trio.to_thread.run_sync(
            until_done, count, fleet.kill_one, random, lambda: fleet.killed >= 5
        )

    check(count)
    assert count("SELECT count(*) FROM {s}jobs WHERE deliveries > 1") > 0


async def test_connections_are_ended(driver, where):
    """With every connection, LISTEN's too, ended by the server again and again, no process fails, 0 are lost, 0 doubled."""
    random, count = Random(9), partial(count_on_server, where)
    ended = []

    def terminate():
        ended.append(
            count(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid != pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
        )

    await prepare(driver, where, FEWER)
    with Fleet(driver, where, random) as fleet:
        await trio.to_thread.run_sync(
            until_done, count, terminate, random, lambda: sum(ended) >= 20, FEWER
        )
        assert [process.poll() for process in fleet.processes] == [None] * WORKERS
        await trio.to_thread.run_sync(fleet.stop)

    check(count, FEWER)


def test_the_server_crashes(driver):
    """bensheldon/good_job#90: with PostgreSQL itself stopped at once and started again mid-run, 0 are lost, 0 doubled."""
    random, server = Random(10), Server(durable=True)
    crashes = 0

    def crash():
        nonlocal crashes
        if crashes < 3:
            server.stop(at_once=True)
            time.sleep(random.uniform(0, 0.5))
            server.start()
            crashes += 1

    try:
        where = server.conninfo(server.create())
        count = partial(count_on_server, where)
        trio.run(prepare, driver, where, FEWER)
        with Fleet(driver, where, random) as fleet:
            until_done(count, crash, random, lambda: crashes == 3, FEWER)
            fleet.stop()
        check(count, FEWER)
    finally:
        server.close()
