"""tapio: typed behaviours on asyncio. Messages are pydantic models, checked at every `tell` by default."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from tapio import ActorSystem, Behavior, Behaviors, Message
from tapio.actor import ActorRef
from tapio.actor.supervision import SupervisorStrategy

from tests.bench.peers.kit import CpuTime, Memory, main


class Number(Message):
    """A message; -1 is the last."""

    n: int


class Question(Message):
    """A message that wants an answer."""

    n: int
    reply_to: ActorRef[Number]


def tell(n: int) -> float:
    async def program() -> float:
        async with ActorSystem("bench") as system:
            done = asyncio.Event()

            async def handle(message: Number) -> Behavior[Number]:
                if message.n < 0:
                    done.set()
                return Behaviors.same()

            ref = system.spawn(Behaviors.receive_message(handle), name="sink")
            with CpuTime(n) as spent:
                for number in range(n):
                    ref.tell(Number(n=number))
                ref.tell(Number(n=-1))
                await done.wait()
            return spent.each

    return asyncio.run(program())


def ask(n: int) -> float:
    async def program() -> float:
        async with ActorSystem("bench") as system:

            async def handle(question: Question) -> Behavior[Question]:
                question.reply_to.tell(Number(n=question.n))
                return Behaviors.same()

            ref = system.spawn(Behaviors.receive_message(handle), name="echo")
            limit = timedelta(seconds=5)
            with CpuTime(n) as spent:
                for number in range(n):
                    await ref.ask(
                        lambda to, number=number: Question(n=number, reply_to=to),
                        expect=Number,
                        timeout=limit,
                    )
            return spent.each

    return asyncio.run(program())


def _idle(started: list[int]) -> object:
    async def handle(_: Number) -> Behavior[Number]:
        return Behaviors.same()

    def begin(_: object) -> Behavior[Number]:
        started[0] += 1
        return Behaviors.receive_message(handle)

    return Behaviors.setup(begin)


def life(n: int) -> float:
    async def program() -> float:
        started = [0]
        with CpuTime(n) as spent:
            system = ActorSystem("bench")
            behavior = _idle(started)
            for number in range(n):
                system.spawn(behavior, name=f"idle-{number}")
            while started[0] < n:
                await asyncio.sleep(0)
            await system.terminate()
        return spent.each

    return asyncio.run(program())


def restart(n: int) -> float:
    """A message fails, the behaviour is built anew; the task and the mailbox stay."""

    async def program() -> float:
        async with ActorSystem("bench") as system:
            done = asyncio.Event()

            async def handle(message: Number) -> Behavior[Number]:
                if message.n < 0:
                    done.set()
                    return Behaviors.same()
                raise RuntimeError("attempt failed")

            behavior = Behaviors.supervise(
                Behaviors.setup(lambda _: Behaviors.receive_message(handle))
            ).on_failure(SupervisorStrategy.restart())
            with CpuTime(n) as spent:
                ref = system.spawn(behavior, name="failing")
                for number in range(n):
                    ref.tell(Number(n=number))
                ref.tell(Number(n=-1))
                await done.wait()
            return spent.each

    return asyncio.run(program())


def memory(n: int) -> float:
    async def program() -> float:
        async with ActorSystem("bench") as system:
            started = [0]
            behavior = _idle(started)
            for number in range(10):
                system.spawn(behavior, name=f"warm-{number}")
            while started[0] < 10:
                await asyncio.sleep(0)
            before = Memory(n)
            for number in range(n):
                system.spawn(behavior, name=f"idle-{number}")
            while started[0] < n + 10:
                await asyncio.sleep(0)
            return before.each()

    return asyncio.run(program())


if __name__ == "__main__":
    main(globals())
