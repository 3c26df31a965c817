"""tenacity: retries; it finds out at each call whether it runs on Trio."""

from __future__ import annotations

from tenacity import (
    retry as retried,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from tests.bench.peers.calls import main, measure, succeed


def retry(n: int) -> float:
    decorate = retried(
        retry=retry_if_exception_type(ConnectionError),
        stop=stop_after_attempt(3),
        wait=wait_random_exponential(multiplier=0.1, max=2.0),
        reraise=True,
    )
    return measure(decorate(succeed), n)


if __name__ == "__main__":
    main(globals())
