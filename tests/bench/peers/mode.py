"""mode: asyncio services and supervisors; no messages.

After its first restart in a row its supervisor finds a failure by polling every 5 s: CPU time does
not show that wait.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from mode import Service
from mode.supervisors import OneForOneSupervisor

from tests.bench.peers.kit import CpuTime, Memory, main


class Idle(Service):
    """Waits for its end."""

    @Service.task
    async def _wait(self) -> None:
        await self._stopped.wait()


class Failing(Service):
    """Fails while attempts are left."""

    left: ClassVar[int] = 0
    done: ClassVar[asyncio.Event]

    @Service.task
    async def _attempt(self) -> None:
        if Failing.left:
            Failing.left -= 1
            raise RuntimeError("attempt failed")
        Failing.done.set()
        await self._stopped.wait()


def life(n: int) -> float:
    async def program() -> float:
        with CpuTime(n) as spent:
            services = [Idle() for _ in range(n)]
            for service in services:
                await service.start()
            for service in services:
                await service.stop()
        return spent.each

    return asyncio.run(program())


def restart(n: int) -> float:
    async def program() -> float:
        Failing.left, Failing.done = n, asyncio.Event()
        supervisor = OneForOneSupervisor(max_restarts=1e9, over=1.0)
        supervisor.add(Failing())
        with CpuTime(n) as spent:
            await supervisor.start()
            await Failing.done.wait()
        return spent.each

    return asyncio.run(program())


def memory(n: int) -> float:
    async def program() -> float:
        services = [Idle() for _ in range(10)]
        for service in services:
            await service.start()
        before = Memory(n)
        services += [Idle() for _ in range(n)]
        for service in services[10:]:
            await service.start()
        await asyncio.sleep(0.05)
        return before.each()

    return asyncio.run(program())


if __name__ == "__main__":
    main(globals())
