"""Listeners that fail, dawdle or block: the tree does not care."""

from __future__ import annotations

import io
import logging

import pytest
import trio

from supervision import RestartPolicy, Supervisor, Worker
from supervision.events import TreeStopped
from tests.adversity.helpers import idle, running

TREE = Supervisor("t", [Worker("w", idle)])


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_failing_listener_disturbs_nobody(is_async, autojump_clock, caplog) -> None:
    """A listener that raises at each event is logged and counted, gets the next event all the same, and stops nothing."""
    seen: list = []
    good: list = []

    def fails(event) -> None:
        seen.append(event)
        raise LookupError

    async def fails_later(event) -> None:
        await trio.lowlevel.checkpoint()
        fails(event)

    listener = fails_later if is_async else fails
    with caplog.at_level(logging.CRITICAL, logger="actors"):
        async with running(TREE, listeners=[listener, good.append]) as pool:
            await trio.sleep(1)

    assert [e.seq for e in seen] == [e.seq for e in good]
    assert isinstance(good[-1], TreeStopped)
    assert pool.snapshot().events.tap_errors == len(seen)


async def test_a_slow_listener_misses_events_and_is_told(autojump_clock) -> None:
    """A listener slower than the tree loses the oldest events, is told how many, and delays neither restarts nor the end."""
    restart = RestartPolicy(max_restarts=0, initial_backoff=0)
    seen: list = []

    async def fails(ctx) -> None:
        await trio.sleep(0.01)
        raise OSError

    async def slow(event) -> None:
        await trio.sleep(50)
        seen.append(event)

    async with running(
        Supervisor("t", [Worker("w", fails, restart=restart)]), listeners=[slow]
    ) as pool:
        await trio.sleep(100.005)
        assert pool.info("w").run == 10_000 + 1

    assert trio.current_time() <= 101.005
    assert pool.snapshot().events.dropped > 1000


@pytest.mark.parametrize("since", [0, 500])
async def test_a_blocked_listener_holds_nothing_up(since, autojump_clock) -> None:
    """A listener that never returns costs the end of the tree a second at most, and nothing if it has been stuck for long."""
    events: list = []

    async def blocked(event) -> None:
        if trio.current_time() >= since:
            await trio.sleep_forever()

    async with running(TREE, listeners=[blocked, events.append]):
        await trio.sleep(500)

    assert trio.current_time() == (501 if since else 500)
    assert isinstance(events[-1], TreeStopped)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_listener_that_exits_stops_the_tree(is_async, autojump_clock) -> None:
    """SystemExit in a listener, as Ctrl-C in one, stops the tree in order and comes out."""
    ended: list[float] = []

    def exits(event) -> None:
        if trio.current_time() >= 1:
            raise SystemExit(7)

    async def exits_later(event) -> None:
        await trio.lowlevel.checkpoint()
        exits(event)

    async def orderly(ctx) -> None:
        try:
            with ctx.busy():
                await ctx.sleep(100)
                await trio.sleep(2)
        finally:
            ended.append(trio.current_time())

    async def trigger(ctx) -> None:
        await trio.sleep(1)

    tree = Supervisor("t", [Worker("w", orderly), Worker("trigger", trigger)])
    with pytest.raises(SystemExit):
        async with running(tree, listeners=[exits_later if is_async else exits]):
            await trio.sleep_forever()

    assert ended == [3]


async def test_a_subscriber_that_walks_away_leaves_nothing(autojump_clock) -> None:
    """Breaking out of an event loop, or being cancelled in it, leaves no reader behind."""
    async with running(TREE) as pool:
        with trio.move_on_after(1), pool.events() as stream:
            async for _ in stream:
                pass
        with pool.events() as stream:
            assert pool.snapshot().events.subscriptions == 1
        assert pool.snapshot().events.subscriptions == 0


async def test_logging_that_fails_disturbs_nobody(autojump_clock) -> None:
    """A filter of the program's that raises at every record, also at the one about its own failure, stops nothing."""

    def broken(_: logging.LogRecord) -> bool:
        raise KeyError("request_id")

    async def fails_once(ctx) -> None:
        if ctx.run == 1:
            raise OSError
        await idle(ctx)

    handler = logging.StreamHandler(io.StringIO())
    handler.addFilter(broken)
    logging.getLogger().addHandler(handler)
    try:
        restart = RestartPolicy(initial_backoff=0)
        tree = Supervisor("t", [Worker("w", fails_once, restart=restart)])
        async with running(tree, log=True) as pool:
            await trio.sleep(1)
            assert pool.info("w").run == 2
    finally:
        logging.getLogger().removeHandler(handler)

    assert pool.snapshot().events.tap_errors > 0
