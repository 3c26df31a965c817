"""One worker holds the event loop up: time goes on, nobody else can do anything, and nobody else is to blame."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from supervision import RestartPolicy, Supervisor, Worker
from supervision.events import Failed, Forced
from tests.adversity.helpers import kinds, running

MANY = 8
"""Trio wakes who is due at one time in any order: with this many, one would come too late."""


def stand_still(clock: MockClock, seconds: float) -> None:
    """What a blocking call does to everybody else."""
    clock.jump(seconds)


async def test_silence_while_the_loop_stood_still_is_none(autojump_clock) -> None:
    """A watchdog lets a run speak first that could not; one that goes on being silent is ended."""
    seen: list = []

    async def beats(ctx) -> None:
        while True:
            ctx.heartbeat()
            await trio.sleep(1)

    async def silent(ctx) -> None:
        await trio.sleep(2.5)
        ctx.heartbeat()
        await trio.sleep_forever()

    once = RestartPolicy(max_restarts=1, initial_backoff=100)
    tree = Supervisor(
        "t",
        [
            Worker("beats", beats, replicas=MANY, watchdog=5),
            Worker("silent", silent, watchdog=5, restart=once),
        ],
    )
    async with running(tree, listeners=[seen.append]) as pool:
        await trio.sleep(3.5)
        stand_still(autojump_clock, 60)
        await trio.sleep(10)
        assert [info.restarts for info in pool.workers()] == [0] * MANY + [1]

    assert [event.path for event in kinds(seen, Failed)] == ["t/silent/0"]


async def test_a_standstill_gives_no_more_than_its_own_time(autojump_clock) -> None:
    """However long it was, what is silent afterwards has the length of its watchdog once more."""
    seen: list = []

    async def silent(ctx) -> None:
        await trio.sleep_forever()

    tree = Supervisor("t", [Worker("w", silent, watchdog=5)])
    async with running(tree, listeners=[seen.append]):
        await trio.sleep(1)
        stand_still(autojump_clock, 3600)
        await trio.sleep(20)

    assert kinds(seen, Failed)[0].time == pytest.approx(3601 + 5)


async def test_a_start_that_could_not_go_on_is_not_late(autojump_clock) -> None:
    """A start timeout lets a run become ready first that had all it waited for; one that needs longer is ended."""

    async def starts(ctx) -> None:
        for _ in range(3):
            await trio.sleep(1)
        ctx.started()
        await trio.sleep_forever()

    async def never(ctx) -> None:
        await trio.sleep_forever()

    options = {"ready": "signal", "start_timeout": 5}
    tree = Supervisor(
        "t",
        [
            Supervisor("s", [Worker("starts", starts, replicas=MANY, **options)]),
            Worker("w", never, **options),
        ],
    )
    async with running(tree, wait_ready=False) as pool:
        await trio.sleep(0.5)
        stand_still(autojump_clock, 60)
        await trio.sleep(6)
        phases = [info.phase for info in pool.workers()]
        assert phases == ["ready"] * MANY + ["starting"]
        await trio.sleep(10)
        assert pool.info("t/w/0").restarts > 0


@pytest.mark.parametrize("stop_timeout", [10, 60])
async def test_work_that_was_done_in_time_is_not_cut(stop_timeout, autojump_clock) -> None:
    """At a stop deadline that comes while the loop stands still, what had only to be told of its end ends in order."""
    seen, done = [], []

    async def works(ctx) -> None:
        with ctx.busy():
            await trio.sleep(5)
            done.append(ctx.replica)
        await trio.sleep_forever()

    async def deaf(ctx) -> None:
        with ctx.busy():
            await trio.sleep_forever()

    tree = Supervisor(
        "t",
        [
            Worker("deaf", deaf, shutdown=10),
            Worker("works", works, replicas=MANY, shutdown=10),
        ],
    )
    async with running(tree, stop_timeout=stop_timeout, listeners=[seen.append]) as pool:
        await trio.sleep(1)
        pool.request_stop()
        await trio.sleep(1)
        stand_still(autojump_clock, 30)
        await pool.wait_stopped()

    assert sorted(done) == list(range(MANY))
    assert {event.path for event in kinds(seen, Forced)} <= {"t/deaf/0"}
