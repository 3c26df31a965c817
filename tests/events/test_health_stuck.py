"""Liveness of a run that failed and will not end."""

from __future__ import annotations

import trio

from supervision import Supervisor, Worker, supervisor


async def test_a_failed_run_that_will_not_end_turns_the_liveness_red(autojump_clock):
    """A run that its watchdog cancelled and that stays is not live: only a restart of the process can help."""
    release = trio.Event()

    async def deaf(ctx):
        with trio.CancelScope(shield=True):
            await release.wait()

    tree = Supervisor("app", [Worker("deaf", deaf, watchdog=5, shutdown=1)])
    async with supervisor.running(tree, log=False) as pool:
        await trio.sleep(4)
        assert pool.health().live
        await trio.sleep(4)
        health = pool.health()
        assert not health.live
        assert health.problems[0].startswith(
            "worker deaf (replica 0) failed: app/deaf/0 gave no heartbeat"
        )
        release.set()
        await trio.sleep(0.5)
        assert pool.health().live
