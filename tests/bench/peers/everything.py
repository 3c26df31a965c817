"""everything-is-an-actor: actors on asyncio, supervised by their parent, a message at a time.

Its mailboxes are bounded; they are made large enough here. A restart builds a new object and keeps the task.
"""

from __future__ import annotations

import asyncio
from typing import Any

from actor_for_agents import Actor, ActorSystem
from actor_for_agents.supervision import OneForOneStrategy

from tests.bench.peers.kit import CpuTime, Memory, main

ROOMY = 10**7


class Echo(Actor):
    """Answers with the question."""

    async def on_receive(self, message: object) -> object:
        return message


class Failing(Actor):
    """Fails at every message but None."""

    done: asyncio.Event

    async def on_receive(self, message: object) -> None:
        if message is not None:
            raise RuntimeError("attempt failed")
        Failing.done.set()


class Parent(Actor):
    """Supervises one that fails."""

    child: Any

    def supervisor_strategy(self) -> OneForOneStrategy:
        return OneForOneStrategy(max_restarts=10**9, within_seconds=0.001)

    async def on_started(self) -> None:
        Parent.child = await self.context.spawn(Failing, "failing", mailbox_size=ROOMY)

    async def on_receive(self, message: object) -> None:
        pass


def tell(n: int) -> float:
    async def program() -> float:
        system = ActorSystem("bench")
        ref = await system.spawn(Echo, "sink", mailbox_size=ROOMY)
        with CpuTime(n) as spent:
            for number in range(n):
                await ref.tell(number)
            await ref.ask(0)
        await system.shutdown()
        return spent.each

    return asyncio.run(program())


def ask(n: int) -> float:
    async def program() -> float:
        system = ActorSystem("bench")
        ref = await system.spawn(Echo, "echo")
        with CpuTime(n) as spent:
            for number in range(n):
                await ref.ask(number)
        await system.shutdown()
        return spent.each

    return asyncio.run(program())


def life(n: int) -> float:
    async def program() -> float:
        system = ActorSystem("bench")
        with CpuTime(n) as spent:
            for number in range(n):
                await system.spawn(Echo, f"idle-{number}")
            await system.shutdown()
        return spent.each

    return asyncio.run(program())


def restart(n: int) -> float:
    async def program() -> float:
        Failing.done = asyncio.Event()
        system = ActorSystem("bench")
        with CpuTime(n) as spent:
            await system.spawn(Parent, "parent")
            for number in range(n):
                await Parent.child.tell(number)
            await Parent.child.tell(None)
            await Failing.done.wait()
        await system.shutdown()
        return spent.each

    return asyncio.run(program())


def memory(n: int) -> float:
    async def program() -> float:
        system = ActorSystem("bench")
        for number in range(10):
            await system.spawn(Echo, f"warm-{number}")
        before = Memory(n)
        for number in range(n):
            await system.spawn(Echo, f"idle-{number}")
        await asyncio.sleep(0.05)
        return before.each()

    return asyncio.run(program())


if __name__ == "__main__":
    main(globals())
