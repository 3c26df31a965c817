"""A dependency's layers, and what each of them sees of the others."""

from __future__ import annotations

import pytest
import trio

from actors.errors import BreakerOpen, BulkheadFull, DeadlineExceeded
from actors.resilience import BreakerPolicy, Dependency, deadline
from tests.resilience.kit import Down, Script, exact, gather, policy


async def test_no_place_is_held_during_a_backoff(autojump_clock):
    """While one call waits for its next attempt another has the place."""
    x = Dependency("x", timeout=5, limit=1, retry=policy())
    other = Script("done", sleep=0.5)

    results = await gather(lambda: x.call(Script(Down, "late")), lambda: later(0.1, x, other))
    assert results == ["late", "done"]
    assert other.times == [0.1]


async def later(seconds, dependency, fn):
    await trio.sleep(seconds)
    return await dependency.call(fn)


async def test_our_own_fullness_is_neutral(autojump_clock):
    """A refusal by the bulkhead is no failure of the dependency, at once or after waiting."""
    x = Dependency(
        "x", timeout=60, limit=1, max_waiting=1, max_wait=1, breaker=BreakerPolicy(failures=1)
    )

    results = await gather(*[lambda: x.call(trio.sleep, 30)] * 3)
    assert sorted(r.waited is None for r in results if isinstance(r, BulkheadFull)) == [False, True]
    stats = x.statistics()
    assert (stats.breaker.state, stats.breaker.counts.neutral) == ("closed", 2)


async def test_a_trial_that_is_refused_deeper_gives_its_place_back(autojump_clock):
    """A trial that finds the bulkhead full decides nothing, and the next caller is a trial."""
    x = Dependency("x", timeout=60, limit=1, breaker=BreakerPolicy(open_for=10))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(x.call, trio.sleep, 20)
        await trio.sleep(1)
        x.guards().breaker.open()
        await trio.sleep(10)
        for _ in range(2):
            with pytest.raises(BulkheadFull):
                await x.call(Script("no"))
        assert x.available
    await x.call(Script("done"))
    assert x.statistics().breaker.state == "closed"


async def test_a_hung_attempt_is_retried_if_the_policy_says_so(autojump_clock):
    """The timeout of an attempt is an error like others: named, it is retried, with a timeout of its own each time."""
    x = Dependency("x", timeout=2, retry=policy(on=DeadlineExceeded))
    script = Script(9, 9, 1)

    assert await x.call(script) == 1
    assert script.times == [0, 3, 7]


async def test_total_bounds_attempts_waits_and_the_line(autojump_clock):
    """`total` ends the attempt that reaches it, begins no wait that would, and ends a wait for a place."""
    x = Dependency("x", total=5, limit=1, max_waiting=5, retry=policy(on=(Down,), attempts=None))

    with pytest.raises(DeadlineExceeded, match="with its retries took longer than its 5 s"):
        await x.call(Script(Down, 99))
    assert trio.current_time() == 5
    with pytest.raises(Down):
        await x.call(Script(Down))
    assert trio.current_time() == 8
    async with trio.open_nursery() as nursery:
        nursery.start_soon(x.guards().bulkhead.call, trio.sleep, 20)
        await trio.sleep(1)
        with pytest.raises(BulkheadFull, match="within 5 s"):
            await x.call(Script("no"))
        assert trio.current_time() == 14


async def test_a_callers_deadline_that_is_moved_on_leaves_the_timeout(autojump_clock):
    """An attempt keeps its timeout although the caller's deadline was nearer when it began and has moved since."""
    x = Dependency("x", timeout=5)

    async def move(scope):
        await trio.sleep(1)
        scope.deadline += 100

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(2) as scope:
            nursery.start_soon(move, scope)
            with pytest.raises(DeadlineExceeded):
                await x.call(trio.sleep_forever)
    assert trio.current_time() == 5


async def test_an_equal_deadline_is_the_callers(autojump_clock):
    """If the caller's deadline and the timeout are one moment, it is the caller's cancellation, and neutral."""
    x = Dependency("x", timeout=5, breaker=BreakerPolicy(failures=1))

    with trio.move_on_after(5) as scope:
        await x.call(trio.sleep_forever)
    assert scope.cancelled_caught
    assert x.statistics().breaker.counts.neutral == 1


async def test_available_means_that_a_call_would_be_made(autojump_clock):
    """A dependency is available while its breaker is closed, or half-open with a trial's place free."""
    x = Dependency("x", timeout=5, breaker=BreakerPolicy(failures=1, open_for=10))
    assert x.available
    with pytest.raises(Down):
        await x.call(Script(Down))
    assert not x.available
    await trio.sleep(10)
    assert x.available

    async def trial():
        assert not x.available
        with pytest.raises(BreakerOpen):
            await x.call(Script("no"))

    await x.call(trial)
    assert x.available


async def test_the_callers_deadline_limits_retries(autojump_clock):
    """Retries of a dependency see the caller's deadline too."""
    x = Dependency("x", timeout=5, total=50, retry=policy(backoff=exact(initial=3)))

    with pytest.raises(Down), deadline(2):
        await x.call(Script(Down))
    assert trio.current_time() == 0
