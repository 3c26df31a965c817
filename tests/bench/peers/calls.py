"""What the armour's peers share: `measure(call, n)` awaits `call()` under Trio, `n` times in a row.

Their files define those of `breaker rate retry once bulkhead stack` that their library offers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from tests.bench.peers.kit import CpuTime, main

__all__ = ["PLACES", "TIMEOUT", "main", "measure", "succeed"]

PLACES = 10
TIMEOUT = 5.0


async def succeed() -> int:
    """The call that is guarded."""
    return 1


def measure(call: Callable[[], Awaitable[object]], n: int) -> float:
    """Microseconds of CPU for one `await call()`."""

    async def loop(n: int) -> None:
        for _ in range(n):
            await call()

    async def program() -> float:
        await loop(10)  # what is made at first use is not measured
        with CpuTime(n) as spent:
            await loop(n)
        return spent.each

    return trio.run(program)
