"""pybreaker: made for sync functions; its block is the only form that sees how an awaited call ends."""

from __future__ import annotations

from pybreaker import CircuitBreaker

from tests.bench.peers.calls import main, measure, succeed


def breaker(n: int) -> float:
    guard = CircuitBreaker()

    async def guarded() -> int:
        with guard.calling():
            return await succeed()

    return measure(guarded, n)


if __name__ == "__main__":
    main(globals())
