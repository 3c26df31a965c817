"""Timeouts of asks: of one length they stand in one line, and still each ends at its own time."""

from __future__ import annotations

import trio

from actors import Actor, AskTimeout
from actors.clock import TimerQueue
from supervision import Supervisor, Worker
from supervision.supervisor import running


class Slow(Actor):
    """Takes as many seconds as it is told, one question after the other."""

    async def handle(self, message) -> object:
        await trio.sleep(message)
        return self.ctx.deadline


class Question:
    """What a lane must know of an ask."""

    def __init__(self, end: float) -> None:
        self.task: object = self
        self.end = end
        self.expired_at: float | None = None

    def expire(self) -> None:
        self.expired_at = trio.current_time()
        self.task = None


def lane_of(timers: TimerQueue, seconds: float):
    """The lane for a length that has been asked for twice in a row."""
    timers.lane(seconds)
    lane = timers.lane(seconds)
    assert lane is not None
    return lane


async def test_each_ask_times_out_at_its_own_time(autojump_clock) -> None:
    """Asks with one timeout, begun at different times, behind others that are answered, end on the dot."""
    ended: list[tuple[float, str]] = []

    async def ask(begin: float, seconds: float) -> None:
        await trio.sleep(begin)
        try:
            await ref.ask(seconds, timeout=2)
            ended.append((trio.current_time(), "answer"))
        except AskTimeout:
            ended.append((trio.current_time(), "timeout"))

    tree = Supervisor("t", [Worker("slow", Slow)])
    async with running(tree, log=False) as pool, trio.open_nursery() as nursery:
        ref = pool.ref("slow")
        for begin, seconds in ((0, 0.5), (0.25, 0.5), (0.5, 10), (0.75, 1), (1.25, 1)):
            nursery.start_soon(ask, begin, seconds)

    assert ended == [
        (0.5, "answer"),
        (1.0, "answer"),
        (2.5, "timeout"),
        (2.75, "timeout"),
        (3.25, "timeout"),
    ]


async def test_the_deadline_of_an_ask_is_the_nearest_one(autojump_clock) -> None:
    """A handler sees its caller's own deadline when that comes before the timeout, else the timeout."""
    async with running(Supervisor("t", [Worker("slow", Slow)]), log=False) as pool:
        ref = pool.ref("slow")
        with trio.move_on_after(3):
            assert await ref.ask(1, timeout=5) == 3
        with trio.move_on_after(30):
            assert await ref.ask(1, timeout=5) == 6


async def test_a_lane_forgets_who_no_longer_waits(autojump_clock) -> None:
    """Behind one who waits long, thousands who are answered do not pile up."""
    timers = TimerQueue()
    lane = lane_of(timers, 5.0)
    lane.add(Question(5.0))
    for _ in range(5000):
        answered = Question(5.0)
        lane.add(answered)
        answered.task = None

    assert len(lane) < 200


async def test_a_lane_goes_when_nobody_is_left_in_it(autojump_clock) -> None:
    """A length of timeout that is not used any more costs nothing, and can get a lane again."""
    timers = TimerQueue()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        first, second = Question(5.0), Question(6.0)
        lane = lane_of(timers, 5.0)
        lane.add(first)
        await trio.sleep(1)
        lane.add(second)
        first.task = None
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert (first.expired_at, second.expired_at) == (None, 6.0)
    assert timers.lanes == {}
    assert timers.statistics().active == 0


async def test_lengths_that_differ_each_time_get_no_lane(autojump_clock) -> None:
    """A timeout that is computed anew for each ask does not make a lane for each."""
    timers = TimerQueue()

    assert [timers.lane(seconds / 10) for seconds in range(1, 100)] == [None] * 99
