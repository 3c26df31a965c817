"""What counts as a sign of life."""

from __future__ import annotations

import pytest
import trio

from actors import Actor
from supervision import RestartPolicy, Supervisor, Worker
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


@pytest.mark.parametrize("late", ["watchdog", "start_timeout"])
async def test_a_slow_clean_up_does_not_replace_the_failure(late, autojump_clock) -> None:
    """Neither the watchdog nor the start timeout covers up why a run failed while it cleans up."""
    cleaned: list[float] = []

    class Broken(Actor):
        async def started(self, ctx) -> None:
            if late == "start_timeout":
                raise OSError("the cause")

        async def handle(self, message) -> None:
            raise OSError("the cause")

        async def stopped(self, ctx) -> None:
            await trio.sleep(5)
            cleaned.append(trio.current_time())

    rare = RestartPolicy(initial_backoff=60, max_backoff=60)
    tree = Supervisor("t", [Worker("w", Broken, restart=rare, **{late: 2})])
    async with running(tree, wait_ready=False) as pool:
        if late == "watchdog":
            pool.ref("w").tell_nowait("message")
        await pool.wait_state("w", "restarting")

        assert cleaned == [5]
        assert str(pool.info("w").error) == "the cause"


async def test_a_clean_up_that_never_ends_is_still_noticed(autojump_clock) -> None:
    """A failed run whose clean-up goes on past every limit is reported as stuck by its watchdog, later than others."""

    class Endless(Actor):
        async def handle(self, message) -> None:
            raise OSError

        async def stopped(self, ctx) -> None:
            with trio.CancelScope(shield=True):
                await over.wait()

    over = trio.Event()
    async with running(Supervisor("t", [Worker("w", Endless, watchdog=2, shutdown=3)])) as pool:
        pool.ref("w").tell_nowait("message")
        await trio.sleep(7)
        seen = [pool.health().live]
        await trio.sleep(10)
        seen.append(pool.health().live)
        over.set()

    assert seen == [True, False]
