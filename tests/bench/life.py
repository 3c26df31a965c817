"""Many actors: starting and stopping them all, and the memory of one that waits for messages."""

from __future__ import annotations

from math import inf

import trio
from trio.testing import wait_all_tasks_blocked

from supervision import Supervisor, Worker, supervisor
from tests.bench.meter import CpuTime, Memory
from tests.bench.tell import Idle


async def _wait(ctx: object) -> None:
    await trio.sleep_forever()


def _start_and_stop(declare: object, n: int) -> float:
    async def main() -> float:
        with CpuTime(n) as spent:
            # Declaring the tree is a part of it: separate workers are that many specs.
            tree = Supervisor("bench", declare(n))  # type: ignore[operator]
            async with supervisor.running(tree, log=False):
                pass
        return spent.each

    return trio.run(main)


def replicas(n: int) -> float:
    return _start_and_stop(lambda n: [Worker("idle", Idle, replicas=n)], n)


def workers(n: int) -> float:
    return _start_and_stop(lambda n: [Worker(f"idle-{i}", Idle) for i in range(n)], n)


def functions(n: int) -> float:
    return _start_and_stop(lambda n: [Worker("idle", _wait, replicas=n)], n)


def tasks(n: int) -> float:
    async def main() -> float:
        with CpuTime(n) as spent:
            async with trio.open_nursery() as nursery:
                for _ in range(n):
                    nursery.start_soon(trio.sleep_forever)
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        return spent.each

    return trio.run(main)


def memory(n: int) -> float:
    async def main() -> float:
        warm = Worker("warm", Idle, replicas=10)
        room = Supervisor("room")
        async with supervisor.running(Supervisor("bench", [warm, room]), log=False) as pool:
            before = Memory(n)
            await pool.start_child("bench/room", Worker("idle", Idle, replicas=n))
            await wait_all_tasks_blocked()
            return before.each()

    return trio.run(main)


def memory_of_tasks(n: int) -> float:
    async def main() -> float:
        senders: list[object] = []

        async def task() -> None:
            send, receive = trio.open_memory_channel[object](inf)
            senders.append(send)
            async for _ in receive:
                pass

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(task)
            await wait_all_tasks_blocked()
            before = Memory(n)
            for _ in range(n):
                nursery.start_soon(task)
            await wait_all_tasks_blocked()
            each = before.each()
            nursery.cancel_scope.cancel()
        return each

    return trio.run(main)
