"""What counts as a sign of life."""

from __future__ import annotations

import pytest
import trio

from actors import Actor
from supervision import Supervisor, Worker
from tests.adversity.helpers import running


@pytest.mark.parametrize("ready", ["run", "signal"])
async def test_a_message_is_a_sign_of_life_however_late_it_was_ready(ready, autojump_clock) -> None:
    """Messages that an actor takes satisfy its watchdog, also if it said that it is ready only while it handled one."""
    handled: list[int] = []

    class Steady(Actor):
        async def handle(self, message) -> None:
            self.ctx.started()
            await trio.sleep(1)
            handled.append(message)

    tree = Supervisor("t", [Worker("w", Steady, ready=ready, watchdog=3)])
    async with running(tree, wait_ready=False) as pool:
        for number in range(12):
            pool.ref("w").tell_nowait(number)
        await trio.sleep(20)

        assert handled == list(range(12))
        assert pool.info("w").run == 1
