"""The breaker, where the machine does not look: jitter, windows off the grid, listeners that wait, hints, other runs, memory."""

from __future__ import annotations

import traceback
from math import inf
from random import Random

import pytest
import trio
from hypothesis import given, strategies as st

from actors.errors import BreakerOpen, PoisonMessage
from actors.resilience import BreakerPolicy, BreakerState, Bulkhead, CircuitBreaker, Dependency
from actors.resilience.counts import Outcome, Window
from tests.resilience.kit import Down, Script


async def fail(breaker, times=1, error=Down):
    for _ in range(times):
        with pytest.raises(type(error) if isinstance(error, Exception) else error):
            await breaker.call(Script(error))


async def test_b7_the_very_instant_counts(autojump_clock):
    """B7: just before its time it is open, at its time it is half-open."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=30))
    await fail(breaker)

    await trio.sleep(29.999999)
    assert breaker.state is BreakerState.OPEN == 2
    await trio.sleep_until(30)
    assert breaker.state is BreakerState.HALF_OPEN == 1


@given(
    jitter=st.floats(0, 0.9),
    growth=st.floats(1, 1e300),
    reopened=st.integers(0, 10**6),
    seed=st.integers(),
)
def test_b13_open_times_grow_up_to_the_cap(jitter, growth, reopened, seed):
    """B13: the k-th opening lasts longer than the one before, is spread by the jitter, and never passes `open_max`."""
    rules = BreakerPolicy(open_for=10, open_growth=growth, open_max=300, jitter=jitter)
    even = BreakerPolicy(open_for=10, open_growth=growth, open_max=300)
    base = min(300 / (1 + jitter), even.open_seconds(reopened, Random()))

    seconds = rules.open_seconds(reopened, Random(seed))
    assert base * (1 - jitter) <= seconds * (1 + 1e-9)
    assert seconds <= min(300, base * (1 + jitter) * (1 + 1e-9))
    assert even.open_seconds(reopened, Random()) <= even.open_seconds(reopened + 1, Random())


async def test_b13_repeated_openings_wait_longer_until_it_closes(autojump_clock):
    """B13: failed trials double the open time, and a recovery begins anew."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=10, open_max=30))
    waits = []
    for _ in range(4):
        await fail(breaker)
        waits.append(breaker.statistics().retry_after)
        await trio.sleep(waits[-1])
    await breaker.call(Script("done"))
    await fail(breaker)

    assert waits == [10, 20, 30, 30]
    assert breaker.statistics().retry_after == 10


@given(
    st.lists(st.tuples(st.floats(0, 3), st.sampled_from(list(Outcome)), st.booleans()), max_size=60)
)
def test_b14_a_window_agrees_with_a_recount(steps):
    """B14: at any moment the window holds all results of its last nine tenths and none that is older than it."""
    window, now, results = Window(10.0, None), 0.0, []
    for wait, outcome, slow in steps:
        now += wait
        slow = slow and outcome is not Outcome.NEUTRAL
        window.add(outcome, now, slow=slow)
        results.append((now, outcome, slow))
        counts = window.counts(now)
        for outcome_, found in (
            (Outcome.SUCCESS, counts.successes),
            (Outcome.FAILURE, counts.failures),
        ):
            ages = [now - at for at, one, _ in results if one is outcome_]
            assert sum(age < 8.999 for age in ages) <= found <= sum(age < 10.001 for age in ages)
        assert 0 <= counts.slow <= counts.calls
    assert window.counts(now + 10.001).calls == 0


def test_b14_the_window_ends_at_its_edge():
    """B14: a result counts until it is as old as the window, and in that instant no more."""
    window = Window(10.0, None)
    window.add(Outcome.FAILURE, 0.0, slow=True)
    window.add(Outcome.NEUTRAL, 0.0, slow=True)

    assert (window.counts(9.999).failures, window.counts(9.999).slow) == (1, 1)
    assert window.counts(10.0).calls == window.counts(10.0).slow == 0


@pytest.mark.parametrize("calls", [None, 50])
def test_b14_good_days_cost_no_memory(calls):
    """B14: a year of successes leaves one window of slices, though nobody asks for the counts."""
    window = Window(10.0, calls)
    for second in range(10_000):
        window.add(Outcome.SUCCESS, float(second), slow=False)

    assert len(window._slices) <= 11
    assert len(window._last) <= 50


@pytest.mark.parametrize("by", ["failure_rate", "slow_rate"])
@pytest.mark.parametrize("percent", [1, 7, 14, 28, 50, 55, 56, 99, 100])
async def test_b14_a_rate_is_the_share_that_is_written(autojump_clock, percent, by):
    """B14: a rate of 0.55 opens it at 55 bad calls of 100 and not at 54, whatever binary fractions make of it."""
    rules = {by: percent / 100, "failures": None, "minimum": 100, "window_calls": 100}
    if by == "slow_rate":
        rules["slow_after"] = 1
    breaker = CircuitBreaker("x", BreakerPolicy(**rules))
    for n in range(100):
        assert breaker.state is BreakerState.CLOSED
        if n < 100 - percent:
            await breaker.call(Script("done"))
        elif by == "slow_rate":
            await breaker.call(trio.sleep, 1)
        else:
            await fail(breaker)

    assert breaker.state is BreakerState.OPEN


async def test_b16_a_call_longer_than_the_window_counts(autojump_clock):
    """B16: calls that fail after the window's length open it: results are booked when they come."""
    rules = BreakerPolicy(failures=None, failure_rate=0.5, minimum=3, window=1)
    breaker = CircuitBreaker("x", rules)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(fail, breaker, 1, Down())
    assert breaker.state is BreakerState.OPEN

    breaker.close()

    async def slow():
        await trio.sleep(40)
        raise Down

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(expect_down, breaker, slow)
    assert breaker.state is BreakerState.OPEN


async def expect_down(breaker, fn):
    with pytest.raises(Down):
        await breaker.call(fn)


async def test_without_a_window_nothing_is_forgotten(autojump_clock):
    """A breaker without rates counts since its last change, failures and successes alike."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=3))
    await fail(breaker, 2)
    await trio.sleep(3600)
    assert breaker.counts.failures == breaker.counts.consecutive_failures == 2
    await fail(breaker)
    assert breaker.state is BreakerState.OPEN


async def test_b12_trials_longer_than_their_lease_still_close_it(autojump_clock):
    """B12: with callers coming all the time, trials that outlast their lease, each giving way to the next, close it by success."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=5, successes=2))
    await fail(breaker)
    await trio.sleep(5)

    async def caller(after):
        await trio.sleep(after)
        try:
            await breaker.call(Script(6))
        except BreakerOpen:
            pass

    async with trio.open_nursery() as nursery:
        for second in range(12):
            nursery.start_soon(caller, second)
    assert breaker.state is BreakerState.CLOSED


async def test_b12_a_hung_trial_gives_way(autojump_clock):
    """B12: a trial that never returns loses its place after its lease, and a refusal says how long that is."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=5, lease=3))
    await fail(breaker)
    await trio.sleep(5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaker.call, trio.sleep_forever)
        await trio.sleep(1)
        with pytest.raises(BreakerOpen, match="half-open and its trials are taken") as caught:
            await breaker.call(Script("no"))
        assert (caught.value.retry_after, caught.value.trying) == (2, True)
        await trio.sleep(2)
        assert await breaker.call(Script("yes")) == "yes"
        assert breaker.state is BreakerState.CLOSED
        nursery.cancel_scope.cancel()


async def test_b19_a_hint_lengthens_the_wait(autojump_clock):
    """B19: it stays open as long as the other side asked, up to `open_max`; a shorter wish changes nothing."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=10, open_max=60))
    for hint, wait in [(5, 10), (20, 20), (10**12, 60)]:
        breaker.close()
        await fail(breaker, error=Down(retry_after=hint))
        assert breaker.statistics().retry_after == wait


async def test_poison_says_nothing_about_the_dependency(autojump_clock):
    """A message that can never succeed is neutral, whoever it was sent to."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1))
    await fail(breaker, error=PoisonMessage())

    assert breaker.counts.neutral == 1


class Quarrel(Exception):
    """Raised by a rule of the user's."""


def quarrel(_):
    raise Quarrel


@pytest.mark.parametrize("option", ["on", "neutral", "fails"])
async def test_a_rule_that_raises_loses_no_place(autojump_clock, option):
    """A function of the policy that raises is its caller's error; the trial's place is given back."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=5, **{option: quarrel}))
    breaker.open()
    await trio.sleep(5)
    for _ in range(3):
        with pytest.raises(Quarrel):
            await breaker.call(Script("done" if option == "fails" else Down))
    assert breaker.admits
    assert breaker.counts.neutral == 3


@pytest.mark.parametrize(
    ("act", "stands"),
    [
        (lambda breaker: breaker.disable(), ("closed", 0)),
        (lambda breaker: breaker.close(), ("closed", 0)),
        (lambda breaker: breaker.open(5), ("open", 5)),
        (lambda breaker: breaker.isolate(), ("open", 300)),
    ],
)
async def test_what_a_rule_does_itself_stands(autojump_clock, act, stands):
    """A `ready_to_trip` that works the breaker by hand and then says yes does not undo its own work."""

    def rule(counts):
        act(breaker)
        return True

    breaker = CircuitBreaker("x", BreakerPolicy(ready_to_trip=rule, open_for=30))
    await fail(breaker)
    stats = breaker.statistics()
    assert (stats.state, stats.retry_after) == stands
    assert stats.generation == 1


async def test_a_listener_may_wait_and_use_the_breaker(autojump_clock):
    """B17: an async listener is told one change at a time, in order, and may call through the breaker and close it."""
    told = []

    async def listen(name, old, new):
        await trio.sleep(1)
        told.append((name, old.name, new.name, trio.current_time()))
        if new is BreakerState.OPEN and len(told) == 1:
            with pytest.raises(BreakerOpen):
                await breaker.call(Script("no"))
            breaker.close()

    breaker = CircuitBreaker("x", BreakerPolicy(failures=1), on_state_change=listen)
    await fail(breaker)
    await trio.sleep(1.5)
    breaker.open()
    await trio.sleep(5)

    assert told == [
        ("x", "CLOSED", "OPEN", 1),
        ("x", "OPEN", "CLOSED", 2),
        ("x", "CLOSED", "OPEN", 3),
    ]


async def test_a_listener_that_disagrees_has_the_last_word(autojump_clock):
    """B20: a listener that closes what has just been disabled closes it."""

    def listen(name, old, new):
        if new is BreakerState.CLOSED:
            breaker.isolate()

    breaker = CircuitBreaker("x", BreakerPolicy(failures=1), on_state_change=listen)
    await fail(breaker)
    breaker.disable()
    assert breaker.state is BreakerState.OPEN


async def test_b18_an_isolated_breaker_has_a_finite_hint(autojump_clock):
    """B18: isolation has no end, but the hint is finite, in the error as in the statistics."""
    breaker = CircuitBreaker("x", BreakerPolicy(open_max=60, open_for=5))
    breaker.isolate()

    with pytest.raises(BreakerOpen, match="isolated by hand") as caught:
        await breaker.call(Script("no"))
    assert caught.value.retry_after == breaker.statistics().retry_after == 60


async def test_b18_while_a_trial_may_begin_nobody_is_told_to_wait(autojump_clock):
    """B18: half-open with a trial's place free, the statistics say 0 seconds, whatever the other trials' leases are."""
    breaker = CircuitBreaker("x", BreakerPolicy(half_open_max=2, successes=9, open_for=30))
    breaker.open()
    await trio.sleep(30)

    async with trio.open_nursery() as nursery:
        for admits, wait in ((True, 0), (False, 28)):
            nursery.start_soon(breaker.call, trio.sleep, 40)
            await trio.sleep(1)
            assert breaker.admits is admits
            assert breaker.statistics().retry_after == wait
        await trio.sleep(28)
        assert breaker.admits
        assert breaker.statistics().retry_after == 0


@pytest.mark.parametrize("seconds", [-1, inf, float("nan")])
async def test_opening_by_hand_takes_a_time(autojump_clock, seconds):
    """`open(seconds)` takes a finite time, and names `isolate` for the rest."""
    with pytest.raises(ValueError, match="isolate"):
        CircuitBreaker("x").open(seconds)


async def test_waiting_in_our_own_line_is_not_slowness(autojump_clock):
    """The time that a call waits for its place counts neither as slow nor against its lease."""
    rules = BreakerPolicy(
        failures=None, slow_rate=0.5, slow_after=2, minimum=1, lease=2, open_for=5
    )
    x = Dependency("x", timeout=60, limit=1, max_waiting=5, breaker=rules)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(x.call, trio.sleep, 1)
    assert x.statistics().breaker.counts.slow == 0
    x.guards().breaker.open()
    await trio.sleep(5)
    bulkhead: Bulkhead = x.guards().bulkhead
    bulkhead.resize(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(x.call, trio.sleep, 1.5)
        await trio.sleep(1.5)
        bulkhead.resize(1)
        await trio.sleep(1)
        assert not x.available  # it began a second ago
    assert x.available


async def test_refusals_do_not_grow(autojump_clock):
    """Each refusal is an error of its own: the three hundredth has as short a traceback as the first."""
    breaker = CircuitBreaker("x")
    breaker.open()
    lengths = []
    for _ in range(300):
        with pytest.raises(BreakerOpen) as caught:
            await breaker.call(Script("no"))
        lengths.append(len(traceback.extract_tb(caught.value.__traceback__)))

    assert len(set(lengths)) == 1
    assert not hasattr(caught.value, "__notes__")
