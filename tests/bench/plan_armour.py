"""What a guarded call is measured beside, and which figure is wanted: the armour's part of the plan.

All of them call one async function that succeeds at once, in a worker's run, so that what is left over is the guard.
"""

from __future__ import annotations

from typing import Final

from tests.bench.plan import Block, Kind, Row, Side

__all__ = ["ARMOUR"]

_SIDES: Final = {
    side.name: side
    for side in (
        Side("armour.bare", "a bare `await`", 200_000, 5_000),
        Side("armour.breaker", "a closed breaker, as a decorator", 200_000, 5_000),
        Side("armour.breaker_rate", "one that judges by a rate, as a decorator", 200_000, 5_000),
        Side("armour.breaker_call", "a closed breaker, `breaker.call(fn)`", 200_000, 5_000),
        Side(
            "armour.retry",
            "a retry policy, as a decorator",
            200_000,
            5_000,
            function="armour.retry_decorated",
        ),
        Side("armour.retry_call", "the same, `retry(fn, policy=...)`", 200_000, 5_000),
        Side("armour.bulkhead", "a bulkhead with places free, as a decorator", 200_000, 5_000),
        Side("armour.bulkhead_call", "the same, `bulkhead.call(fn)`", 200_000, 5_000),
        Side("armour.semaphore", "`async with trio.Semaphore`", 50_000, 2_000),
        Side("armour.limiter", "`async with trio.CapacityLimiter`", 50_000, 2_000),
        Side("armour.scope", "a bare `trio.CancelScope` with a deadline", 50_000, 2_000),
        Side("armour.stack", "the whole stack, as a decorator", 50_000, 2_000),
        Side("armour.stack_call", "the same, `dependency.call(fn)`", 50_000, 2_000),
    )
}

_ROWS: Final = (
    Row("closed breaker, beside a bare `await`", "armour.breaker", "armour.bare", Kind.MORE),
    Row("one that judges by a rate", "armour.breaker_rate", "armour.bare", Kind.MORE),
    Row("closed breaker, `breaker.call(fn)`", "armour.breaker_call", "armour.bare", Kind.MORE),
    Row("retry, beside a bare `await`", "armour.retry", "armour.bare", Kind.MORE),
    Row("the same, `retry(fn, policy=...)`", "armour.retry_call", "armour.bare", Kind.MORE),
    Row("bulkhead, beside a bare `await`", "armour.bulkhead", "armour.bare", Kind.MORE),
    Row("the same, `bulkhead.call(fn)`", "armour.bulkhead_call", "armour.bare", Kind.MORE),
    Row("bulkhead, beside `trio.Semaphore`", "armour.bulkhead", "armour.semaphore", Kind.COST),
    Row("bulkhead, beside `trio.CapacityLimiter`", "armour.bulkhead", "armour.limiter", Kind.COST),
    Row("whole stack, beside a bare scope", "armour.stack", "armour.scope", Kind.MORE, 15.0),
    Row(
        "the same, `dependency.call(fn)`", "armour.stack_call", "armour.scope", Kind.MORE, 15.0
    ),
)  # fmt: skip

ARMOUR: Final = Block("armour", _SIDES, _ROWS)
