"""Listeners of a tree: sync or async, fast or slow or broken, none of them its master."""

from __future__ import annotations

import pytest
import trio

from actors import Gap
from supervision import RestartPolicy, Supervisor, Worker, supervisor
from supervision.supervisor import LISTENER_BUFFER, LISTENER_GRACE


async def forever(ctx):
    """A worker that does nothing."""
    await trio.sleep_forever()


TREE = Supervisor("app", [Worker("a", forever), Worker("b", forever)])


async def test_a_listener_gets_everything_in_order(autojump_clock):
    """A listener gets every event of the tree from the first start to the last word, in order."""
    seen = []
    async with supervisor.running(TREE, log=False, listeners=[seen.append]):
        await trio.sleep(1)

    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert [event.time for event in seen] == sorted(event.time for event in seen)
    assert seen[0].kind == "Started"
    assert seen[0].path == "app"
    assert seen[-1].kind == "TreeStopped"


async def test_async_and_sync_listeners_get_the_same(autojump_clock):
    """An async listener is awaited event by event, and gets what a sync one gets."""
    plain, waited = [], []

    async def listen(event):
        await trio.sleep(0.01)
        waited.append(event)

    async with supervisor.running(TREE, log=False, listeners=[plain.append, listen]):
        await trio.sleep(1)

    assert waited == plain
    assert len(plain) > 4


async def test_a_raising_listener_is_counted_and_hides_nothing(autojump_clock, caplog):
    """Each error of a listener is counted and logged once; it gets the next event, and others get all."""
    seen, tried = [], []

    def bad(event):
        tried.append(event.seq)
        raise RuntimeError("bad listener")

    async def worse(event):
        await trio.sleep(0)
        raise RuntimeError("worse listener")

    async with supervisor.running(TREE, log=False, listeners=[bad, worse, seen.append]) as pool:
        await trio.sleep(1)

    assert tried == [event.seq for event in seen]
    assert pool._tree.events.statistics().tap_errors == 2 * len(seen)
    errors = [str(record.exc_info[1]) for record in caplog.records]
    assert sorted(errors) == ["bad listener"] * len(seen) + ["worse listener"] * len(seen)


async def test_a_blocked_listener_delays_nothing(autojump_clock):
    """A listener that never comes back holds up neither the tree, nor other listeners, nor the end."""
    seen = []

    async def blocked(event):
        await trio.sleep_forever()

    async with supervisor.running(TREE, log=False, listeners=[blocked, seen.append]) as pool:
        await trio.sleep(100)
        await pool.restart("a")
        assert trio.current_time() == 100

    assert trio.current_time() == 100
    assert seen[-1].kind == "TreeStopped"


async def test_the_end_waits_for_listeners_only_so_long(autojump_clock):
    """A listener that blocks shortly before the end costs at most the grace."""

    async def blocked(event):
        if event.kind == "TreeStopped":
            await trio.sleep_forever()

    async with supervisor.running(TREE, log=False, listeners=[blocked, blocked]):
        await trio.sleep(5)

    assert trio.current_time() == 5 + LISTENER_GRACE


async def test_a_slow_listener_gets_the_last_events(autojump_clock):
    """At the end a listener that makes progress may finish what is queued for it."""
    seen = []

    async def slow(event):
        await trio.sleep(0.02)
        seen.append(event.kind)

    async with supervisor.running(TREE, log=False, listeners=[slow]):
        await trio.sleep(1)

    assert seen[-1] == "TreeStopped"


async def test_a_listener_that_cannot_keep_up_is_told(autojump_clock):
    """A listener with more events waiting than its queue holds gets a Gap, and the tree is not slowed down."""
    seen = []

    async def slow(event):
        seen.append(event)
        if len(seen) == 1:
            await trio.sleep(10)

    async def flaky(ctx):
        if ctx.run < LISTENER_BUFFER:
            raise ValueError
        await trio.sleep_forever()

    policy = RestartPolicy(max_restarts=0, initial_backoff=0)
    tree = Supervisor("app", [Worker("flaky", flaky, restart=policy)])
    async with supervisor.running(tree, log=False, listeners=[slow]) as pool:
        await trio.sleep(5)
        assert pool.workers()[0].run == LISTENER_BUFFER
        await trio.sleep(10)

    gaps = [event for event in seen if isinstance(event, Gap)]
    assert len(gaps) == 1
    assert gaps[0].missed + len(seen) - 1 == seen[-1].seq


async def test_a_fatal_error_of_a_listener_stops_the_tree_in_order(autojump_clock):
    """SystemExit out of a listener is nobody's to handle: everything stops in order and it comes out of serve."""
    stopped = []

    async def polite(ctx):
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(ctx.stopping)

    def quits(event):
        if event.kind == "Ready":
            raise SystemExit(3)

    tree = Supervisor("app", [Worker("polite", polite)])
    with pytest.raises(SystemExit):
        await supervisor.serve(tree, log=False, listeners=[quits], signals=False)
    assert stopped == [True]


async def test_readers_end_with_the_tree(autojump_clock):
    """`async for event in pool.events()` ends when the tree has ended, with TreeStopped as the last event."""
    seen = []

    async def read(pool, task_status):
        events = pool.events()
        task_status.started()
        async for event in events:
            seen.append(event.kind)

    async with trio.open_nursery() as nursery, supervisor.running(TREE, log=False) as pool:
        await nursery.start(read, pool)
        await trio.sleep(1)
    assert seen[0] == "StopRequested"
    assert seen[-1] == "TreeStopped"
    assert [event async for event in pool.events()] == []
