"""Many callers at once: places, lines, retry storms, and what is left when everybody has gone."""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs
import httpx
import pytest
import trio

from actors import Context
from actors.resilience import (
    BreakerPolicy,
    BudgetPolicy,
    BulkheadFull,
    RetryPolicy,
    degrade,
)
from supervision import RestartPolicy, State, Supervisor, TreeFailed, Worker, supervisor
from tests.downstream.client import (
    QUICK,
    Till,
    breaker_of,
    bulkhead_of,
    dependency,
    open_till,
    transient,
)
from tests.downstream.server import (
    Act,
    Downstream,
    busy,
    cut,
    garble,
    hang,
    open_downstream,
    reset,
    slow,
    well,
)


async def test_no_retry_storm(downstream: Downstream, till: Till) -> None:
    """With every answer a 503, retries stay a quarter of the calls plus the floor, not two for each call."""
    downstream.mood = busy()
    # A window that no slow machine outlives.
    budget = BudgetPolicy(ratio=0.25, floor=5, window=1000)
    retries = RetryPolicy(on=transient, attempts=3, backoff=QUICK)
    stripe = dependency(retry=retries, budget=budget, breaker=None)
    for _ in range(100):
        with pytest.raises(httpx.HTTPStatusError):
            await stripe.call(till.charge, 100)

    assert downstream.seen.value == 100 + 25 + 5
    used = stripe.statistics().budget
    assert used is not None
    assert (used.first_attempts, used.retries) == (100, 30)
    assert used.refused > 0


async def test_a_full_bulkhead_refuses_at_once(downstream: Downstream, till: Till) -> None:
    """Of ten calls to a slow downstream two run, three wait, five are refused without a request; all five that were let in end well."""
    downstream.mood = slow
    stripe = dependency(limit=2, max_waiting=3)
    outcomes: Counter[str] = Counter()

    async def call() -> None:
        try:
            await stripe.call(till.charge, 100)
        except BulkheadFull:
            outcomes["refused"] += 1
        else:
            outcomes["charged"] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(call)
        await downstream.under_way.wait_value(2)
        while outcomes["refused"] < 5:
            await trio.sleep(0.001)
        assert (bulkhead_of(stripe).running, bulkhead_of(stripe).waiting) == (2, 3)
        downstream.gate.set()

    assert outcomes == {"refused": 5, "charged": 5}
    assert (downstream.seen.value, downstream.peak) == (5, 2)
    assert bulkhead_of(stripe).free == 2
    # A full line says nothing about the downstream.
    assert breaker_of(stripe).counts.failures == 0


async def test_a_slow_neighbour_takes_no_places(downstream: Downstream, till: Till) -> None:
    """While every place of one dependency is taken by calls that hang, another dependency answers as ever."""
    downstream.mood = hang
    stuck = dependency("stuck", limit=3)
    async with open_downstream() as good, open_till(good) as other, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(stuck.call, till.charge, 100)
        await downstream.under_way.wait_value(3)
        healthy = dependency("healthy", limit=3)
        assert [await healthy.call(other.charge, 100) for _ in range(10)] == list(range(1, 11))
        nursery.cancel_scope.cancel()

    assert bulkhead_of(stuck).free == 3


async def test_no_place_leaks(downstream: Downstream, till: Till) -> None:
    """After 300 calls that ended in every possible way, many of them cancelled, all places are free and calls work."""
    random = Random(20)
    acts: list[Act] = [well, well, busy(), busy(status=404), reset, cut, garble, hang]
    downstream.script.extend(random.choices(acts, k=10_000))
    stripe = dependency(
        limit=5,
        max_waiting=10,
        max_wait=0.05,
        timeout=0.02,
        breaker=BreakerPolicy(on=transient, failures=8, open_for=0.01),
    )
    outcomes: Counter[str] = Counter()

    async def call(patience: float) -> None:
        outcome = "cancelled"
        with trio.move_on_after(patience):
            try:
                await stripe.call(till.charge, 100)
                outcome = "charged"
            except Exception as error:
                outcome = type(error).__name__
        outcomes[outcome] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(300):
            nursery.start_soon(call, random.choice([0.0, 0.005, 0.05, 10.0]))
            await trio.sleep(0.002)

    assert sum(outcomes.values()) == 300
    assert {"cancelled", "BreakerOpen"} < set(outcomes)
    bulkhead = bulkhead_of(stripe)
    assert (bulkhead.running, bulkhead.waiting, bulkhead.free) == (0, 0, 5)
    assert breaker_of(stripe).trials == 0

    downstream.script.clear()
    breaker = stripe.guards().breaker
    assert breaker is not None
    breaker.close()
    # The same guards, with more time for an attempt.
    calm = attrs.evolve(stripe, timeout=20)
    await calm.call(till.charge, 100)
    assert bulkhead_of(calm).admitted == bulkhead.admitted + 1


async def test_stopping_a_tree_gives_places_back(downstream: Downstream, till: Till) -> None:
    """A stop does not wait for a hung call: the replica is cancelled, in order, and the other side sees it leave."""
    downstream.mood = hang
    stripe = dependency(limit=2)

    async def consumer(ctx: Context) -> None:
        ctx.started()
        await stripe.call(till.charge, 100)

    tree = Supervisor("shop", [Worker("consumer", consumer, replicas=2, ready="signal")])
    async with supervisor.running(tree, log=False) as pool:
        await downstream.under_way.wait_value(2)

    await downstream.given_up.wait_value(2)
    assert pool.stop_report is not None
    assert pool.stop_report.forced == ()
    assert {info.state for info in pool.workers()} == {State.STOPPED}


async def test_a_restarted_worker_meets_the_same_breaker(
    downstream: Downstream, till: Till
) -> None:
    """A worker that fails with its call is restarted into the breaker that its earlier runs have opened."""
    downstream.mood = busy()
    stripe = dependency(retry=None, breaker=BreakerPolicy(failures=3, open_for=600, open_max=600))
    seen: list[str] = []

    async def consumer(ctx: Context) -> None:
        try:
            await stripe.call(till.charge, 100)
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    restart = RestartPolicy(max_restarts=5, initial_backoff=0.001)
    with pytest.raises(TreeFailed):
        await supervisor.serve(
            Supervisor("shop", [Worker("consumer", consumer, restart=restart)]), log=False
        )

    assert seen == ["HTTPStatusError"] * 3 + ["BreakerOpen"] * 3
    assert downstream.seen.value == 3


async def test_an_optional_step_costs_its_calls_only(downstream: Downstream, till: Till) -> None:
    """With analytics dead every charge goes through, and once its breaker is open analytics gets no request at all."""
    stripe = dependency("stripe")
    async with open_downstream() as sick, open_till(sick) as tracker:
        sick.mood = busy()
        analytics = dependency(
            "analytics", breaker=BreakerPolicy(failures=3, open_for=600, open_max=600)
        )
        for _ in range(20):
            await stripe.call(till.charge, 100)
            with degrade("analytics") as feature:
                await analytics.call(tracker.charge, 0)

        assert downstream.seen.value == 20
        assert sick.seen.value == 3
        assert feature.state.degraded
        assert feature.state.answers == 20
