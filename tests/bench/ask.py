"""Question and answer, with a timeout: one after the other, and 100 askers at once.

The floor is a ping-pong over two bare channels in its cheapest form: neither side's send is a
checkpoint, and there is no timeout and no error to bring back.
"""

from __future__ import annotations

import trio

from actors import Actor
from supervision import Supervisor, Worker, supervisor
from tests.bench.meter import CpuTime

IN_FLIGHT = 100


class Echo(Actor):
    """Answers with the question."""

    async def handle(self, message: object) -> object:
        return message


def _ours(n: int, askers: int) -> float:
    async def main() -> float:
        tree = Supervisor("bench", [Worker("echo", Echo)])
        async with supervisor.running(tree, log=False) as pool:
            ref = pool.ref("echo")

            async def asker() -> None:
                for number in range(n // askers):
                    await ref.ask(number)

            await ref.ask(None)
            with CpuTime(n) as spent:
                async with trio.open_nursery() as nursery:
                    for _ in range(askers):
                        nursery.start_soon(asker)
        return spent.each

    return trio.run(main)


def ours(n: int) -> float:
    return _ours(n, 1)


def ours_in_flight(n: int) -> float:
    return _ours(n, IN_FLIGHT)


def ping_pong(n: int) -> float:
    async def main() -> float:
        ask, asked = trio.open_memory_channel[object](1)
        answer, answered = trio.open_memory_channel[object](1)

        async def echo() -> None:
            async for message in asked:
                answer.send_nowait(message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo)
            with CpuTime(n) as spent:
                for number in range(n):
                    ask.send_nowait(number)
                    await answered.receive()
            nursery.cancel_scope.cancel()
        return spent.each

    return trio.run(main)
