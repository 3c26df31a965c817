"""oban: the Python package; a queue of 32 places, watched until its table says that all is done."""

from __future__ import annotations

import asyncio
from typing import Any

from oban import Oban, worker
from oban.schema import install

from tests.bench.peers.kit import main
from tests.bench.peers.queues import PLACES, Work, batches, database

_COUNT = 0


@worker(queue="default")
class Noop:
    async def process(self, job: object) -> None:
        global _COUNT
        _COUNT += 1


async def _opened() -> Any:
    pool = await Oban.create_pool(database(), min_size=2, max_size=10)
    await install(pool)
    return pool


async def _put(client: Oban, n: int) -> None:
    for some in batches(n):
        await client.enqueue_many([Noop.new({"n": i}) for i in some])


async def _done(pool: Any) -> int:
    async with pool.connection() as db:
        cursor = await db.execute("SELECT count(*) FROM oban_jobs WHERE state = 'completed'")
        return int((await cursor.fetchone())[0])


async def _work(n: int) -> dict[str, float]:
    pool = await _opened()
    await _put(Oban(pool=pool), n)
    oban = Oban(pool=pool, queues={"default": PLACES})
    with Work(n) as work:
        await oban.start()
        while n > _COUNT:
            await asyncio.sleep(0.005)
        while await _done(pool) < n:
            await asyncio.sleep(0.005)
    await oban.stop()
    return work.found


async def _one(n: int) -> dict[str, float]:
    client = Oban(pool=await _opened())
    with Work(n) as work:
        for i in range(n):
            await client.enqueue(Noop.new({"n": i}))
    return work.found


async def _many(n: int) -> dict[str, float]:
    client = Oban(pool=await _opened())
    with Work(n) as work:
        await _put(client, n)
    return work.found


def work(n: int) -> dict[str, float]:
    return asyncio.run(_work(n))


def one(n: int) -> dict[str, float]:
    return asyncio.run(_one(n))


def many(n: int) -> dict[str, float]:
    return asyncio.run(_many(n))


if __name__ == "__main__":
    main(globals())
