"""circuitbreaker: a breaker as a decorator; a success sets its count of failures back."""

from __future__ import annotations

from circuitbreaker import CircuitBreaker

from tests.bench.peers.calls import main, measure, succeed


def breaker(n: int) -> float:
    return measure(CircuitBreaker(name="bench")(succeed), n)


if __name__ == "__main__":
    main(globals())
