"""What a breaker takes along into another process (B22)."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from actors.errors import BreakerOpen
from actors.options import OptionError
from actors.resilience import BreakerMemory, BreakerPolicy, BreakerState, CircuitBreaker
from tests.resilience.kit import Down, Script

POLICY = BreakerPolicy(failures=1, open_for=30, open_growth=2, open_max=300)


def test_b22_a_restart_does_not_call_what_is_down():
    """B22: a breaker that was open for 10 of its 30 seconds is open for 20 more in the next process, whatever its clock shows."""
    kept = []

    async def before():
        await trio.sleep(12345)
        breaker = CircuitBreaker("x", POLICY)
        with pytest.raises(Down):
            await breaker.call(Script(Down))
        await trio.sleep(10)
        kept.append(attrs.asdict(breaker.memory()))

    async def after():
        breaker = CircuitBreaker("x", POLICY)
        breaker.restore(BreakerMemory(**kept[0]))
        with pytest.raises(BreakerOpen, match="1 consecutive calls failed") as caught:
            await breaker.call(Script("no"))
        assert caught.value.retry_after == 20
        await trio.sleep(20)
        with pytest.raises(Down):
            await breaker.call(Script(Down))
        assert breaker.statistics().retry_after == 60

    for main in (before, after):
        trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_b22_failed_recoveries_are_remembered(autojump_clock):
    """B22: one that has failed to recover stays open as long as it would have, and longer the next time."""
    breaker, other = CircuitBreaker("x", POLICY), CircuitBreaker("x", POLICY)
    for wait in (0, 30, 60):
        await trio.sleep(wait)
        with pytest.raises(Down):
            await breaker.call(Script(Down))
    other.restore(breaker.memory(), elapsed=100)
    assert other.statistics().retry_after == 20
    await trio.sleep(20)
    with pytest.raises(Down):
        await other.call(Script(Down))
    assert other.statistics().retry_after == 240


async def test_b22_the_time_between_may_be_longer_than_the_wait(autojump_clock):
    """B22: if all of the wait has passed meanwhile, the next call is a trial."""
    breaker = CircuitBreaker("x", POLICY)
    breaker.restore(BreakerMemory(state="open", left=5, opened_for=30), elapsed=600)
    assert breaker.state is BreakerState.HALF_OPEN
    assert await breaker.call(Script("done")) == "done"
    assert breaker.state is BreakerState.CLOSED


async def test_b22_a_clock_that_was_set_back_lengthens_nothing(autojump_clock):
    """B22: if the clock that both processes see was set back by a year meanwhile, no more than what was left is waited."""
    breaker = CircuitBreaker("x", POLICY)
    breaker.restore(BreakerMemory(state="open", left=20, opened_for=30), elapsed=-365 * 86400.0)
    assert breaker.statistics().retry_after == 20


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"state": "ajar"}, "state must be one of closed, half_open, open, not 'ajar'"),
        ({"state": "open", "held": "by me"}, "held must be isolated, disabled or None"),
        ({"state": "open", "held": "disabled"}, "state must be closed.* disabled, not 'open'"),
        ({"state": "closed", "held": "isolated"}, "state must be open.* isolated, not 'closed'"),
        ({"state": "half_open", "held": "isolated"}, "state must be open.* isolated"),
        ({"state": "open", "left": -1}, "left"),
        ({"state": "open", "left": float("inf")}, "left"),
        ({"state": "open", "since": 5}, "since"),
    ],
)
def test_b22_what_comes_from_a_file_is_checked(options, text):
    """B22: what no breaker has written is refused, and says what is wrong."""
    with pytest.raises(OptionError, match=text):
        BreakerMemory(**options)
