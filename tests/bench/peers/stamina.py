"""stamina: tenacity's retries with its own defaults; its hooks, that log, are taken away."""

from __future__ import annotations

import stamina
from stamina.instrumentation import set_on_retry_hooks

from tests.bench.peers.calls import main, measure, succeed


def retry(n: int) -> float:
    set_on_retry_hooks([])
    return measure(stamina.retry(on=ConnectionError, attempts=3)(succeed), n)


if __name__ == "__main__":
    main(globals())
