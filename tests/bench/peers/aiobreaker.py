"""aiobreaker: pybreaker's design with coroutines; it runs on Trio as long as nobody waits for it to open."""

from __future__ import annotations

from aiobreaker import CircuitBreaker

from tests.bench.peers.calls import main, measure, succeed


def breaker(n: int) -> float:
    return measure(CircuitBreaker()(succeed), n)


if __name__ == "__main__":
    main(globals())
