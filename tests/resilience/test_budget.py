"""The retry budget: R11, against a recount, and in a storm."""

from __future__ import annotations

from fractions import Fraction

import pytest
import trio
from hypothesis import given, strategies as st

from actors.resilience import Backoff, BudgetPolicy, Dependency, RetryBudget, retry
from tests.resilience.kit import Down, Script, gather, policy


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["call", "retry", "wait"]), st.integers(1, 8)), max_size=80
    ),
    ratio=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    floor=st.integers(0, 3),
)
def test_r11_a_window_holds_no_more_retries_than_allowed(steps, ratio, floor):
    """R11: retries stay within ratio and floor of each window by a recount, and what is refused takes nothing."""
    window = 10.0
    budget = RetryBudget(BudgetPolicy(ratio=ratio, floor=floor, window=window))
    now, calls, retries = 0.0, [], []
    for what, number in steps:
        if what == "wait":
            now += number  # whole seconds, which are slices of this window: the recount is exact
            continue
        for _ in range(number):
            if what == "call":
                budget.attempted(now)
                calls.append(now)
                continue
            first = sum(now - at < window for at in calls)
            taken = sum(now - at < window for at in retries)
            granted = budget.take(now)
            assert granted == (taken + 1 <= Fraction(str(ratio)) * first + floor)
            if granted:
                retries.append(now)
    stats = budget.statistics(now)
    assert stats.first_attempts == sum(now - at < window for at in calls)
    assert stats.retries == sum(now - at < window for at in retries)


@pytest.mark.parametrize("percent", range(1, 100))
def test_r11_a_share_is_the_share_that_is_written(percent):
    """R11: of 100 calls a ratio of 0.29 lets 29 be retried, whatever binary fractions make of it."""
    budget = RetryBudget(BudgetPolicy(ratio=percent / 100, floor=3))
    for _ in range(100):
        budget.attempted(0.0)

    assert [budget.take(0.0) for _ in range(percent + 4)] == [True] * (percent + 3) + [False]


async def test_r11_a_storm_becomes_a_drizzle(autojump_clock):
    """R11: of 1,000 callers that all fail, all get their first attempt, and only the budget's share a second one."""
    script = Script(Down)
    x = Dependency("x", timeout=5, retry=policy(), budget=BudgetPolicy(ratio=0.1, floor=10))

    results = await gather(*[lambda: x.call(script) for _ in range(1000)])
    assert all(isinstance(result, Down) for result in results)
    assert script.calls == 1000 + 0.1 * 1000 + 10
    budget = x.statistics().budget
    assert (budget.first_attempts, budget.retries) == (1000, 110)


async def test_r11_a_refused_retry_says_so(autojump_clock):
    """R11: the budget is consulted before the wait, and the error says that it was used up."""
    budget = RetryBudget(BudgetPolicy(ratio=0, floor=1))

    with pytest.raises(Down) as caught:
        await retry(Script(Down), policy=policy(), budget=budget)
    assert trio.current_time() == 1
    assert caught.value.__notes__ == ["gave up after Down('down'): the retry budget is used up"]
    assert budget.statistics(1).refused == 1


async def test_a_later_window_is_a_new_chance(autojump_clock):
    """What was used up comes back when the window has passed."""
    budget = RetryBudget(BudgetPolicy(ratio=0, floor=1, window=10))
    assert budget.take(trio.current_time())
    assert not budget.take(trio.current_time())
    await trio.sleep(10)
    assert budget.take(trio.current_time())


def test_a_budget_that_outlives_a_run_begins_anew():
    """Times of an earlier Trio run, whose clock had another origin, do not freeze the window."""
    budget = RetryBudget(BudgetPolicy(ratio=0, floor=2))
    assert budget.take(1e6)
    assert budget.take(1e6)
    assert budget.take(5.0)
    assert budget.statistics(5.0).retries == 1


def test_an_idle_budget_shows_nothing():
    """Statistics are of the present window, also if nobody has called since."""
    budget = RetryBudget(BudgetPolicy())
    budget.attempted(0)

    assert budget.statistics(9.9).first_attempts == 1
    assert budget.statistics(10).first_attempts == 0


async def test_declarations_of_one_name_share_the_budget(autojump_clock):
    """A declaration that retries uses the shared budget, also if one without retries came to life first."""
    script = Script(Down)
    plain = Dependency("x", timeout=5, budget=BudgetPolicy(ratio=0, floor=1))
    eager = Dependency(
        "x",
        timeout=5,
        retry=policy(attempts=5, backoff=Backoff(0, jitter=0)),
        budget=BudgetPolicy(ratio=0, floor=1),
    )

    for dependency in (plain, eager, eager):
        with pytest.raises(Down):
            await dependency.call(script)
    assert script.calls == 1 + 2 + 1
