"""`ctx.sleep`: a sleep that a stop ends, and that tells whether it was whole."""

from __future__ import annotations

from math import inf

import pytest
import trio

from supervision import Supervisor, Worker, supervisor


async def test_a_whole_sleep_says_so(autojump_clock) -> None:
    """A sleep that nobody ends lasts as long as asked and returns True."""
    seen = []

    async def run(ctx) -> None:
        seen.append((await ctx.sleep(3), trio.current_time()))
        seen.append((await ctx.sleep(0), trio.current_time()))

    await supervisor.serve(Supervisor("t", [Worker("w", run)]), log=False)

    assert seen == [(True, 3), (True, 3)]


@pytest.mark.parametrize("seconds", [100, inf])
async def test_a_stop_ends_a_sleep_and_the_run_sees_it(autojump_clock, seconds: float) -> None:
    """A stop wakes the sleeper with False at once; the run ends at its next checkpoint."""
    seen = []

    async def run(ctx) -> None:
        seen.append(await ctx.sleep(seconds))
        seen.append((ctx.stopping, trio.current_time()))
        await trio.lowlevel.checkpoint()
        seen.append("never reached")

    async with supervisor.running(Supervisor("t", [Worker("w", run)]), log=False) as pool:
        await trio.sleep(2)
        report = await pool.shutdown()

    assert seen == [False, (True, 2)]
    assert report.orderly == ("t/w/0",)


async def test_a_busy_run_goes_on_after_its_sleep_was_ended(autojump_clock) -> None:
    """Inside a busy block the run may finish its work after a stop ended its sleep; a new sleep is none."""
    seen = []

    async def run(ctx) -> None:
        with ctx.busy():
            seen.append(await ctx.sleep(100))
            await trio.sleep(1)
            seen.append(await ctx.sleep(100))
            seen.append(trio.current_time())

    async with supervisor.running(Supervisor("t", [Worker("w", run)]), log=False) as pool:
        await trio.sleep(2)
        await pool.shutdown()

    assert seen == [False, False, 3]


async def test_a_sleep_can_be_cancelled_from_inside(autojump_clock) -> None:
    """A deadline of the run's own ends its sleep like any other, and leaves no timer behind."""
    seen = []

    async def run(ctx) -> None:
        with trio.move_on_after(1) as scope:
            await ctx.sleep(100)
        seen.append((scope.cancelled_caught, trio.current_time()))
        await ctx.sleep(1)
        seen.append(trio.current_time())

    await supervisor.serve(Supervisor("t", [Worker("w", run)]), log=False)

    assert seen == [(True, 1), 2]
