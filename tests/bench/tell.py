"""One-way messages: one sender that never waits, one receiver that does nothing.

The channel and the queue deliver a bare item to a loop; ours calls a handler for each as well.
"""

from __future__ import annotations

import asyncio
from math import inf

import trio

from actors import Actor, MailboxSpec
from supervision import Supervisor, Worker, supervisor
from tests.bench.meter import CpuTime


class Idle(Actor):
    """Takes messages and does nothing with them."""

    async def handle(self, message: object) -> None:
        pass


def ours(n: int) -> float:
    async def main() -> float:
        sink = Worker("sink", Idle, mailbox=MailboxSpec(capacity=inf))
        async with supervisor.running(Supervisor("bench", [sink]), log=False) as pool:
            ref = pool.ref("sink")
            with CpuTime(n) as spent:
                for number in range(n):
                    ref.tell_nowait(number)
                await ref.ask(None)  # queued behind all of them: when it is answered they are done
        return spent.each

    return trio.run(main)


def channel(n: int) -> float:
    async def main() -> float:
        send, receive = trio.open_memory_channel[object](inf)

        async def sink() -> None:
            async for _ in receive:
                pass

        with CpuTime(n) as spent:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sink)
                for number in range(n):
                    send.send_nowait(number)
                send.close()
        return spent.each

    return trio.run(main)


def asyncio_queue(n: int) -> float:
    async def main() -> float:
        queue: asyncio.Queue[object] = asyncio.Queue()

        async def sink() -> None:
            while await queue.get() is not None:
                pass

        task = asyncio.create_task(sink())
        with CpuTime(n) as spent:
            for number in range(n):
                queue.put_nowait(number)
            queue.put_nowait(None)
            await task
        return spent.each

    return asyncio.run(main())
