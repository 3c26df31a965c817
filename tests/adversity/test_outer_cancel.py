"""An outer scope that is cancelled, at every moment of a tree's life: always the ordered stop, never a random one."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace, coroutine

import pytest
import trio

from supervision import RestartPolicy, Supervisor, TreeFailed, Worker, supervisor
from supervision.supervisor import _through_interrupts
from tests.adversity.helpers import idle, serve

WORK = 0.5
"""Seconds of work in hand that a stop has to wait for."""


class Town:
    """A tree that can be caught in each phase, and a diary of who ended when."""

    def __init__(self) -> None:
        self.diary: list[str] = []

    def tree(self, phase: str) -> Supervisor:
        restart = RestartPolicy(max_restarts=0, initial_backoff=10, jitter=0)
        if phase == "giving up":
            restart = RestartPolicy(type="permanent", max_restarts=1, initial_backoff=0)
        return Supervisor(
            "t",
            [
                Worker("first", self.worker),
                Worker("second", self.worker),
                Worker(
                    phase.replace(" ", "-"),
                    getattr(self, phase.replace(" ", "_")),
                    restart=restart,
                    ready="signal" if phase == "waiting for readiness" else "run",
                ),
            ],
        )

    async def worker(self, ctx) -> None:
        try:
            with ctx.busy():
                while not ctx.stopping:
                    await ctx.sleep(1)
                await trio.sleep(WORK)
        finally:
            self.diary.append(ctx.name)

    async def at_once(self, ctx) -> None:
        await trio.sleep_forever()

    running = stopping = waiting_for_readiness = at_once

    async def in_backoff(self, ctx) -> None:
        raise OSError

    async def giving_up(self, ctx) -> None:
        await trio.sleep(1.75)
        raise OSError


PHASES = {
    "at once": 0,
    "waiting for readiness": 4,
    "running": 4,
    "in backoff": 4,
    # The second failure comes at 3.5; its siblings then have work in hand until 4.5.
    "giving up": 3.75,
}


@pytest.mark.parametrize("by_start", [False, True], ids=["serve", "nursery.start"])
@pytest.mark.parametrize("phase", PHASES)
async def test_cancelled_from_outside(phase, by_start, autojump_clock) -> None:
    """Cancelled in any phase, by the scope round it or round the nursery, the tree stops in reverse order and work finishes."""
    before = trio.lowlevel.current_statistics().tasks_living
    town = Town()
    serving = partial(serve, town.tree(phase))
    failed = False
    with trio.move_on_after(PHASES[phase]) as scope:
        try:
            if by_start:
                async with trio.open_nursery() as nursery:
                    await nursery.start(partial(supervisor.serve, town.tree(phase), log=False))
                    await trio.sleep_forever()
            else:
                await serving()
        except* TreeFailed:
            failed = True

    began = ["second", "first"] if phase != "at once" else town.diary
    assert town.diary == began
    assert began == sorted(began, reverse=True)
    assert failed == (phase == "giving up")
    assert scope.cancel_called
    assert trio.lowlevel.current_statistics().tasks_living == before
    if phase == "giving up":
        assert trio.current_time() == 4.5
    elif phase != "at once":
        assert trio.current_time() == PHASES[phase] + 2 * WORK


async def test_cancelled_while_it_stops_already(autojump_clock) -> None:
    """A cancellation that comes during the stop neither hurries nor breaks it."""
    town = Town()
    with trio.move_on_after(4.25):
        async with trio.open_nursery() as nursery:
            pool = await nursery.start(partial(supervisor.serve, town.tree("running"), log=False))
            await trio.sleep(4)
            pool.request_stop()
            await trio.sleep_forever()

    assert town.diary == ["second", "first"]
    assert trio.current_time() == 5
    assert pool.stop_report.forced == ()


async def test_cancelled_before_it_began(autojump_clock) -> None:
    """In a scope that is cancelled already nothing is left running, and no time passes."""
    before = trio.lowlevel.current_statistics().tasks_living
    with trio.CancelScope() as scope:
        scope.cancel()
        await serve(Supervisor("t", [Worker("w", idle)]))

    assert trio.current_time() == 0
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_cancelled_during_a_group_restart(autojump_clock) -> None:
    """A cancellation between the stop and the start of a group leaves it stopped."""
    starts: list[str] = []

    async def member(ctx) -> None:
        starts.append(ctx.name)
        await trio.sleep(1 if ctx.name == "a" else 100)
        raise OSError

    restart = RestartPolicy(initial_backoff=5, jitter=0)
    children = [Worker(name, member, restart=restart) for name in "abc"]
    with trio.move_on_after(3):
        await serve(Supervisor("t", children, strategy="one_for_all"))

    assert starts == ["a", "b", "c"]
    assert trio.current_time() == 3


class Never:
    """An event that nobody sets; it can be waited for outside of a run."""

    looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > 5  # a wait that begins again and again ends all the same

    @coroutine
    def wait(self):
        yield


def test_a_wait_that_is_thrown_away_does_not_begin_again() -> None:
    """A run that was given up takes its tree with it; the tree does not take it for an interrupt and wait on, for ever."""
    aborted, never = [], Never()
    waiting = _through_interrupts(SimpleNamespace(abort=aborted.append, done=never), never)
    waiting.send(None)
    waiting.close()

    assert aborted == []
