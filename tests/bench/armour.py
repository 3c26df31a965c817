"""Guarded calls that succeed at once: what breaker, retry, bulkhead and all of them together cost.

Beside them stand the bare `await`, Trio's own limits of concurrency, and the one cancel scope that a timeout cannot do without.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from actors.resilience import (
    BreakerPolicy,
    Bulkhead,
    CircuitBreaker,
    Dependency,
    RetryPolicy,
    retry,
)
from supervision import Supervisor, Worker, supervisor
from tests.bench.meter import CpuTime

PLACES = 10
TIMEOUT = 5.0


async def succeed() -> int:
    """The call that is guarded."""
    return 1


def _measure(n: int, make: Callable[[], Callable[[], Awaitable[object]]]) -> float:
    """Microseconds for one call of what `make` makes, called as a decorated function is."""

    async def loop(call: Callable[[], Awaitable[object]], n: int) -> None:
        for _ in range(n):
            await call()

    return _measure_loop(n, lambda: partial(loop, make()))


def _measure_loop(n: int, make: Callable[[], Callable[[int], Awaitable[None]]]) -> float:
    """The same of a loop of its own, which takes the number of turns; in the run of a worker."""
    spent = CpuTime(n)

    async def run(ctx: object) -> None:
        loop = make()
        await loop(10)  # what is made at first use is not measured
        with spent:
            await loop(n)

    trio.run(partial(supervisor.serve, Supervisor("bench", [Worker("caller", run)]), log=False))
    assert spent.each
    return spent.each


def bare(n: int) -> float:
    return _measure(n, lambda: succeed)


def breaker(n: int) -> float:
    return _measure(n, lambda: CircuitBreaker("bench")(succeed))


def breaker_rate(n: int) -> float:
    policy = BreakerPolicy(failures=None, failure_rate=0.5)
    return _measure(n, lambda: CircuitBreaker("bench", policy)(succeed))


def breaker_call(n: int) -> float:
    guard = CircuitBreaker("bench")

    async def loop(n: int) -> None:
        for _ in range(n):
            await guard.call(succeed)

    return _measure_loop(n, lambda: loop)


POLICY = RetryPolicy(on=(ConnectionError,), attempts=3)


def retry_decorated(n: int) -> float:
    return _measure(n, lambda: POLICY(succeed))


def retry_call(n: int) -> float:
    async def loop(n: int) -> None:
        for _ in range(n):
            await retry(succeed, policy=POLICY)

    return _measure_loop(n, lambda: loop)


def bulkhead(n: int) -> float:
    return _measure(n, lambda: Bulkhead("bench", PLACES)(succeed))


def bulkhead_call(n: int) -> float:
    guard = Bulkhead("bench", PLACES)

    async def loop(n: int) -> None:
        for _ in range(n):
            await guard.call(succeed)

    return _measure_loop(n, lambda: loop)


def _limited(n: int, limit: trio.Semaphore | trio.CapacityLimiter) -> float:
    async def loop(n: int) -> None:
        for _ in range(n):
            async with limit:
                await succeed()

    return _measure_loop(n, lambda: loop)


def semaphore(n: int) -> float:
    return _limited(n, trio.Semaphore(PLACES))


def limiter(n: int) -> float:
    return _limited(n, trio.CapacityLimiter(PLACES))


def scope(n: int) -> float:
    async def loop(n: int) -> None:
        for _ in range(n):
            with trio.CancelScope(deadline=trio.current_time() + TIMEOUT):
                await succeed()

    return _measure_loop(n, lambda: loop)


DEPENDENCY = Dependency(
    "bench", timeout=TIMEOUT, limit=PLACES, retry=POLICY, breaker=BreakerPolicy()
)


def stack(n: int) -> float:
    return _measure(n, lambda: DEPENDENCY(succeed))


def stack_call(n: int) -> float:
    async def loop(n: int) -> None:
        for _ in range(n):
            await DEPENDENCY.call(succeed)

    return _measure_loop(n, lambda: loop)
