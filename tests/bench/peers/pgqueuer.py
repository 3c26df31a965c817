"""pgqueuer: batches of 32 over asyncpg, drained until nothing is left."""

from __future__ import annotations

import asyncio

import asyncpg
from pgqueuer.db import AsyncpgDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from tests.bench.peers.kit import main
from tests.bench.peers.queues import PLACES, Work, batches, database


async def _installed(url: str) -> Queries:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    return queries


async def _put(queries: Queries, n: int) -> None:
    for some in batches(n):
        await queries.enqueue(
            ["noop"] * len(some), [b'{"n":%d}' % i for i in some], [0] * len(some)
        )


async def _work(n: int) -> dict[str, float]:
    url = database()
    await _put(await _installed(url), n)
    manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(url))))
    count = 0

    @manager.entrypoint("noop")
    async def noop(job: object) -> None:
        nonlocal count
        count += 1

    with Work(n) as work:
        await manager.run(batch_size=PLACES, mode=QueueExecutionMode.drain)
    assert count == n, count
    return work.found


async def _one(n: int) -> dict[str, float]:
    queries = await _installed(database())
    with Work(n) as work:
        for i in range(n):
            await queries.enqueue("noop", b'{"n":%d}' % i, 0)
    return work.found


async def _many(n: int) -> dict[str, float]:
    queries = await _installed(database())
    with Work(n) as work:
        await _put(queries, n)
    return work.found


def work(n: int) -> dict[str, float]:
    return asyncio.run(_work(n))


def one(n: int) -> dict[str, float]:
    return asyncio.run(_one(n))


def many(n: int) -> dict[str, float]:
    return asyncio.run(_many(n))


if __name__ == "__main__":
    main(globals())
