"""procrastinate: 32 at once, until nothing is left; without LISTEN, as everything is there at the start."""

from __future__ import annotations

import asyncio

from procrastinate import App, PsycopgConnector

from tests.bench.peers.kit import main
from tests.bench.peers.queues import PLACES, Work, batches, database

_COUNT = 0


async def _noop(n: int) -> None:
    global _COUNT
    _COUNT += 1


async def _opened() -> App:
    app = App(connector=PsycopgConnector(conninfo=database(), min_size=4, max_size=20))
    app.task(name="noop")(_noop)
    await app.open_async()
    await app.schema_manager.apply_schema_async()
    return app


async def _put(app: App, n: int) -> None:
    task = app.tasks["noop"]
    for some in batches(n):
        await task.batch_defer_async(*({"n": i} for i in some))


async def _work(n: int) -> dict[str, float]:
    app = await _opened()
    await _put(app, n)
    await app.connector.execute_query_async("ANALYZE")
    with Work(n) as work:
        await app.run_worker_async(
            concurrency=PLACES, wait=False, install_signal_handlers=False, listen_notify=False
        )
    row = await app.connector.execute_query_one_async(
        "SELECT count(*) AS done FROM procrastinate_jobs WHERE status = 'succeeded'"
    )
    assert row["done"] == n == _COUNT, (row, _COUNT)
    return work.found


async def _one(n: int) -> dict[str, float]:
    app = await _opened()
    task = app.tasks["noop"]
    with Work(n) as work:
        for i in range(n):
            await task.defer_async(n=i)
    return work.found


async def _many(n: int) -> dict[str, float]:
    app = await _opened()
    with Work(n) as work:
        await _put(app, n)
    return work.found


def work(n: int) -> dict[str, float]:
    return asyncio.run(_work(n))


def one(n: int) -> dict[str, float]:
    return asyncio.run(_one(n))


def many(n: int) -> dict[str, float]:
    return asyncio.run(_many(n))


if __name__ == "__main__":
    main(globals())
