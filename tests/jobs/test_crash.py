"""Processes that are killed at random moments lose no job and, with the transactional recipe, repeat no effect."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import trio

from actors.jobs import NewJob, open_sqlite

ROOT = Path(__file__).parent.parent.parent
JOBS = 600
WORKERS = 3
PATIENCE = 45.0


class Fleet:
    """Worker processes, and how many were killed."""

    def __init__(self, path: Path, recipe: str, random: Random) -> None:
        self.path = path
        self.recipe = recipe
        self.random = random
        self.killed = 0
        self.processes = [self.start() for _ in range(WORKERS)]

    def start(self) -> subprocess.Popen[bytes]:
        seed = str(self.random.randrange(10**6))
        command = [
            sys.executable,
            "-m",
            "tests.jobs.crash_worker",
            str(self.path),
            self.recipe,
            seed,
        ]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)

    def kill_one(self) -> None:
        n = self.random.randrange(WORKERS)
        self.processes[n].send_signal(signal.SIGKILL)
        self.processes[n].wait()
        self.killed += 1
        self.processes[n] = self.start()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def count(path: Path, query: str) -> int:
    with closing(sqlite3.connect(path, timeout=10)) as db:
        return int(db.execute(query).fetchone()[0])


async def prepare(path: Path) -> None:
    async with open_sqlite(path, name="shop") as engine:
        await engine.run(lambda db: db.execute("CREATE TABLE effects (key TEXT)"))
        await engine.enqueue_many(NewJob("a", {"n": n}, retries=100) for n in range(JOBS))


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """Three processes killed again and again with leases of half a second: 0 jobs lost, 0 effects doubled."""
    path = tmp_path / "shop.db"
    trio.run(prepare, path)
    random = Random(7)
    fleet = Fleet(path, "transaction", random)
    # The clock of the machine: other processes are killed, so no virtual time reaches them.
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            time.sleep(random.uniform(0.2, 0.6))
            done = count(path, "SELECT count(*) FROM jobs WHERE state = 'completed'")
            if done == JOBS and fleet.killed >= 5:
                break
            fleet.kill_one()
    finally:
        fleet.end()

    assert count(path, "SELECT count(*) FROM jobs WHERE state != 'completed'") == 0
    assert count(path, "SELECT count(DISTINCT key) FROM effects") == JOBS
    assert count(path, "SELECT count(*) FROM effects") == JOBS
    assert fleet.killed >= 5
    # It was a trial: kills met jobs at work, which were delivered again.
    assert count(path, "SELECT count(*) FROM jobs WHERE deliveries > 1") > 0
