"""What an operator sees and does to the guards of a running tree."""

from __future__ import annotations

import pytest
import trio

from actors.resilience import BreakerOpen, BreakerPolicy, Dependency, RetryPolicy
from supervision import Supervisor, Worker, supervisor

stripe = Dependency(
    "stripe",
    timeout=5,
    limit=2,
    retry=RetryPolicy(on=(ConnectionError,), attempts=5),
    breaker=BreakerPolicy(failures=2, open_for=30),
)


async def test_an_operator_isolates_a_breaker_of_the_tree(autojump_clock):
    """What is done from outside acts on the guards that the tree's runs share, and the tree reports it."""
    seen = []

    async def payer(ctx):
        while True:
            try:
                await stripe.call(trio.sleep, 0)
                seen.append("paid")
            except BreakerOpen:
                seen.append("refused")
            await ctx.sleep(1)

    changes = []

    def listen(event):
        if event.kind == "BreakerChanged":
            changes.append((event.old, event.new))

    tree = Supervisor("shop", [Worker("payer", payer)])
    async with supervisor.running(tree, log=False, listeners=[listen]) as pool:
        assert pool.dependencies() == {} or seen
        await trio.sleep(0.5)
        guards = pool.dependencies()["stripe"]
        assert guards.statistics().bulkhead.limit == 2
        guards.breaker.isolate()
        await trio.sleep(1)
        guards.breaker.close()
        guards.bulkhead.resize(7)
        await trio.sleep(1)
        assert guards.statistics().bulkhead.limit == 7
    assert seen == ["paid", "refused", "paid"]
    assert changes == [("closed", "open"), ("open", "closed")]


async def test_a_retry_does_not_wait_for_a_refusal(autojump_clock):
    """Once the breaker has opened, the next attempt is refused at once: nobody sleeps through a backoff to be told."""

    async def refuse():
        calls.append(trio.current_time())
        raise ConnectionError

    calls = []
    dependency = Dependency(
        "db",
        timeout=5,
        retry=RetryPolicy(on=(ConnectionError,), attempts=5),
        breaker=BreakerPolicy(failures=1, open_for=30),
    )
    with pytest.raises(BreakerOpen) as refusal:
        await dependency.call(refuse)
    assert refusal.value.retry_after == 30
    assert (calls, trio.current_time()) == ([0.0], 0.0)
    budget = dependency.statistics().budget
    assert (budget.first_attempts, budget.retries) == (1, 0)
