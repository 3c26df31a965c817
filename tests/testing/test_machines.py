"""The machines of the kit, run against the library itself."""

from __future__ import annotations

from actors.resilience import Bulkhead, VegasLimit
from supervision.testing import (
    BackoffMachine,
    BreakerMachine,
    BulkheadMachine,
    InjectedFault,
    PoolMachine,
)
from tests.properties.looking import looking

TestBackoff = BackoffMachine.TestCase
TestBackoff.settings = looking(60, steps=25)

TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = looking(60, steps=40)

TestBulkhead = BulkheadMachine.TestCase
TestBulkhead.settings = looking(60, steps=25)


class AdaptiveMachine(BulkheadMachine):
    """A bulkhead of one's own, whose limit finds itself."""

    def make(self, limit, max_waiting, max_wait) -> Bulkhead:
        law = VegasLimit(initial=limit, maximum=3, samples=1, probe_after=2, on=InjectedFault)
        return Bulkhead("x", law, max_waiting=max_waiting, max_wait=max_wait)


TestAdaptive = AdaptiveMachine.TestCase
TestAdaptive.settings = looking(60, steps=25)

TestPool = PoolMachine.TestCase
TestPool.settings = looking(120, steps=25)
