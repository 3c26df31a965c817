"""Who shares what: replicas one breaker, trees none, runs of Trio nothing; and what is reported to whom."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio
from trio.testing import MockClock

from actors.errors import BreakerOpen, BulkheadFull, NoDeadline
from actors.options import OptionError
from actors.resilience import (
    BreakerPolicy,
    BreakerState,
    CircuitBreaker,
    Dependency,
    deadline,
    degrade,
    require_deadlines,
)
from supervision import Supervisor, Worker, supervisor
from tests.resilience.kit import Down, Script, policy

STRIPE = Dependency("stripe", timeout=5, limit=2, breaker=BreakerPolicy(failures=3), retry=policy())
"""Declared once for all, as an application would."""


async def gone(ctx):
    await trio.sleep_forever()


async def run_tree(name, run, *, replicas=1, listener=None):
    """Serve a tree until its workers have returned; its office."""
    listeners = [listener] if listener is not None else []
    tree = Supervisor(name, [Worker("w", run, replicas=replicas)])
    async with supervisor.running(tree, log=False, signals=False, listeners=listeners) as pool:
        await pool.wait_stopped()
        return pool._tree.office


async def test_b21_replicas_share_one_breaker(autojump_clock):
    """B21: what one replica's failures open is open for all replicas of the tree, and for no other tree."""
    seen = []

    async def run(ctx):
        await trio.sleep(ctx.replica and ctx.replica + 0.5)
        seen.append((ctx.path, STRIPE.available, id(STRIPE.guards().breaker)))
        if ctx.replica == 0:
            with pytest.raises(Down):
                await STRIPE.call(Script(Down))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run_tree("one", run, replicas=6))
        nursery.start_soon(lambda: run_tree("two", run, replicas=1))
    one = [entry for entry in seen if entry[0].startswith("one")]
    two = [entry for entry in seen if entry[0].startswith("two")]

    assert [entry[1] for entry in one] == [True, True, True, False, False, False]
    assert [entry[1] for entry in two] == [True]
    assert len({entry[2] for entry in one}) == 1
    assert one[0][2] != two[0][2]
    assert STRIPE.available  # outside of a tree it is another one again


async def test_b21_names_are_apart(autojump_clock):
    """B21: dependencies of two names share nothing."""
    one, other = (Dependency(n, timeout=5, breaker=BreakerPolicy(failures=1)) for n in "ab")

    with pytest.raises(Down):
        await one.call(Script(Down))
    assert not one.available
    assert other.available


async def test_declarations_of_one_name_must_agree(autojump_clock):
    """Two declarations of one name share their guards; timeouts may differ, what is shared may not."""
    first = Dependency("x", timeout=5, limit=2)
    assert Dependency("x", timeout=1, limit=2, retry=policy()).guards() is first.guards()

    with pytest.raises(OptionError, match=r"dependency 'x'.*declared twice.*limit=2 and 3"):
        await Dependency("x", timeout=5, limit=3).call(Script("no"))


def test_runs_of_trio_share_nothing():
    """Outside of a tree state belongs to the Trio run, and goes with it."""
    guards = []

    async def main():
        guards.append(weakref.ref(STRIPE.guards().breaker))
        assert STRIPE.available
        with pytest.raises(Down):
            await STRIPE.call(Script(Down))
        assert not STRIPE.available
        assert degrade("f").state.answers == 0
        assert (await degrade("f").call(Script(Down))).degraded

    for _ in range(2):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    gc.collect()
    assert [ref() for ref in guards] == [None, None]


def test_a_breaker_at_module_level_begins_anew_in_each_run():
    """A breaker that outlives a Trio run is closed in the next, whose clock has another origin; what hands did stays."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=2))
    isolated = CircuitBreaker("y")

    async def first():
        await trio.sleep(1e6)
        for _ in range(2):
            with pytest.raises(Down):
                await breaker.call(Script(Down))
        assert breaker.state is BreakerState.OPEN
        isolated.isolate()

    async def second():
        assert isolated.state is BreakerState.OPEN
        assert await breaker.call(Script("done")) == "done"
        assert breaker.state is BreakerState.CLOSED
        with pytest.raises(Down):
            await breaker.call(Script(Down))
        assert breaker.counts.failures == 1

    async def third():
        with pytest.raises(Down):
            await breaker.call(Script(Down))
        assert breaker.state is BreakerState.CLOSED

    for main in (first, second, third):
        trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_listener_that_a_run_cut_off_does_not_deafen_the_next():
    """A listener that was waiting when its run ended is called again in the next run."""
    told = []

    async def listen(name, old, new):
        told.append(new.name)
        await trio.sleep_forever()

    breaker = CircuitBreaker("x", on_state_change=listen)

    async def main():
        breaker.open()
        await trio.sleep(1)

    for _ in range(2):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert told == ["OPEN", "OPEN"]


@pytest.mark.filterwarnings("ignore:coroutine .*listen.* was never awaited:RuntimeWarning")
def test_a_listener_that_can_no_longer_run_hides_no_error():
    """A change in the last moments of a run, when no task can be started any more, leaves its caller the call's own error."""
    seen = []

    async def listen(name, old, new):
        raise AssertionError("the run is over")

    breaker = CircuitBreaker("x", BreakerPolicy(failures=1), on_state_change=listen)

    async def rows():
        try:
            yield 1
        finally:
            try:
                await breaker.call(Script(Down))
            except Exception as error:
                seen.append(type(error))

    left_open = rows()

    async def main():
        await anext(left_open)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    gc.collect()
    assert seen == [Down]


async def test_a_tree_hears_of_its_calls(autojump_clock):
    """Retries, refusals, openings and degradation go to the stream of the tree that calls, with path and run, and are counted."""
    events = []
    x = Dependency(
        "x", timeout=5, limit=1, breaker=BreakerPolicy(failures=3, open_for=9), retry=policy()
    )

    async def run(ctx):
        with pytest.raises(Down):
            await x.call(Script(Down))
        with pytest.raises(BreakerOpen):
            await x.call(Script(Down))
        feature = degrade("analytics")
        await feature.call(Script(Down))
        await feature.call(Script(Down))
        await feature.call(Script("done"))
        x.guards().breaker.close()
        async with x:
            with pytest.raises(BulkheadFull):
                await x.call(Script("no"))

    office = await run_tree("app", run, listener=events.append)
    ours = [e for e in events if type(e).__module__ == "actors.resilience.signals"]

    assert [(e.kind, e.path, e.run) for e in ours] == [
        (kind, "app/w/0", 1)
        for kind in (
            "CallRetried",
            "CallRetried",
            "BreakerChanged",
            "CallRejected",
            "DegradationChanged",
            "Degraded",
            "Degraded",
            "DegradationChanged",
            "BreakerChanged",
            "CallRejected",
        )
    ]
    assert [e.sentence() for e in ours[:4]] == [
        "app/w/0: x failed (Down('down')), attempt 2 in 1 s",
        "app/w/0: x failed (Down('down')), attempt 3 in 2 s",
        "breaker x went from closed to open: 3 consecutive calls failed",
        "app/w/0: a call to x was refused by its breaker",
    ]
    assert ours[2].retry_after == 9
    assert ours[4].sentence() == "analytics is degraded"
    assert ours[7].sentence() == "analytics has recovered"
    assert office.counts == {
        ("wf_worker_backpressure_events_total", "w", "breaker_open"): 1,
        ("wf_worker_retries_total", "w", "x"): 2,
        ("wf_worker_degraded_total", "w", "analytics"): 2,
        ("wf_worker_backpressure_events_total", "w", "bulkhead_full"): 1,
    }


async def test_an_async_listener_reports_to_its_tree(autojump_clock):
    """What a waiting listener calls and reports belongs to the tree in which the breaker changed."""
    events = []

    async def listen(name, old, new):
        await trio.sleep(1)
        await degrade("told").call(Script(Down))

    async def run(ctx):
        CircuitBreaker("x", on_state_change=listen).open()
        await trio.sleep(2)

    await run_tree("app", run, listener=events.append)
    assert [e.path for e in events if e.kind == "Degraded"] == ["app/w/0"]


async def test_outside_of_a_tree_nobody_needs_to_listen(autojump_clock):
    """Guards work outside of a tree, where nobody hears of it."""
    with pytest.raises(Down):
        await STRIPE.call(Script(Down))
    assert (await degrade("x", default=1).call(Script(Down))).value == 1


async def test_a_call_without_any_deadline_is_reported_once(autojump_clock):
    """A dependency without timeout, called without a deadline, is reported once per tree."""
    events = []
    x = Dependency("x")

    async def run(ctx):
        for _ in range(3):
            await x.call(Script("done"))
            async with x:
                pass
        with deadline(5):
            await x.call(Script("done"))

    await run_tree("app", run, replicas=2, listener=events.append)
    (unbounded,) = [e for e in events if e.kind == "Unbounded"]
    assert unbounded.sentence().endswith("calls x without any deadline; give it a timeout")


async def test_deadlines_can_be_required(autojump_clock):
    """With `require_deadlines` such a call is refused before anything is taken, retried or counted."""
    x = Dependency("x", limit=1, breaker=BreakerPolicy(failures=1), retry=policy(on=Exception))
    script = Script("done")

    with require_deadlines():
        with pytest.raises(NoDeadline, match="x was called without any deadline"):
            await x.call(script)
        with pytest.raises(NoDeadline):
            async with x:
                pass
        with deadline(5):
            assert await x.call(script) == "done"
    assert script.calls == 1
    stats = x.statistics()
    assert (stats.bulkhead.free, stats.breaker.state, stats.budget.retries) == (1, "closed", 0)


async def test_everything_of_one_dependency_lets_go_of_what_it_held(autojump_clock):
    """After a hundred calls that end in every way nothing is held, waiting or remembered by task."""
    x = Dependency(
        "x", timeout=2, total=4, limit=3, max_waiting=200, breaker=BreakerPolicy(failures=10**6)
    )
    ways = [Script("done"), Script(Down), Script(9), Script(1)]

    async def one(number):
        with trio.move_on_after(1 + number % 7):
            try:
                await x.call(ways[number % 4])
            except (Down, trio.TooSlowError, BulkheadFull):
                pass

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(one, number)
    guards, stats = x.guards(), x.statistics()
    assert (stats.bulkhead.free, stats.bulkhead.waiting, stats.breaker.trials) == (3, 0, 0)
    assert guards.bulkhead._holders == guards.entered == {}
