"""purgatory: a breaker whose state is kept by a unit of work behind a message bus."""

from __future__ import annotations

from purgatory import AsyncCircuitBreakerFactory

from tests.bench.peers.calls import main, measure, succeed


def breaker(n: int) -> float:
    return measure(AsyncCircuitBreakerFactory()("bench")(succeed), n)


if __name__ == "__main__":
    main(globals())
