"""nopanic: policies as decorators, for Trio too; the stack is put together of four of them and a retry budget."""

from __future__ import annotations

from functools import partial

import nopanic

from tests.bench.peers.calls import PLACES, TIMEOUT, main, measure, succeed


def rate(n: int) -> float:
    return measure(nopanic.circuit_breaker()(succeed), n)


def retry(n: int) -> float:
    return measure(nopanic.retry(attempts=3, on=ConnectionError)(succeed), n)


def once(n: int) -> float:
    policy = nopanic.retry(attempts=3, on=ConnectionError)
    return measure(partial(policy.acall, succeed), n)


def bulkhead(n: int) -> float:
    return measure(nopanic.bulkhead(PLACES)(succeed), n)


def stack(n: int) -> float:
    policies = nopanic.compose(
        nopanic.retry(attempts=3, on=ConnectionError, budget=nopanic.RetryBudget()),
        nopanic.circuit_breaker(),
        nopanic.bulkhead(PLACES),
        nopanic.timeout(TIMEOUT),
    )
    return measure(policies(succeed), n)


if __name__ == "__main__":
    main(globals())
