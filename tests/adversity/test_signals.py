"""Signals, sent to the process for real: the first asks, the second does not."""

from __future__ import annotations

import signal

import pytest
import trio

from actors import Actor
from supervision import Supervisor, Worker
from supervision.events import Forced, StopRequested
from tests.adversity.helpers import idle, kinds, running


class Slow(Actor):
    """Has work in hand for ten seconds."""

    async def handle(self, message) -> None:
        await trio.sleep(10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("times", [1, 2])
async def test_the_first_signal_asks_and_the_second_forces(number, times, autojump_clock) -> None:
    """After one signal work in hand is finished; a second one, even of the other kind, cancels it at once."""
    other = signal.SIGINT if number is signal.SIGTERM else signal.SIGTERM
    events: list = []
    tree = Supervisor("t", [Worker("idle", idle), Worker("slow", Slow, shutdown=60)])
    async with running(tree, signals=True, stop_timeout=60, listeners=[events.append]) as pool:
        await pool.ref("slow").tell("work")
        await trio.sleep(1)
        signal.raise_signal(number)
        await trio.sleep(1)
        if times == 2:
            signal.raise_signal(other)
        await pool.wait_stopped()

        assert trio.current_time() == (10 if times == 1 else 2)
        assert kinds(events, StopRequested)[0].why == number.name
        assert [e.path for e in kinds(events, Forced)] == ["t/slow/0"] * (times - 1)


async def test_two_signals_at_once_are_two(autojump_clock) -> None:
    """Two different signals in one instant stop and cancel."""
    async with running(Supervisor("t", [Worker("slow", Slow)]), signals=True) as pool:
        await pool.ref("slow").tell("work")
        await trio.sleep(1)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        await pool.wait_stopped()

        assert trio.current_time() == 1


async def test_a_signal_during_the_start_ends_it(autojump_clock) -> None:
    """A tree that is still starting when SIGTERM comes stops, and `running` hands out a pool that says so."""

    async def poke() -> None:
        await trio.sleep(3)
        signal.raise_signal(signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poke)
        tree = Supervisor("t", [Worker("w", idle, ready="signal")])
        async with running(tree, signals=True) as pool:
            assert trio.current_time() == 3
            assert pool.stop_report is not None


async def test_handlers_are_put_back(autojump_clock) -> None:
    """After the tree the process has the signal handlers it had before."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    async with running(Supervisor("t", [Worker("w", idle)]), signals=True):
        await trio.sleep(1)
        assert [signal.getsignal(number) for number in numbers] != before

    assert [signal.getsignal(number) for number in numbers] == before
