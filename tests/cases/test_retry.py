"""RETRY, and what BACKOFF and CONFIG say about retries of calls."""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
import trio

from actors.errors import BreakerOpen
from actors.resilience import (
    Backoff,
    BreakerPolicy,
    CircuitBreaker,
    Dependency,
    RetryPolicy,
    deadline,
    retry,
)
from tests.resilience.kit import Down, Script, exact, policy


async def test_b013_the_thousandth_retry_waits_the_cap(autojump_clock):
    """B013, hynek/stamina#137 and twisted/twisted#9476: a call that fails 1100 times is retried to its success, never overflowing."""
    script = Script(*[Down] * 1100, "done")
    waits = exact(initial=0.1, maximum=5)

    assert await retry(script, policy=policy(attempts=None, backoff=waits)) == "done"
    assert script.calls == 1101
    assert trio.current_time() == pytest.approx(6.3 + 1094 * 5, abs=1e-6)
    steps = [b - a for a, b in pairwise(script.times)]
    assert steps[:7] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5])


async def test_b018_an_outage_of_an_hour_is_125_calls(autojump_clock):
    """B018, qdrant/go-client#153: an unlimited retry that fails at once makes 125 calls in an hour, not a hot loop."""
    script = Script(Down)
    waits = exact(initial=0.5, maximum=30)

    with trio.move_on_at(3600), pytest.raises(Down):
        await retry(script, policy=policy(attempts=None, backoff=waits))
    assert (script.calls, script.times[-1]) == (125, 3571.5)


async def test_b063_a_time_limit_is_never_retried(autojump_clock):
    """B063, jd/tenacity#529: "retry on all but X" does not retry a cancellation, and begins no wait."""
    script = Script("done", sleep=3)
    rules = policy(on=Exception, never=ValueError, attempts=5, backoff=exact(initial=10))

    with trio.move_on_after(1) as scope:
        await retry(script, policy=rules)
    assert scope.cancelled_caught
    assert (script.calls, trio.current_time()) == (1, 1)


async def test_b066_the_last_wait_stays_within_the_budget(autojump_clock):
    """B066, jd/tenacity#423: no wait is begun that ends past the total."""
    script = Script(Down("last"))

    with pytest.raises(Down, match="last"):
        await retry(script, policy=policy(attempts=None, total=5))
    assert script.times == [0, 1, 3]
    assert trio.current_time() == 3


async def test_b067_a_hint_that_does_not_fit_ends_it(autojump_clock):
    """B067, caura-ai/caura#861: a hint longer than the time left gives up at once with the real error."""
    script = Script(Down(retry_after=60))

    with pytest.raises(Down), deadline(15):
        await retry(script, policy=policy())
    assert (script.times, trio.current_time()) == ([0], 0)


async def test_b067_a_hint_that_fits_is_honoured(autojump_clock):
    """B067, caura-ai/caura#861: a hint that fits the time left is waited for."""
    script = Script(Down(retry_after=3), "done")

    with deadline(15):
        assert await retry(script, policy=policy()) == "done"
    assert script.times == [0, 3]


async def test_b068_a_refusal_is_final(autojump_clock):
    """B068, resilience4j/resilience4j#1653 and #1065: an open breaker's refusal is counted once and never retried."""
    script = Script(Down)
    breaker = CircuitBreaker("x", BreakerPolicy(failures=5, open_for=30))
    rules = policy(on=Exception, backoff=Backoff(0, jitter=0))
    attempts = []

    async def attempt():
        attempts[-1] += 1
        return await breaker.call(script)

    for number in range(1, 101):
        attempts.append(0)
        with pytest.raises(Down if number == 1 else BreakerOpen):
            await retry(attempt, policy=rules)
    assert script.calls == 5
    assert breaker.rejected == 99
    assert attempts == [3, 3, *[1] * 98]


async def test_b068_in_one_declaration(autojump_clock):
    """B068, resilience4j/resilience4j#1653: the same holds for a dependency that has both."""
    script = Script(Down)
    rules = policy(on=Exception, backoff=Backoff(0, jitter=0))
    x = Dependency("x", timeout=5, breaker=BreakerPolicy(failures=5), retry=rules)

    for _ in range(100):
        with pytest.raises((Down, BreakerOpen)):
            await x.call(script)
    assert (script.calls, x.statistics().breaker.rejected) == (5, 99)


@pytest.mark.parametrize("attempts", [1, 2])
async def test_b150_attempts_count_calls(autojump_clock, attempts):
    """B150, camunda/camunda#11372: attempts=1 makes 1 call and attempts=2 makes 2."""
    script = Script(Down)

    with pytest.raises(Down):
        await retry(script, policy=policy(attempts=attempts))
    assert script.calls == attempts


def test_b150_no_attempts_are_refused():
    """B150, camunda/camunda#11372: attempts=0 is refused where it is written, and the help text says that the first call counts."""
    with pytest.raises(ValueError, match="the first one included"):
        RetryPolicy(on=Down, attempts=0)

    assert "the first one included" in attrs.fields(RetryPolicy).attempts.metadata["doc"]
