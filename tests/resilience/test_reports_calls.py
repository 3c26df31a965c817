"""Faults that were reported of other bulkheads, retries and limits, each as a scenario here."""

from __future__ import annotations

from random import Random

import pytest
import trio

from actors.errors import BulkheadFull, DeadlineExceeded
from actors.resilience import (
    Backoff,
    BreakerPolicy,
    BudgetPolicy,
    Bulkhead,
    Dependency,
    HandBack,
    RetryBudget,
    deadline,
    judge,
    retry,
    retry_after,
)
from tests.cases.kit import turns
from tests.resilience.kit import Down, Script, exact, gather, policy


async def test_waiters_that_time_out_cost_no_places(autojump_clock):
    """failsafe-lib/failsafe#393 and #400: eight time out on a full bulkhead of eight; then all eight places are free again."""
    bulkhead = Bulkhead("x", 8, max_waiting=8, max_wait=1)

    results = await gather(*[lambda: bulkhead.call(trio.sleep, 5)] * 16)
    assert sum(isinstance(result, BulkheadFull) for result in results) == 8
    assert bulkhead.statistics().free == 8


@pytest.mark.parametrize("end", ["cancelled", "fails"])
async def test_a_place_is_given_back_once(autojump_clock, end):
    """resilience4j/resilience4j#332, #263 and #1569: cancelled half-way, or failing at its end, a call gives back one place."""
    bulkhead = Bulkhead("x", 2)

    async def work():
        try:
            await trio.sleep(2)
        finally:
            if end == "fails":
                raise Down

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bulkhead.call, trio.sleep, 9)
        try:
            with trio.move_on_after(1 if end == "cancelled" else 5):
                await bulkhead.call(work)
        except Down:
            pass
        assert bulkhead.statistics().free == 1


async def test_nobody_slips_in_between(autojump_clock):
    """agronholm/anyio#1170: between "a place came free" and "its waiter runs" nobody else can take it."""
    bulkhead = Bulkhead("x", 1, max_waiting=1)
    script = Script("done")

    async with trio.open_nursery() as nursery:
        async with bulkhead:
            nursery.start_soon(bulkhead.call, script)
            await turns(3)
        with pytest.raises(BulkheadFull):
            bulkhead.enter()
    assert script.calls == 1


async def test_shrunk_below_use_then_grown(autojump_clock):
    """agronholm/anyio#1223: after a shrink below what runs, a grow wakes by spare places, not by the difference."""
    bulkhead = Bulkhead("x", 4, max_waiting=9)
    script = Script("done", sleep=9)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(bulkhead.call, trio.sleep, 1)
        await turns(3)
        for _ in range(6):
            nursery.start_soon(bulkhead.call, script)
        await turns(3)
        bulkhead.resize(1)
        bulkhead.resize(3)
        await turns(3)
        assert script.calls == 0
        bulkhead.resize(5)
        await turns(3)
        assert script.calls == 1


async def test_a_limit_of_nothing_pauses(autojump_clock):
    """python-trio/trio#3243: limit 0 pauses, and raising it resumes."""
    bulkhead = Bulkhead("x", 0, max_waiting=2)
    script = Script("done")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bulkhead.call, script)
        await trio.sleep(5)
        assert script.calls == 0
        bulkhead.resize(1)
        await trio.sleep(1)
        assert script.times == [5]


@pytest.mark.parametrize("jitter", [0.0, 0.5])
@pytest.mark.parametrize("n", [1024, 1100, 10**6])
def test_late_waits_are_the_cap(n, jitter):
    """App-vNext/Polly#2163: the 1100th wait is the cap, spread below it, and neither negative nor an overflow."""
    wait = Backoff(1, 2, 60, jitter=jitter).delay(n, Random(1))

    assert 60 * (1 - jitter) / (1 + jitter) <= wait <= 60


async def test_a_quiet_caller_may_retry(autojump_clock):
    """failsafe-go/failsafe-go#139: with little traffic the floor still allows retries."""
    budget = RetryBudget(BudgetPolicy(ratio=0.01, floor=2))
    script = Script(Down, Down, "done")

    assert await retry(script, policy=policy(), budget=budget) == "done"


async def test_a_used_up_budget_cancels_nothing(autojump_clock):
    """failsafe-go/failsafe-go#141: when the budget is used up, calls in flight go on to their end."""
    x = Dependency("x", timeout=60, retry=policy(), budget=BudgetPolicy(ratio=0, floor=0))
    slow = Script("done", sleep=30)

    results = await gather(lambda: x.call(slow), lambda: x.call(Script(Down)))
    assert results[0] == "done"
    assert isinstance(results[1], Down)


async def test_everything_but_one(autojump_clock):
    """jd/tenacity#529: "everything except X" under an outer limit is one attempt, and the cancellation passes."""
    script = Script("done", sleep=9)
    with trio.move_on_after(1) as scope:
        await retry(script, policy=policy(on=lambda e: not isinstance(e, ValueError)))
    assert (script.calls, scope.cancelled_caught) == (1, True)


async def test_one_policy_for_two_tasks(autojump_clock):
    """jd/tenacity#93, agronholm/apscheduler#618 and UKGovernmentBEIS/inspect_k8s_sandbox#182: two tasks, one policy, two counts."""
    rules = policy(attempts=4)
    loops = []

    async def loop(fails):
        seen = []
        async for attempt in rules.attempts_of():
            with attempt:
                seen.append(attempt.number)
                await trio.sleep(0.1)
                if len(seen) <= fails:
                    raise Down
        loops.append(seen)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop, 3)
        nursery.start_soon(loop, 1)
    assert sorted(loops) == [[1, 2], [1, 2, 3, 4]]


@pytest.mark.parametrize(("inner", "calls"), [(Down(), 3), (TypeError(), 1)], ids=repr)
async def test_groups_are_what_they_hold(autojump_clock, inner, calls):
    """jd/tenacity#501: a task group's group of one transient error is retried; with a permanent member it is not."""
    made = []

    async def raises(error):
        raise error

    async def work():
        made.append(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(raises, Down())
            nursery.start_soon(raises, inner)

    with pytest.raises(ExceptionGroup):
        await retry(work, policy=policy())
    assert len(made) == calls


async def test_unlimited_obeys_never(autojump_clock):
    """avast/retry-go#110: unlimited attempts end at an error that is excepted."""
    script = Script(Down, Down, OSError)
    rules = policy(on=Exception, never=OSError, attempts=None)

    with pytest.raises(OSError) as caught:
        await retry(script, policy=rules)
    assert script.calls == 3
    assert "Down('down'), Down('down')" in caught.value.__notes__[0]


async def test_at_the_deadline_the_real_error_is_reported(autojump_clock):
    """avast/retry-go#53: when time is up, what is reported is the last real error."""
    with pytest.raises(Down, match="real") as caught, deadline(10):
        await retry(Script(Down("real")), policy=policy(attempts=None))
    assert "only 3 s are left" in caught.value.__notes__[0]
    assert trio.current_time() == 7


@pytest.mark.parametrize("hint", [3600, 9_999_999_999, "9999999999"])
async def test_an_hour_is_not_slept_away(autojump_clock, hint):
    """urllib3/urllib3#1338 and #3743: a huge Retry-After neither overflows nor sleeps; the hint is on the error and the verdict."""
    error = Down(retry_after=hint)
    script = Script(error)

    with pytest.raises(Down) as caught:
        await retry(script, policy=policy())
    assert (script.calls, trio.current_time()) == (1, 0)
    assert retry_after(caught.value) == float(hint)
    facts = {"attempt": 1, "elapsed": 0, "left": float("inf"), "random": None}
    verdict = judge(error, rules=policy(backoff=exact()), hint=float(hint), **facts)
    assert isinstance(verdict, HandBack)
    assert verdict.retry_in == float(hint)


async def test_a_total_no_longer_than_an_attempt(autojump_clock):
    """bcgov/bcdata_py#243: an attempt that takes the whole total of 60 s leaves no retry, whether it hangs or fails."""
    x = Dependency("x", timeout=60, total=60, retry=policy(on=trio.TooSlowError, attempts=5))
    script = Script(100)

    with pytest.raises(
        DeadlineExceeded, match="a call to x with its retries took longer"
    ) as caught:
        await x.call(script)
    assert (script.calls, trio.current_time()) == (1, 60)
    assert not hasattr(caught.value, "__notes__")

    script = Script(Down, sleep=60)
    with pytest.raises(Down):
        await retry(script, policy=policy(total=60, backoff=exact(initial=0.1)))
    assert script.calls == 1


async def test_calls_are_counted_as_they_begin(autojump_clock):
    """zeromicro/go-zero#5011: what a ratio is taken of is counted at the start of each call, not when it ends."""
    x = Dependency(
        "x",
        timeout=60,
        retry=policy(backoff=Backoff(0, jitter=0), attempts=2),
        budget=BudgetPolicy(ratio=0.1, floor=0),
        breaker=BreakerPolicy(),
    )
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(x.call, trio.sleep, 30)
        await turns(3)
        script = Script(Down, "done")
        assert await x.call(script) == "done"
