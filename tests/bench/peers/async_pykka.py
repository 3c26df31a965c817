"""async-pykka: pykka's shape on asyncio; no supervisor."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from async_pykka import ActorRegistry, AsyncioActor

from tests.bench.peers.kit import CpuTime, Memory, main


class Echo(AsyncioActor):
    """Answers with the question."""

    started: ClassVar[int] = 0

    async def on_start(self) -> None:
        Echo.started += 1

    async def on_receive(self, message: object) -> object:
        return message


async def _start(n: int) -> None:
    wanted = Echo.started + n
    for _ in range(n):
        Echo.start()
    while Echo.started < wanted:
        await asyncio.sleep(0)


def tell(n: int) -> float:
    async def program() -> float:
        ref = Echo.start()
        await asyncio.sleep(0)
        with CpuTime(n) as spent:
            for number in range(n):
                ref.tell(number)
            await ref.ask(0)
        return spent.each

    return asyncio.run(program())


def ask(n: int) -> float:
    async def program() -> float:
        ref = Echo.start()
        await asyncio.sleep(0)
        with CpuTime(n) as spent:
            for number in range(n):
                await ref.ask(number)
        return spent.each

    return asyncio.run(program())


def life(n: int) -> float:
    async def program() -> float:
        with CpuTime(n) as spent:
            await _start(n)
            await ActorRegistry.stop_all()
        return spent.each

    return asyncio.run(program())


def memory(n: int) -> float:
    async def program() -> float:
        await _start(10)
        before = Memory(n)
        await _start(n)
        return before.each()

    return asyncio.run(program())


if __name__ == "__main__":
    main(globals())
