"""saq: 32 at once, on Redis; it has no way to put in several."""

from __future__ import annotations

import asyncio

from redis.asyncio import from_url
from saq import Queue, Worker

from tests.bench.peers.kit import main
from tests.bench.peers.queues import PLACES, Work, redis

_COUNT = 0


async def noop(context: object, *, n: int) -> None:
    global _COUNT
    _COUNT += 1


async def _opened() -> Queue:
    await from_url(redis()).flushall()
    queue = Queue.from_url(redis())
    await queue.connect()
    return queue


async def _put(queue: Queue, n: int) -> None:
    for i in range(n):
        await queue.enqueue("noop", n=i)


async def _work(n: int) -> dict[str, float]:
    queue = await _opened()
    await _put(queue, n)
    worker = Worker(queue, functions=[noop], concurrency=PLACES)
    with Work(n) as work:
        running = asyncio.create_task(worker.start())
        while n > _COUNT:
            await asyncio.sleep(0.005)
        while await queue.count("incomplete"):
            await asyncio.sleep(0.005)
    await worker.stop()
    running.cancel()
    return work.found


async def _one(n: int) -> dict[str, float]:
    queue = await _opened()
    with Work(n) as work:
        await _put(queue, n)
    return work.found


def work(n: int) -> dict[str, float]:
    return asyncio.run(_work(n))


def one(n: int) -> dict[str, float]:
    return asyncio.run(_one(n))


if __name__ == "__main__":
    main(globals())
