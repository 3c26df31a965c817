"""py-gen-server: generic servers on asyncio; no supervisor."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from py_gen_server import Actor

from tests.bench.peers.kit import CpuTime, Memory, main


class Echo(Actor):
    """Does nothing with a cast, answers a call with the question."""

    started: ClassVar[int] = 0

    async def init(self, env: object) -> None:
        Echo.started += 1

    async def handle_cast(self, message: object, env: object) -> None:
        pass

    async def handle_call(self, message: object, env: object, reply_sender: Any) -> None:
        reply_sender.send(message)


async def _start(n: int) -> list[Any]:
    wanted = Echo.started + n
    refs = [Echo().spawn() for _ in range(n)]
    while Echo.started < wanted:
        await asyncio.sleep(0)
    return refs


def tell(n: int) -> float:
    async def program() -> float:
        (ref,) = await _start(1)
        with CpuTime(n) as spent:
            for number in range(n):
                await ref.cast(number)
            await ref.call(0)
        ref.cancel()
        return spent.each

    return asyncio.run(program())


def ask(n: int) -> float:
    async def program() -> float:
        (ref,) = await _start(1)
        with CpuTime(n) as spent:
            for number in range(n):
                await ref.call(number)
        ref.cancel()
        return spent.each

    return asyncio.run(program())


def life(n: int) -> float:
    async def program() -> float:
        with CpuTime(n) as spent:
            refs = await _start(n)
            for ref in refs:
                ref.cancel()
            await asyncio.wait([ref.actor_task for ref in refs])
        return spent.each

    return asyncio.run(program())


def memory(n: int) -> float:
    async def program() -> float:
        refs = await _start(10)
        before = Memory(n)
        refs += await _start(n)
        each = before.each()
        for ref in refs:
            ref.cancel()
        return each

    return asyncio.run(program())


if __name__ == "__main__":
    main(globals())
