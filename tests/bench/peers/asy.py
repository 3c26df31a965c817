"""asy: supervised coroutines on asyncio; no messages.

Only `RestartAllException` restarts, and then every task of the supervisor; other failures are logged.
"""

from __future__ import annotations

import asyncio

import asy
from asy.exceptions import RestartAllException

from tests.bench.peers.kit import CpuTime, Memory, main


def life(n: int) -> float:
    async def program() -> float:
        token = asy.CancelToken()
        with CpuTime(n) as spent:
            supervised = await _started(n, token)
            token.is_cancelled = True
            await supervised
        return spent.each

    return asyncio.run(program())


async def _started(n: int, token: asy.CancelToken) -> asyncio.Task[object]:
    started = 0

    async def wait() -> None:
        nonlocal started
        started += 1
        await asyncio.Event().wait()

    supervised = asyncio.create_task(asy.supervise(*[wait] * n)(token))
    while started < n:
        await asyncio.sleep(0)
    return supervised


def restart(n: int) -> float:
    async def program() -> float:
        left = n

        async def attempt() -> None:
            nonlocal left
            if left:
                left -= 1
                await asyncio.sleep(0)
                raise RestartAllException

        with CpuTime(n) as spent:
            await asy.supervise(attempt)(asy.CancelToken())
        assert not left
        return spent.each

    return asyncio.run(program())


def memory(n: int) -> float:
    async def program() -> float:
        token = asy.CancelToken()
        before = Memory(n)
        await _started(n, token)
        return before.each()

    return asyncio.run(program())


if __name__ == "__main__":
    main(globals())
