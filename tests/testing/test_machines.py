"""The machines of the kit, run against the library itself."""

from __future__ import annotations

from supervision.testing import BackoffMachine, BreakerMachine, BulkheadMachine, PoolMachine
from tests.properties.looking import looking

TestBackoff = BackoffMachine.TestCase
TestBackoff.settings = looking(60, steps=25)

TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = looking(60, steps=40)

TestBulkhead = BulkheadMachine.TestCase
TestBulkhead.settings = looking(60, steps=25)

TestPool = PoolMachine.TestCase
TestPool.settings = looking(120, steps=25)
