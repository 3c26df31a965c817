"""What the armour counts comes out as metrics, under the names that alerts are written for."""

from __future__ import annotations

import trio

from actors.resilience import BreakerPolicy, Dependency, RetryPolicy, degrade
from supervision import Supervisor, Worker, supervisor
from supervision.metrics import TreeMeter
from supervision.tree import Tree


async def test_retries_refusals_degradation_and_breakers_are_counted(autojump_clock, monkeypatch):
    """One series for each worker, dependency, feature or breaker, whatever the traffic."""
    meters = []
    begin = Tree.__init__

    def watched(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        meters.append(TreeMeter(self))

    monkeypatch.setattr(Tree, "__init__", watched)
    stripe = Dependency(
        "stripe",
        timeout=1,
        limit=1,
        retry=RetryPolicy(attempts=2, on=(ConnectionError,)),
        breaker=BreakerPolicy(failures=4),
    )

    async def refuse():
        raise ConnectionError

    async def work(ctx):
        for _ in range(3):
            with degrade("receipts"):
                await stripe.call(refuse)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(occupy)

    full = Dependency("slow", timeout=5, limit=1)

    async def occupy():
        with degrade("slow"):
            await full.call(trio.sleep, 1)

    await supervisor.serve(Supervisor("shop", [Worker("payer", work)]), log=False)
    values = meters[0].read().values
    assert values["wf_worker_retries_total"] == {("payer", "stripe"): 2}
    assert values["wf_worker_degraded_total"] == {("payer", "receipts"): 3, ("payer", "slow"): 1}
    assert values["wf_worker_circuit_breaker_state"] == {("stripe",): 2}
    assert values["wf_worker_backpressure_events_total"] == {
        ("payer", "bulkhead_full"): 1,
        ("payer", "breaker_open"): 1,
    }
