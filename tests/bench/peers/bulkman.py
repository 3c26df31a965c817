"""bulkman: a bulkhead that answers with a record of how each call went, its breaker not switched on."""

from __future__ import annotations

from bulkman import Bulkhead, BulkheadConfig

from tests.bench.peers.calls import PLACES, main, measure, succeed


def bulkhead(n: int) -> float:
    guard = Bulkhead(BulkheadConfig("bench", max_concurrent_calls=PLACES))

    async def guarded() -> object:
        return await guard.execute(succeed)

    return measure(guarded, n)


if __name__ == "__main__":
    main(globals())
