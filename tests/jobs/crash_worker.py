"""A process of the crash test: one job worker on a shared SQLite file, until it is killed or told to stop.

Usage: python -m tests.jobs.crash_worker FILE RECIPE SEED
"""

from __future__ import annotations

import sys
from random import Random

import trio

from actors import Backoff
from actors.jobs import JobWorker, open_sqlite
from supervision import Supervisor, Worker, supervisor


def act(db, key):
    """The effect: one row for each time it happens."""
    db.execute("INSERT INTO effects VALUES (?)", (key,))


async def main(path: str, recipe: str, seed: int) -> None:
    random = Random(seed)
    async with open_sqlite(path, name="shop") as engine:

        async def handler(job, ctx):
            # Some outlive their lease without renewing it, as a process that was held up would.
            await trio.sleep(random.choice([0.0, 0.02, 0.1, 0.3]))
            if random.random() < 0.02:
                await trio.sleep(0.8)
            if random.random() < 0.05:
                raise ValueError("now and then it fails")
            if recipe == "transaction":
                await job.transaction(act, job.key)
            else:
                await engine.run(act, job.key)
            return {}

        worker = JobWorker(
            "a",
            handler,
            engine=engine,
            concurrency=8,
            timeout=0.5,
            renew=random.random() < 0.5,
            poll=0.1,
            backoff=Backoff(initial=0.05, factor=1, maximum=0.05, jitter=0),
            max_deliveries=1000,
            random=random,
        )
        print("ready", flush=True)
        tree = Supervisor("crash", [Worker("jobs", worker)])
        await supervisor.serve(tree, log=False, signals=False)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
