"""Deadlines, promise by promise. The numbers D1 to D11 are those of the promises listed here.

D1 the nearest deadline holds, through any nesting; D2 a reserve shortens, never below now; D3 if an enclosing one is as near,
that one expires; D4 only one's own expiry is an error; D5 a result that is there is kept; D6 the remaining time never grows; D9
other tasks inherit what their nursery has and no more, so `at=` carries a deadline over; D10 a cancellation in any wait leaves
no trace in any count; D11 only Trio's clock counts. D7 (a minimum to start with) and D8 (shielded clean-up) are the caller's.
"""

from __future__ import annotations

import time
from math import inf

import pytest
import trio
import trio.testing
from hypothesis import given, strategies as st

from actors.errors import DeadlineExceeded
from actors.resilience import (
    BreakerPolicy,
    Bulkhead,
    CircuitBreaker,
    Dependency,
    deadline,
    remaining,
    retry,
)
from tests.resilience.kit import Down, Script, policy


@given(
    limits=st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 5), st.sampled_from(["ours", "trio"])),
        min_size=1,
        max_size=5,
    ),
    work=st.integers(0, 25),
)
async def test_d1_the_nearest_deadline_holds(autojump_clock, limits, work):
    """D1, D2, D4: nested in any order, with reserves, the nearest one ends the work, and the outermost such is told."""
    began = trio.current_time()
    ends = []
    for seconds, reserve, kind in limits:
        end = min([seconds, *ends])
        ends.append(max(0, end - reserve) if kind == "ours" else end)

    async def nest(level):
        if level == len(limits):
            assert remaining() == min(ends)
            await trio.sleep(work)
            return "done"
        seconds, reserve, kind = limits[level]
        if kind == "trio":
            with trio.fail_after(seconds):
                return await nest(level + 1)
        with deadline(seconds, reserve=reserve, what=f"level {level}"):
            return await nest(level + 1)
        raise AssertionError

    if work < min(ends):
        assert await nest(0) == "done"
        return
    with pytest.raises(trio.TooSlowError) as caught:
        await nest(0)
    assert trio.current_time() - began == min(ends)
    first = ends.index(min(ends))  # D3: of equal ones, the outermost
    ours = limits[first][2] == "ours"
    assert isinstance(caught.value, DeadlineExceeded) == ours
    assert not ours or caught.value.what == f"level {first}"


async def test_d2_a_reserve_keeps_time_back(autojump_clock):
    """D2: `deadline(25, reserve=5)` gives 20, and less where an enclosing one is nearer; never less than nothing."""
    with deadline(25, reserve=5):
        assert remaining() == 20
    with trio.move_on_after(12), deadline(25, reserve=5):
        assert remaining() == 7
    with trio.move_on_after(12), deadline(reserve=5):
        assert remaining() == 7
    with (
        pytest.raises(DeadlineExceeded, match="took longer than its 0 s"),
        deadline(3, reserve=5) as scope,
    ):
        assert scope.deadline == trio.current_time()
        assert remaining() == 0
        await trio.sleep(1)
    with deadline(reserve=5):
        assert remaining() == inf


async def test_d3_an_equal_outer_deadline_expires(autojump_clock):
    """D3: if an enclosing deadline is as near, it is its owner's cancellation and not our error."""
    with trio.move_on_after(5) as outer, deadline(5):
        await trio.sleep(9)
    assert outer.cancelled_caught


async def test_d4_a_cancellation_is_no_timeout(autojump_clock):
    """D4: an enclosing scope that is cancelled ends the block without an error of ours."""
    with trio.CancelScope() as outer, deadline(5):
        outer.cancel()
        await trio.sleep(1)
    assert outer.cancelled_caught


async def test_d4_an_error_beside_the_expiry_is_not_lost(autojump_clock):
    """D4: what a task raises while the expiry cancels it comes out as its group."""

    async def fail_at_the_end():
        try:
            await trio.sleep_forever()
        finally:
            raise Down

    with pytest.raises(ExceptionGroup) as caught, deadline(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            nursery.start_soon(trio.sleep_forever)
    assert caught.group_contains(Down)


async def test_d5_a_result_that_is_there_is_kept(autojump_clock):
    """D5: work that overran without a checkpoint returns its result, late or not."""

    async def work():
        autojump_clock.jump(9)
        return "late"

    assert await deadline(5).call(work) == "late"
    assert await Dependency("x", timeout=5).call(work) == "late"


async def test_d6_remaining_falls(autojump_clock):
    """D6: the remaining time falls with the clock, to nothing and not below."""
    assert remaining() == inf
    with trio.move_on_after(3):
        await trio.sleep(1)
        assert remaining() == 2
        autojump_clock.jump(5)
        assert remaining() == 0


async def test_d9_other_tasks_need_it_told(autojump_clock):
    """D9: a task of an outer nursery does not inherit a deadline; `at=` gives it one."""
    seen = {}

    async def other(name, at):
        with deadline(at=at):
            seen[name] = remaining()

    async with trio.open_nursery() as nursery:
        with deadline(4):
            end = trio.current_effective_deadline()
            nursery.start_soon(other, "told", end)
            nursery.start_soon(other, "not told", None)
            await trio.sleep(1)
    assert seen == {"told": 4, "not told": inf}


async def test_d10_a_cancelled_wait_leaves_no_trace(autojump_clock):
    """D10: cancelled in a line, in a trial or in a backoff, a call changes no count but that of cancelled ones."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=1))
    bulkhead = Bulkhead("x", 1, max_waiting=1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bulkhead.call, trio.sleep, 2)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1) as scope:
            await bulkhead.call(trio.sleep, 1)
    assert scope.cancelled_caught
    assert bulkhead.statistics().free == 1
    assert bulkhead.statistics().waiting == bulkhead.statistics().rejected == 0

    with pytest.raises(Down):
        await breaker.call(Script(Down))
    await trio.sleep(1)
    with trio.move_on_after(0.5):
        await breaker.call(trio.sleep, 9)
    assert breaker.admits
    assert breaker.counts.neutral == 1
    assert breaker.statistics().trials == breaker.counts.calls == 0


async def test_d11_only_trios_clock_counts(autojump_clock, monkeypatch):
    """D11: with the machine's clocks standing or jumping, deadlines, openings and waits are the same."""
    clock = iter(range(0, 10**9, 43_200))
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: next(clock))
    breaker = CircuitBreaker("x", BreakerPolicy(failures=3, open_for=30))

    with pytest.raises(Down):
        await retry(breaker.call, Script(Down), policy=policy())
    assert trio.current_time() == 3
    assert breaker.statistics().retry_after == 30
    with pytest.raises(DeadlineExceeded), deadline(5):
        await trio.sleep_forever()
    assert trio.current_time() == 8


async def test_an_object_is_a_rule_not_a_stopwatch(autojump_clock):
    """One deadline can be made early, used often, nested in itself and shared by tasks; it counts from each entry."""
    limit = deadline(5)
    await trio.sleep(100)
    assert await limit.call(Script("done", sleep=4)) == "done"
    with limit:
        await trio.sleep(2)
        with limit:
            assert remaining() == 3
    ended = []

    async def late(after):
        await trio.sleep(after)
        with pytest.raises(DeadlineExceeded):
            await limit.call(trio.sleep_forever)
        ended.append(trio.current_time())

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for after in (0, 1, 2):
            nursery.start_soon(late, after)
    assert ended == [began + 5, began + 6, began + 7]


async def test_a_decorated_function_is_limited_each_time(autojump_clock):
    """`@deadline(5)` limits each call of an async function, and keeps its name."""

    @deadline(5, what="the report")
    async def report(seconds):
        """Make it."""
        await trio.sleep(seconds)
        return seconds

    assert await report(4) == await report(4) == 4
    with pytest.raises(DeadlineExceeded, match="the report took longer than its 5 s"):
        await report(6)
    assert (report.__name__, report.__doc__) == ("report", "Make it.")
