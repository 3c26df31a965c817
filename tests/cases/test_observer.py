"""OBSERVER, as far as it concerns the stream of events: nobody who looks can change what happens, and losses are told."""

from __future__ import annotations

import logging
from itertools import pairwise

import attrs
import pytest
import trio

from actors import Event, Gap, Stream
from supervision import Supervisor, Worker
from tests.cases.kit import at, fails_at, forever, policy, turns, under_test


@attrs.frozen(kw_only=True)
class Number(Event):
    """One of many."""

    value: int = 0


def publish(stream: Stream, values) -> None:
    """Emit events with these values."""
    for value in values:
        stream.emit(Number, "app", value=value)


async def test_b138_publishing_cannot_block(autojump_clock):
    """B138, opanel-mc/opanel#429: publishing never waits; a stalled subscriber's queue is bounded, a healthy one gets all."""
    stream = Stream()
    healthy, stalled = stream.subscribe(256), stream.subscribe(256)
    got = []

    async def read():
        async for event in healthy:
            got.append(event.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for start in range(0, 10_000, 100):
            publish(stream, range(start, start + 100))
            await turns(300)
            assert len(stalled._buffer) <= 256
        stream.close()

    assert trio.current_time() == 0
    assert got == list(range(10_000))
    assert stream.statistics().dropped == 10_000 - 256


async def test_b138_a_burst_without_a_turn(autojump_clock):
    """B138, opanel-mc/opanel#429: even a burst in which nobody can read keeps every queue bounded and loses by count."""
    stream = Stream()
    subs = [stream.subscribe(size) for size in (1, 16, 256)]
    publish(stream, range(10_000))
    stream.close()

    for sub in subs:
        events = [event async for event in sub]
        assert events[0].missed == 10_000 - sub.size
        assert [event.value for event in events[1:]] == list(range(10_000 - sub.size, 10_000))


async def test_b139_each_subscriber_has_its_own_order(autojump_clock):
    """B139, auntiepickle/totalmix-osc-bridge#32: one queue and one sender per subscriber; none sees events out of order."""
    got = {"quick": [], "other": [], "slow": []}

    def listener(name):
        async def listen(event):
            if event.kind == "Started":
                if name == "slow":
                    await trio.sleep(1)
                got[name].append((event.seq, trio.current_time()))

        return listen

    tree = Supervisor("app", [Worker("w", forever, replicas=9)])
    async with under_test(tree, listeners=[listener(name) for name in got]) as trial:
        await turns(60)
        assert len(got["quick"]) == len(got["other"]) == 10
        assert trio.current_time() == 0
        await at(20)

    for name, entries in got.items():
        assert [when for _, when in entries] == (
            [float(n) for n in range(1, 11)] if name == "slow" else [0] * 10
        )
        assert all(one[0] < other[0] for one, other in pairwise(entries))
    assert trial.error is None


async def test_b140_a_loss_is_announced(autojump_clock):
    """B140, tinyhumansai/opencompany#1011: a loss is always announced, and nothing is repeated."""
    stream = Stream()
    sub = stream.subscribe(256)
    publish(stream, range(1, 301))
    await at(10)
    first = await anext(sub)
    rest = [(await anext(sub)).value for _ in range(256)]

    assert isinstance(first, Gap)
    assert first.missed == 44
    assert first.seq == 44  # the place of the last one that was missed
    assert rest == list(range(45, 301))
    assert sub.receive_nowait() is None


async def test_b140_there_is_a_way_back(autojump_clock):
    """B140, tinyhumansai/opencompany#1011: after a reconnection a snapshot says which events it contains: no hole, no repetition."""
    tree = Supervisor("app", [Worker("w", fails_at(*range(1, 40)), restart=policy())])
    async with under_test(tree) as trial:
        await at(20.5)
        with trial.pool.events() as sub:
            snapshot = trial.pool.snapshot()
            assert sub.receive_nowait() is None
            await at(25.5)
            events = []
            while (event := sub.receive_nowait()) is not None:
                events.append(event)

    assert [event.seq for event in events] == list(
        range(snapshot.seq + 1, snapshot.seq + 1 + len(events))
    )
    restarts = snapshot.workers[0].restarts + sum(e.kind == "RestartScheduled" for e in events)
    assert (snapshot.workers[0].restarts, restarts) == (20, 25)


async def test_b144_hooks_cannot_break_the_supervisor(autojump_clock, caplog):
    """B144, opencloud-eu/opencloud#1528: observers cannot change what they observe."""
    blocked, late = [], []

    def raises(event):
        raise RuntimeError("the hook itself")

    async def raises_later(event):
        await trio.lowlevel.checkpoint()
        raise RuntimeError("the hook itself")

    async def blocks(event):
        blocked.append(event)
        await trio.sleep_forever()

    tree = Supervisor("app", [Worker("w", fails_at(0, 1), restart=policy(1))])

    async def run(ctx):
        if ctx.run <= 2:
            raise OSError("down")
        await trio.sleep_forever()

    tree = Supervisor("app", [Worker("w", run, restart=policy(1))])
    hooks = [raises, raises_later, blocks, late.append]
    with caplog.at_level(logging.ERROR, "actors"):
        async with under_test(tree, listeners=hooks) as trial:
            await at(3)
            stats = trial.pool.snapshot().events
            await trial.pool.shutdown()
            assert trio.current_time() == 3

    assert trial.starts("app/w/0") == [0, 1, 2]
    assert trial.ended_at == 3
    assert (trial.error, len(blocked)) == (None, 1)
    assert late == trial.seen
    errors = [record for record in caplog.records if "failed" in record.message]
    assert len(errors) == 2 * len(late)
    assert stats.tap_errors == 2 * len([e for e in late if e.seq <= stats.emitted])


async def test_b144_a_hook_that_exits_stops_in_order(autojump_clock):
    """B144, opencloud-eu/opencloud#1528: an exit raised in a hook is one of the program: the tree stops in order."""
    clean = []

    def exits(event):
        if event.kind == "RestartScheduled":
            raise SystemExit(3)

    async def run(ctx):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            clean.append((ctx.name, trio.current_time()))

    tree = Supervisor(
        "app", [Worker("a", run), Worker("b", run), Worker("w", fails_at(1), restart=policy())]
    )
    async with under_test(tree, listeners=[exits]) as trial:
        await trial.pool.wait_stopped()

    assert isinstance(trial.error, SystemExit)
    assert trial.error.code == 3
    assert clean == [("b", 3), ("a", 5)]


async def test_b144_a_failing_tap_is_counted(autojump_clock, caplog):
    """B144, opencloud-eu/opencloud#1528: a synchronous hook that raises is kept away from the reporter, and logged once each."""
    stream = Stream()
    seen = []

    def broken(event):
        raise RuntimeError("tap")

    stream.tap(broken)
    stream.tap(seen.append)
    publish(stream, range(3))

    assert [event.value for event in seen] == [0, 1, 2]
    assert stream.statistics().tap_errors == 3
    assert len(caplog.records) == 3


@pytest.mark.parametrize("size", [1, 16])
async def test_b145_notices_never_starve_the_data(autojump_clock, size):
    """B145, avibe-bot/avibe#1597: between two notices of a loss there is at least one event, and the counts add up."""
    stream = Stream()
    sub = stream.subscribe(size)
    got = []

    async def read():
        async for event in sub:
            got.append(event)
            await trio.sleep(0.1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for n in range(10_000):
            await at(n / 1000)
            publish(stream, [n])
        taken = len(got)
        stream.close()

    during = got[:taken]
    events = [event for event in during if not isinstance(event, Gap)]
    assert len(events) >= 45
    assert not any(isinstance(a, Gap) and isinstance(b, Gap) for a, b in pairwise(got))
    missed = sum(event.missed for event in got if isinstance(event, Gap))
    assert missed + sum(not isinstance(event, Gap) for event in got) == 10_000
    values = [event.value for event in got if not isinstance(event, Gap)]
    assert values == sorted(set(values))
