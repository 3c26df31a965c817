"""fauxtp: generic servers and supervisors on AnyIO; run on Trio here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

import anyio
from fauxtp import GenServer, call, cast
from fauxtp.actor.base import Actor
from fauxtp.supervisor import ChildSpec, RestartStrategy, Supervisor

from tests.bench.peers.kit import CpuTime, Memory, main


class Echo(GenServer):
    """Does nothing with a cast, answers a call with the question."""

    started: ClassVar[int] = 0

    async def init(self) -> None:
        Echo.started += 1

    async def handle_cast(self, request: object, state: object) -> object:
        return state

    async def handle_call(
        self, request: object, ref: object, state: object
    ) -> tuple[object, object]:
        return request, state


def run(program: Callable[[], Awaitable[float]]) -> float:
    return anyio.run(program, backend="trio")


def tell(n: int) -> float:
    async def program() -> float:
        async with anyio.create_task_group() as group:
            pid = await Echo.start(task_group=group)
            with CpuTime(n) as spent:
                for number in range(n):
                    await cast(pid, number)
                await call(pid, None)
            group.cancel_scope.cancel()
        return spent.each

    return run(program)


def ask(n: int) -> float:
    async def program() -> float:
        async with anyio.create_task_group() as group:
            pid = await Echo.start(task_group=group)
            with CpuTime(n) as spent:
                for number in range(n):
                    await call(pid, number)
            group.cancel_scope.cancel()
        return spent.each

    return run(program)


def life(n: int) -> float:
    async def program() -> float:
        with CpuTime(n) as spent:
            async with anyio.create_task_group() as group:
                for _ in range(n):
                    await Echo.start(task_group=group)
                while Echo.started < n:
                    await anyio.sleep(0)
                group.cancel_scope.cancel()
        return spent.each

    return run(program)


def restart(n: int) -> float:
    async def program() -> float:
        left, done = n, anyio.Event()

        class Failing(Actor):
            async def init(self) -> None:
                return None

            async def run(self, state: object) -> None:
                nonlocal left
                if left:
                    left -= 1
                    raise RuntimeError("attempt failed")
                done.set()
                await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            with CpuTime(n) as spent:
                children = [ChildSpec(Failing, "failing")]
                await Supervisor.start(children, RestartStrategy.ONE_FOR_ONE, task_group=group)
                await done.wait()
            group.cancel_scope.cancel()
        return spent.each

    return run(program)


def memory(n: int) -> float:
    async def program() -> float:
        async with anyio.create_task_group() as group:
            pids = [await Echo.start(task_group=group) for _ in range(10)]
            while Echo.started < 10:
                await anyio.sleep(0)
            before = Memory(n)
            pids += [await Echo.start(task_group=group) for _ in range(n)]
            while Echo.started < n + 10:
                await anyio.sleep(0)
            each = before.each()
            group.cancel_scope.cancel()
        return each

    return run(program)


if __name__ == "__main__":
    main(globals())
