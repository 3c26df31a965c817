"""A process of the crash tests: one job worker on a shared database, until it is killed or told to stop.

Usage: python -m tests.jobs.crash_worker KIND WHERE SEED
"""

from __future__ import annotations

import sys
from random import Random

import trio

from actors import Backoff
from actors.jobs import JobWorker, open_sqlite
from supervision import RestartPolicy, Supervisor, Worker, supervisor
from tests.jobs.kit import on_postgres, sql

LEASE = 0.5


def act(db, key):
    """The effect: one row for each time it happens."""
    sql(db, "INSERT INTO effects VALUES (?)", key)


def opened(kind, where):
    """The engine that all processes share."""
    return open_sqlite(where, name="shop") if kind == "sqlite" else on_postgres(where, kind)


async def main(kind: str, where: str, seed: int) -> None:
    random = Random(seed)
    async with opened(kind, where) as engine:

        async def handler(job, ctx):
            # Some outlive their lease without renewing it, as a process that was held up would.
            await trio.sleep(random.choice([0.0, 0.02, 0.1]))
            if random.random() < 0.02:
                await trio.sleep(LEASE * 1.6)
            if random.random() < 0.05:
                raise ValueError("now and then it fails")
            await job.transaction(act, job.key)

        worker = JobWorker(
            "a",
            handler,
            engine=engine,
            concurrency=8,
            timeout=LEASE,
            renew=random.random() < 0.5,
            poll=0.1,
            claim_timeout=2.0,
            backoff=Backoff(initial=0.05, factor=1, maximum=0.05, jitter=0),
            max_deliveries=1000,
            random=random,
        )
        always = RestartPolicy(type="permanent", initial_backoff=0.05, max_restarts=0)
        print("ready", flush=True)
        tree = Supervisor("crash", [Worker("jobs", worker, restart=always)])
        await supervisor.serve(tree, log=False)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
