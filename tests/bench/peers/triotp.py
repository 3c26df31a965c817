"""triotp: OTP's generic server and supervisors on Trio.

Its mailbox is a rendezvous: a sender waits until the receiver takes the message. The version for
Python 3.11 needs an old Trio, so its Trio is not the one that the rest is measured on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import ModuleType

import trio
from logbook import NullHandler
from triotp import dynamic_supervisor, gen_server, mailbox, supervisor

from tests.bench.peers.kit import CpuTime, Memory, main

LIMITLESS = supervisor.options(max_restarts=10**9, max_seconds=1)
PERMANENT = supervisor.restart_strategy.PERMANENT
TEMPORARY = supervisor.restart_strategy.TEMPORARY


def server(**callbacks: object) -> ModuleType:
    """A generic server is a module of callbacks."""
    made = ModuleType("server")

    async def init(_: object) -> None:
        return None

    made.__dict__.update({"init": init, **callbacks})
    return made


def run(program: Callable[[], Awaitable[float]]) -> float:
    async def prepared() -> float:
        mailbox._init()
        return await program()

    with NullHandler().applicationbound():
        return trio.run(prepared)


async def _supervised(nursery: trio.Nursery, module: ModuleType) -> None:
    child = supervisor.child_spec("one", gen_server.start, [module, None, "one"], PERMANENT)
    await nursery.start(supervisor.start, [child], LIMITLESS)
    while mailbox._resolve("one") is None:
        await trio.sleep(0)


def tell(n: int) -> float:
    async def program() -> float:
        done = trio.Event()

        async def handle_cast(message: object, state: object) -> tuple[object, object]:
            if message is None:
                done.set()
            return gen_server.NoReply(), state

        async with trio.open_nursery() as nursery:
            await _supervised(nursery, server(handle_cast=handle_cast))
            with CpuTime(n) as spent:
                for number in range(n):
                    await gen_server.cast("one", number)
                await gen_server.cast("one", None)
                await done.wait()
            nursery.cancel_scope.cancel()
        return spent.each

    return run(program)


def ask(n: int) -> float:
    async def program() -> float:
        async def handle_call(message: object, _: object, state: object) -> tuple[object, object]:
            return gen_server.Reply(message), state

        async with trio.open_nursery() as nursery:
            await _supervised(nursery, server(handle_call=handle_call))
            with CpuTime(n) as spent:
                for number in range(n):
                    await gen_server.call("one", number)
            nursery.cancel_scope.cancel()
        return spent.each

    return run(program)


async def _many(nursery: trio.Nursery, started: list[int], n: int, parent: str) -> None:
    async def init(_: object) -> None:
        started[0] += 1

    module, wanted = server(init=init), started[0] + n
    for number in range(n):
        child = supervisor.child_spec(str(number), gen_server.start, [module], TEMPORARY)
        await dynamic_supervisor.start_child(parent, child)
    while started[0] < wanted:
        await trio.sleep(0)


def life(n: int) -> float:
    async def program() -> float:
        with CpuTime(n) as spent:
            async with trio.open_nursery() as nursery:
                parent = await nursery.start(dynamic_supervisor.start, LIMITLESS)
                await _many(nursery, [0], n, parent)
                nursery.cancel_scope.cancel()
        return spent.each

    return run(program)


def restart(n: int) -> float:
    async def program() -> float:
        left, done = n, trio.Event()

        async def attempt() -> None:
            nonlocal left
            if left:
                left -= 1
                await trio.sleep(0)
                raise RuntimeError("attempt failed")
            done.set()
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            with CpuTime(n) as spent:
                child = supervisor.child_spec("failing", attempt, [], PERMANENT)
                await nursery.start(supervisor.start, [child], LIMITLESS)
                await done.wait()
            nursery.cancel_scope.cancel()
        return spent.each

    return run(program)


def memory(n: int) -> float:
    async def program() -> float:
        started = [0]
        async with trio.open_nursery() as nursery:
            parent = await nursery.start(dynamic_supervisor.start, LIMITLESS)
            await _many(nursery, started, 10, parent)
            before = Memory(n)
            await _many(nursery, started, n, parent)
            each = before.each()
            nursery.cancel_scope.cancel()
        return each

    return run(program)


if __name__ == "__main__":
    main(globals())
