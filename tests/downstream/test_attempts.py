"""One call and what becomes of it, for each way the other side can fail."""

from __future__ import annotations

import httpx
import pytest
import trio

from actors.resilience import (
    BreakerPolicy,
    DeadlineExceeded,
    MissingIdempotencyKey,
    RetryPolicy,
    deadline,
)
from tests.downstream.client import QUICK, Till, breaker_of, bulkhead_of, dependency, transient
from tests.downstream.server import Act, Downstream, busy, cut, garble, hang, reset, slow


async def test_a_call_that_succeeds_is_one_request(downstream: Downstream, till: Till) -> None:
    """With a downstream that is well, each call is one request and nothing is refused."""
    stripe = dependency(limit=4, max_waiting=4)
    charges = [await stripe.call(till.charge, 100) for _ in range(20)]

    assert charges == list(range(1, 21))
    assert downstream.seen.value == till.attempts == 20
    breaker, bulkhead = breaker_of(stripe), bulkhead_of(stripe)
    assert (breaker.state, breaker.rejected, breaker.counts.failures) == ("closed", 0, 0)
    assert (bulkhead.admitted, bulkhead.rejected, bulkhead.free) == (20, 0, 4)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (busy(), httpx.HTTPStatusError),
        (busy(status=429), httpx.HTTPStatusError),
        (reset, httpx.ReadError),
        (cut, httpx.RemoteProtocolError),
        (garble, httpx.RemoteProtocolError),
    ],
    ids=["503", "429", "reset", "cut", "garbled"],
)
async def test_a_transient_failure_is_tried_again(
    downstream: Downstream, till: Till, act: Act, kind: type[Exception]
) -> None:
    """Two failures of one kind cost two more requests, and the caller gets the answer of the third."""
    downstream.script.extend([act, act])
    stripe = dependency()
    await stripe.call(till.charge, 100, idempotency_key="order 7")

    assert downstream.seen.value == till.attempts == 3
    downstream.script.extend([act] * 3)
    with pytest.raises(kind) as caught:
        await stripe.call(till.charge, 100)
    assert downstream.seen.value == 6
    assert "3 of 3 attempts made" in caught.value.__notes__[-1]


async def test_nobody_listens(downstream: Downstream, till: Till) -> None:
    """A port where nobody listens is a failure like any other, and is tried again when somebody does."""
    await downstream.die()
    stripe = dependency()
    with pytest.raises(httpx.ConnectError):
        await stripe.call(till.charge, 100)
    assert till.attempts == 3

    await downstream.rise()
    assert await stripe.call(till.charge, 100) == 1


async def test_what_no_attempt_cures_is_asked_once(downstream: Downstream, till: Till) -> None:
    """A refusal that is the caller's own fault is neither tried again nor held against the downstream."""
    downstream.mood = busy(status=422)
    stripe = dependency()
    for _ in range(10):
        with pytest.raises(httpx.HTTPStatusError):
            await stripe.call(till.charge, -1)

    assert downstream.seen.value == 10
    breaker = breaker_of(stripe)
    assert (breaker.state, breaker.counts.failures) == ("closed", 0)


async def test_retry_after_is_waited_for(downstream: Downstream, till: Till) -> None:
    """A short Retry-After in the answer is waited for instead of the policy's own shorter backoff."""
    downstream.script.append(busy("0.2"))
    before = trio.current_time()
    await dependency().call(till.charge, 100)

    assert downstream.seen.value == 2
    # No earlier than asked for: a bound that no slow machine can break.
    assert trio.current_time() - before >= 0.2


async def test_a_long_retry_after_goes_back_to_the_caller(
    downstream: Downstream, till: Till
) -> None:
    """A Retry-After of two minutes is not waited out: one request, the real error, and the hint still in it."""
    downstream.mood = busy("120")
    with pytest.raises(httpx.HTTPStatusError) as caught:
        await dependency().call(till.charge, 100)

    assert downstream.seen.value == 1
    assert caught.value.response.headers["retry-after"] == "120"


async def test_a_hung_attempt_is_cancelled(downstream: Downstream, till: Till) -> None:
    """An attempt over its timeout is cancelled, the other side sees the connection closed, and the next one is made."""
    downstream.script.append(hang)
    stripe = dependency(timeout=0.5, limit=1)
    assert await stripe.call(till.charge, 100) == 1

    await downstream.given_up.wait_value(1)
    assert downstream.seen.value == 2
    assert bulkhead_of(stripe).free == 1


async def test_a_call_that_only_hangs(downstream: Downstream, till: Till) -> None:
    """If every attempt hangs, the caller is told which timeout it was, and no place stays taken."""
    downstream.mood = hang
    stripe = dependency(timeout=0.05, limit=1)
    with pytest.raises(
        DeadlineExceeded, match=r"an attempt to call till took longer than its 0\.05 s"
    ):
        await stripe.call(till.charge, 100)

    await downstream.given_up.wait_value(3)
    assert downstream.seen.value == 3
    assert bulkhead_of(stripe).free == 1


async def test_total_bounds_all_attempts(downstream: Downstream, till: Till) -> None:
    """With `total` a call that hangs again and again ends within it, whatever the number of attempts allows."""
    downstream.mood = hang
    retries = RetryPolicy(on=transient, attempts=None, backoff=QUICK)
    stripe = dependency(timeout=0.1, total=0.35, retry=retries, breaker=None)
    with pytest.raises(DeadlineExceeded):
        await stripe.call(till.charge, 100)

    # At least 0.1 s each, so no more than four of them fit.
    assert 1 <= downstream.seen.value <= 4
    await downstream.given_up.wait_value(downstream.seen.value)


async def test_no_attempt_that_the_deadline_would_cut(downstream: Downstream, till: Till) -> None:
    """If the caller's deadline leaves no room for the wait, the real error comes at once and no request is wasted."""
    downstream.mood = busy("25")
    with deadline(20), pytest.raises(httpx.HTTPStatusError) as caught:
        await dependency().call(till.charge, 100)

    assert downstream.seen.value == 1
    assert "are left" in caught.value.__notes__[-1]


async def test_an_impatient_caller_is_neutral(downstream: Downstream, till: Till) -> None:
    """A caller that gives up cancels the request, and the breaker holds nothing against the downstream."""
    downstream.mood = slow
    stripe = dependency(breaker=BreakerPolicy(failures=1), limit=1)
    with trio.CancelScope() as patience:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stripe.call, till.charge, 100)
            await downstream.under_way.wait_value(1)
            patience.cancel()

    breaker, bulkhead = breaker_of(stripe), bulkhead_of(stripe)
    assert (breaker.state, breaker.counts.failures, bulkhead.free) == ("closed", 0, 1)


async def test_a_lost_answer_books_once(downstream: Downstream, till: Till) -> None:
    """When the work was done and its answer lost, the retry carries the same key and nothing is booked twice."""
    downstream.script.extend([cut, cut])
    stripe = dependency(idempotent=False)
    assert await stripe.call(till.charge, 100, idempotency_key="order 7") == 1

    assert downstream.keys == ["order 7"] * 3
    assert downstream.booked == {"order 7": 1}


async def test_without_a_key_nothing_is_sent(downstream: Downstream, till: Till) -> None:
    """A call that must not happen twice is refused before its first request if it has no key to be retried with."""
    with pytest.raises(MissingIdempotencyKey):
        await dependency(idempotent=False).call(till.charge, 100)
    assert till.attempts == downstream.seen.value == 0

    once = RetryPolicy(on=transient, attempts=1)
    assert await dependency("once", idempotent=False, retry=once).call(till.charge, 100) == 1
