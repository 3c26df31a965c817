"""streaq: 32 at once, on Redis and on Trio, in a burst that ends when nothing is left."""

from __future__ import annotations

import trio
from streaq import Worker

from tests.bench.peers.kit import main
from tests.bench.peers.queues import PLACES, Work, batches, redis

_WORKER = Worker(redis(), concurrency=PLACES, anyio_backend="trio", handle_signals=False)
_COUNT = 0


@_WORKER.task(name="noop", ttl=0)
async def noop(n: int) -> None:
    global _COUNT
    _COUNT += 1


async def _put(n: int) -> None:
    for some in batches(n):
        await _WORKER.enqueue_many([noop.enqueue(i) for i in some])


async def _work(n: int) -> dict[str, float]:
    async with _WORKER:
        await _WORKER.redis.flushall()
        await _put(n)
    _WORKER.burst = True
    with Work(n) as work:
        await _WORKER.run_async()
    assert n == _COUNT, _COUNT
    return work.found


async def _one(n: int) -> dict[str, float]:
    async with _WORKER:
        await _WORKER.redis.flushall()
        with Work(n) as work:
            for i in range(n):
                await noop.enqueue(i)
    return work.found


async def _many(n: int) -> dict[str, float]:
    async with _WORKER:
        await _WORKER.redis.flushall()
        with Work(n) as work:
            await _put(n)
    return work.found


def work(n: int) -> dict[str, float]:
    return trio.run(_work, n)


def one(n: int) -> dict[str, float]:
    return trio.run(_one, n)


def many(n: int) -> dict[str, float]:
    return trio.run(_many, n)


if __name__ == "__main__":
    main(globals())
