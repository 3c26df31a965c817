"""What calls the downstream: httpx under Trio, without timeouts of its own; the armour has to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import httpx
import trio

from actors.resilience import (
    Backoff,
    BreakerPolicy,
    BreakerStatistics,
    BulkheadStatistics,
    Dependency,
    RetryPolicy,
)
from tests.downstream.server import Downstream

__all__ = ["QUICK", "Till", "breaker_of", "bulkhead_of", "dependency", "open_till", "transient"]

QUICK = Backoff(initial=0.01, factor=2.0, maximum=0.05, jitter=0.0)


class Till:
    """A client that charges. `attempts` counts every call of `charge`, whether or not a request came of it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.attempts = 0

    async def charge(self, cents: int, *, idempotency_key: str | None = None) -> int:
        self.attempts += 1
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        answer = await self.http.post("/charges", json={"cents": cents}, headers=headers)
        answer.raise_for_status()
        return int(answer.json()["charge"])


def transient(error: Exception) -> bool:
    """True of what another attempt may cure: no connection, a broken one, too late, 429 and 5xx."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, (httpx.TransportError, trio.TooSlowError))


def dependency(name: str = "till", **options: object) -> Dependency:
    """A declaration with times short enough for real ones, unless the test says otherwise."""
    given: dict[str, object] = {
        "timeout": 20.0,
        "retry": RetryPolicy(on=transient, attempts=3, backoff=QUICK),
        "breaker": BreakerPolicy(on=transient, failures=5, open_for=0.05, open_max=0.4),
        "budget": None,
        "random": Random(1),
    }
    return Dependency(name, **{**given, **options})  # type: ignore[arg-type]


def breaker_of(guarded: Dependency) -> BreakerStatistics:
    """Look at the breaker, in the calling tree."""
    found = guarded.statistics().breaker
    assert found is not None
    return found


def bulkhead_of(guarded: Dependency) -> BulkheadStatistics:
    """Look at the bulkhead, in the calling tree."""
    found = guarded.statistics().bulkhead
    assert found is not None
    return found


@asynccontextmanager
async def open_till(downstream: Downstream) -> AsyncIterator[Till]:
    """Open a client of the downstream."""
    async with httpx.AsyncClient(base_url=downstream.url, timeout=None, trust_env=False) as http:
        yield Till(http)
