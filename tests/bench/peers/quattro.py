"""quattro: task groups for asyncio; no actors. Here each task waits on a queue of its own."""

from __future__ import annotations

import asyncio

from quattro import TaskGroup

from tests.bench.peers.kit import CpuTime, Memory, main


async def _receiver() -> None:
    queue: asyncio.Queue[object] = asyncio.Queue()
    while True:
        await queue.get()


def life(n: int) -> float:
    async def program() -> float:
        with CpuTime(n) as spent:
            async with TaskGroup() as group:
                tasks = [group.create_task(_receiver()) for _ in range(n)]
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
        return spent.each

    return asyncio.run(program())


def memory(n: int) -> float:
    async def program() -> float:
        async with TaskGroup() as group:
            tasks = [group.create_task(_receiver()) for _ in range(10)]
            await asyncio.sleep(0)
            before = Memory(n)
            tasks += [group.create_task(_receiver()) for _ in range(n)]
            await asyncio.sleep(0)
            each = before.each()
            for task in tasks:
                task.cancel()
        return each

    return asyncio.run(program())


if __name__ == "__main__":
    main(globals())
