"""Asks in a circle: who waits for whom if a function has several tasks."""

from __future__ import annotations

from math import inf

import pytest
import trio

from actors import Actor, AskCycle, HandlerFailed
from supervision import Supervisor, Worker, supervisor


class Back(Actor):
    """Asks whoever asked it."""

    async def handle(self, message) -> object:
        return await self.ctx.find("function").ask(message, timeout=inf)


@pytest.mark.parametrize("asks", ["the reader", "another task"])
async def test_a_function_that_reads_in_a_task_of_its_own(asks, autojump_clock) -> None:
    """Only the task in which a function reads its messages stands still while it asks; others may be asked back meanwhile."""
    answers: list[object] = []

    async def function(ctx) -> None:
        async def ask_back() -> None:
            try:
                answers.append(await ctx.find("back").ask("question", timeout=inf))
            except HandlerFailed as error:
                answers.append(type(error.__cause__))

        async def read() -> None:
            async for message in ctx.mailbox:
                if message == "begin":
                    await ask_back()
                else:
                    ctx.answer_later().send("answer")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.sleep(1)
            if asks == "the reader":
                ctx.ref.tell_nowait("begin")
            else:
                await ask_back()
            await trio.sleep_forever()

    tree = Supervisor("t", [Worker("function", function), Worker("back", Back)])
    async with supervisor.running(tree, log=False):
        await trio.sleep(2)

    assert answers == (["answer"] if asks == "another task" else [AskCycle])
