"""BREAKER, and what CLOCK says about breakers."""

from __future__ import annotations

import time

import pytest
import trio

from actors.errors import BreakerOpen
from actors.resilience import BreakerPolicy, BreakerState, CircuitBreaker, Dependency
from supervision import Supervisor, Worker
from tests.cases.kit import at, under_test
from tests.resilience.kit import Script, gather


def breaker(failures, *, open_for=30, probes=1, listener=None, **options):
    """A breaker as the cases describe it: one success closes it, one failure opens it again."""
    rules = BreakerPolicy(failures=failures, open_for=open_for, half_open_max=probes, **options)
    return CircuitBreaker("x", rules, on_state_change=listener)


async def trip(guard, failures):
    """Fail that often."""
    for _ in range(failures):
        with pytest.raises(ConnectionError):
            await guard.call(Script(ConnectionError))


async def test_b069_a_probe_that_ends_unhandled_gives_its_place_back(autojump_clock):
    """B069, App-vNext/Polly#1979: an error that the breaker does not handle reaches its caller and frees the probe's place."""
    guard = breaker(3, on=ConnectionError)
    await trip(guard, 3)
    await at(30)

    with pytest.raises(ValueError):
        await guard.call(Script(ValueError))
    assert guard.state is BreakerState.HALF_OPEN
    assert await guard.call(Script("done")) == "done"
    assert guard.state is BreakerState.CLOSED


async def test_b071_callers_who_leave_are_neutral(autojump_clock):
    """B071, tsouza/cerberus#738: cancelled calls trip nothing, and a cancelled probe gives its place back without a verdict."""
    guard = breaker(5)

    async def leave(n):
        with trio.move_on_at((n + 1) / 50):
            await guard.call(trio.sleep_forever)

    await gather(*[lambda n=n: leave(n) for n in range(50)])
    counts = guard.counts
    assert (guard.state, counts.failures, counts.neutral) == (BreakerState.CLOSED, 0, 50)

    await at(2)
    await trip(guard, 5)
    await at(32)
    with trio.move_on_at(33):
        await guard.call(trio.sleep_forever)
    assert guard.state is BreakerState.HALF_OPEN
    await guard.call(Script("done"))
    assert (guard.state, trio.current_time()) == (BreakerState.CLOSED, 33)


async def test_b073_no_more_probes_than_allowed(autojump_clock):
    """B073, resilience4j/resilience4j#1432 and future-agi/future-agi#2693: of 50 callers of one instant exactly 3 are probes."""
    changes = []
    guard = breaker(3, probes=3, listener=lambda _, old, new: changes.append((old, new)))
    await trip(guard, 3)
    await at(30)

    script = Script("done", sleep=1)
    results = await gather(*[lambda: guard.call(script)] * 50)
    assert script.calls == 3
    assert sum(isinstance(result, BreakerOpen) for result in results) == 47
    assert changes.count((BreakerState.OPEN, BreakerState.HALF_OPEN)) == 1


@pytest.mark.parametrize("fate", ["succeeds", "fails"])
async def test_b074_an_old_call_decides_nothing(autojump_clock, fate):
    """B074, App-vNext/Polly#217: a result counts only for the period in which its call was admitted."""
    guard = breaker(3)
    states = {}

    async def old_call():
        await trio.sleep(40)
        if fate == "fails":
            raise ConnectionError

    async def look():
        await at(39.9)
        states[39.9] = guard.state
        await at(40.1)
        states[40.1] = guard.state

    async def rest():
        await at(5)
        await trip(guard, 3)
        await at(35)
        await guard.call(trio.sleep, 10)
        assert (guard.state, trio.current_time()) == (BreakerState.CLOSED, 45)

    await gather(lambda: guard.call(old_call), look, rest)
    assert list(states.values()) == [BreakerState.HALF_OPEN] * 2
    assert guard.counts.failures == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_b076_a_callback_may_use_the_breaker(autojump_clock, kind):
    """B076, sony/gobreaker#119 and gastownhall/gascity#4839: callbacks see the new state, in order, once, and may call and wait."""
    seen, calls = [], Script("from the callback")

    def note(old, new):
        seen.append((old.name, new.name, guard.counts.calls))

    def sync(name, old, new):
        note(old, new)
        assert guard.state is new

    async def waiting(name, old, new):
        note(old, new)
        try:
            await guard.call(calls)
        except BreakerOpen:
            seen.append("refused")
        await trio.sleep(1)

    guard = breaker(3, listener=sync if kind == "sync" else waiting)
    await trip(guard, 3)
    await at(30)
    await guard.call(Script("done", sleep=5))
    await trio.sleep(10)

    changes = [entry[:2] for entry in seen if entry != "refused"]
    assert changes == [("CLOSED", "OPEN"), ("OPEN", "HALF_OPEN"), ("HALF_OPEN", "CLOSED")]
    assert calls.calls == (0 if kind == "sync" else 1)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_b076_a_callback_that_raises_changes_nothing(autojump_clock, caplog, kind):
    """B076, sony/gobreaker#119: a callback's own error is logged, and neither the caller nor the state notice."""

    def sync(name, old, new):
        raise RuntimeError("my own fault")

    async def waiting(name, old, new):
        await trio.sleep(1)
        raise RuntimeError("my own fault")

    guard = breaker(1, listener=sync if kind == "sync" else waiting)
    await trip(guard, 1)
    await at(30)
    await guard.call(Script("done"))
    await trio.sleep(9)

    assert guard.state is BreakerState.CLOSED
    assert caplog.text.count("on_state_change of breaker x failed") == 3


async def test_b077_its_own_timeout_is_a_failure(autojump_clock):
    """B077, ferro-labs/ai-gateway#199: five hanging calls cut by the limit of an attempt open the breaker."""
    x = Dependency("x", timeout=1, breaker=BreakerPolicy(failures=5))

    for _ in range(5):
        with pytest.raises(trio.TooSlowError):
            await x.call(trio.sleep_forever)
    assert x.statistics().breaker.state == "open"


async def test_b077_its_own_total_is_a_failure_too(autojump_clock):
    """B077, ferro-labs/ai-gateway#199: the limit of the whole belongs to the protected call as well."""
    x = Dependency("x", total=1, breaker=BreakerPolicy(failures=5))

    for _ in range(5):
        with pytest.raises(trio.TooSlowError):
            await x.call(trio.sleep_forever)
    assert x.statistics().breaker.state == "open"


async def test_b077_the_callers_deadline_is_neutral(autojump_clock):
    """B077, ferro-labs/ai-gateway#199: five hanging calls cut by the caller's nearer deadline count as nothing."""
    x = Dependency("x", timeout=1, breaker=BreakerPolicy(failures=5))

    for _ in range(5):
        with trio.move_on_after(0.5):
            await x.call(trio.sleep_forever)
    stats = x.statistics().breaker
    assert (stats.state, stats.counts.failures, stats.counts.neutral) == ("closed", 0, 5)


async def test_b093_a_jump_of_the_wall_clock_opens_and_closes_nothing(autojump_clock, monkeypatch):
    """B093, oxidezap/whatsapp-rust#1379: open times and windows are measured by the monotonic clock."""
    states = []

    async def run(ctx):
        x = Dependency("x", timeout=5, breaker=BreakerPolicy(failures=2, open_for=30))
        await trip(x, 2)
        await at(5)
        monkeypatch.setattr(time, "time", lambda wall=time.time: wall() + 43_200)
        states.append(x.statistics().breaker.state)
        await at(29.9)
        states.append(x.statistics().breaker.state)
        await at(30)
        states.append(x.statistics().breaker.state)

    async with under_test(Supervisor("app", [Worker("w", run)])) as trial:
        await trial.pool.wait_stopped()
    assert states == ["open", "open", "half_open"]
