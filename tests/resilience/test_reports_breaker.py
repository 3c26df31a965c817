"""Faults that were reported of other breakers, each as a scenario here."""

from __future__ import annotations

import traceback

import pytest
import trio

from actors.errors import BreakerOpen
from actors.resilience import (
    Backoff,
    BreakerPolicy,
    BreakerState,
    CircuitBreaker,
    Dependency,
    retry,
)
from tests.resilience.kit import Down, Script, gather, policy


def breaker(**options):
    """Opens at the first failure, for 10 s, with one trial, unless told otherwise."""
    listener = options.pop("listener", None)
    rules = BreakerPolicy(**{"failures": 1, "open_for": 10, **options})
    return CircuitBreaker("x", rules, on_state_change=listener)


async def trip(guard, failures=1):
    for _ in range(failures):
        with pytest.raises(Down):
            await guard.call(Script(Down))


async def test_a_hook_that_reads_the_counters(autojump_clock):
    """sony/gobreaker#37: the hook of a change reads state, counts and statistics, and nothing deadlocks."""
    read = []

    def hook(name, old, new):
        read.append((guard.state, guard.counts.calls, guard.statistics().state))

    guard = breaker(listener=hook)
    await trip(guard)
    assert read == [(BreakerState.OPEN, 0, "open")]


async def test_scatter_gather(autojump_clock):
    """sony/gobreaker#105 and #107: one of three parallel calls fails and cancels the others, whose breakers do not change."""
    a, b, c = breaker(), breaker(), breaker()

    with pytest.raises(ExceptionGroup):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(b.call, trio.sleep_forever)
            nursery.start_soon(c.call, trio.sleep_forever)
            nursery.start_soon(a.call, Script(Down, sleep=1))
    assert a.state is BreakerState.OPEN
    for other in (b, c):
        assert other.state is BreakerState.CLOSED
        assert (other.counts.calls, other.counts.neutral) == (0, 1)


async def test_too_many_trials_say_so(autojump_clock):
    """sony/gobreaker#30 and #49: only parallel callers can meet "trials are taken", which differs from "is open" and has a hint."""
    guard = breaker(half_open_max=2, successes=3)
    await trip(guard)
    with pytest.raises(BreakerOpen, match="is open") as open_:
        await guard.call(Script("no"))
    await trio.sleep(10)

    results = await gather(*[lambda: guard.call(Script("done", sleep=1))] * 3)
    (refused,) = [result for result in results if result != "done"]
    assert "half-open and its trials are taken" in str(refused)
    assert (open_.value.trying, refused.trying, refused.retry_after) == (False, True, 10)
    assert await guard.call(Script("done")) == "done"
    assert guard.state is BreakerState.CLOSED


async def test_an_unhandled_trial_decides_nothing(autojump_clock):
    """App-vNext/Polly#1979, #311 and #717: a trial that ends with an error not handled neither closes it nor keeps its place."""
    guard = breaker(on=Down)
    await trip(guard)
    await trio.sleep(10)

    with pytest.raises(ValueError):
        await guard.call(Script(ValueError))
    assert guard.state is BreakerState.HALF_OPEN
    await trip(guard)
    assert guard.state is BreakerState.OPEN


async def test_a_break_shorter_than_a_call(autojump_clock):
    """App-vNext/Polly#216, #217, #219 and #223: slow calls of the closed period end later: no second opening, no decision."""
    changes = []
    guard = breaker(open_for=2, listener=lambda _, old, new: changes.append((old.name, new.name)))

    async def slow():
        await trio.sleep(3)
        raise Down

    async def expect():
        with pytest.raises(Down):
            await guard.call(slow)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(expect)
        await trio.sleep(0.5)
        await trip(guard)
        await trio.sleep(2)
        assert guard.state is BreakerState.HALF_OPEN
    assert guard.state is BreakerState.HALF_OPEN
    assert changes == [("CLOSED", "OPEN"), ("OPEN", "HALF_OPEN")]


async def test_errors_stay_small(autojump_clock):
    """App-vNext/Polly#1877: three hundred refusals while open are three hundred errors of one size."""
    guard = breaker()
    await trip(guard)
    sizes = set()
    for _ in range(300):
        with pytest.raises(BreakerOpen) as caught:
            await guard.call(Script("no"))
        sizes.add(len("".join(traceback.format_exception(caught.value))))
    assert len(sizes) == 1


async def test_a_trial_that_never_returns(autojump_clock):
    """resilience4j/resilience4j#935, diegosouzapw/OmniRoute#13836 and getnora-io/nora#607: after its lease another is allowed."""
    guard = breaker()
    await trip(guard)
    await trio.sleep(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(guard.call, trio.sleep_forever)
        await trio.sleep(9.9)
        with pytest.raises(BreakerOpen):
            await guard.call(Script("no"))
        await trio.sleep(0.1)
        assert await guard.call(Script("done")) == "done"
        nursery.cancel_scope.cancel()
    assert guard.state is BreakerState.CLOSED


async def test_the_last_trial_is_ignored(autojump_clock):
    """resilience4j/resilience4j#544: when the last permitted trial raises an ignored error it is not stuck."""
    guard = breaker(half_open_max=3, successes=3, neutral=ValueError)
    await trip(guard)
    await trio.sleep(10)
    scripts = [Script("done"), Script("done"), Script(ValueError)]

    await gather(*[lambda s=script: guard.call(s) for script in scripts])
    assert guard.state is BreakerState.HALF_OPEN
    assert await guard.call(Script("done")) == "done"
    assert guard.state is BreakerState.CLOSED


async def test_ten_at_the_switch(autojump_clock):
    """resilience4j/resilience4j#1432: ten callers at the instant of the switch: as many run as may."""
    guard = breaker(half_open_max=2, successes=2)
    await trip(guard)
    await trio.sleep(10)
    script = Script("done", sleep=1)

    await gather(*[lambda: guard.call(script)] * 10)
    assert (script.calls, guard.rejected) == (2, 8)


async def test_a_failed_trial_reopens_whatever_the_rate(autojump_clock):
    """nodeshift/opossum#119: one failed trial opens it again although the failure rate has fallen below the threshold."""
    guard = breaker(failures=None, failure_rate=0.5, minimum=1, half_open_max=1, successes=9)
    await trip(guard)
    await trio.sleep(10)
    for _ in range(5):
        await guard.call(Script("done"))
    await trip(guard)
    assert guard.state is BreakerState.OPEN


@pytest.mark.parametrize("state", ["closed", "half_open"])
@pytest.mark.parametrize(
    ("step", "failure"), [("bad", True), (Down, True), (ValueError, False), (KeyError, False)]
)
async def test_one_rule_for_all_states(autojump_clock, state, step, failure):
    """smallrye/smallrye-fault-tolerance#320: half-open tells failures by the same rule as closed."""
    guard = breaker(
        on=(Down, ValueError), neutral=ValueError, fails=lambda result: result == "bad", successes=9
    )
    if state == "half_open":
        guard.open(1)
        await trio.sleep(1)
    try:
        await guard.call(Script(step))
    except (Down, ValueError, KeyError):
        pass
    assert guard.statistics().state == ("open" if failure else state)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_trial_interrupted_about_a_change(autojump_clock, when):
    """svroonland/rezilience#521 and #522: a trial interrupted before or after the state changes gives its place back once."""
    guard = breaker(half_open_max=2, successes=1)
    await trip(guard)
    await trio.sleep(10)
    scope = trio.CancelScope()

    async def interrupted():
        with scope:
            await guard.call(trio.sleep_forever)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interrupted)
        await trio.sleep(1)
        steps = [scope.cancel, guard.open]
        for step in steps if when == "before" else reversed(steps):
            step()
    await trio.sleep(10)
    assert guard.state is BreakerState.HALF_OPEN
    script = Script("done", sleep=1)
    results = await gather(*[lambda: guard.call(script)] * 3)
    assert script.calls == 2
    assert sum(isinstance(result, BreakerOpen) for result in results) == 1


async def test_late_results_make_no_places(autojump_clock):
    """failsafe-lib/failsafe#391: results of the closed period give back no trial places that they never took."""
    guard = breaker(half_open_max=1)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(guard.call, trio.sleep, 12)
        await trio.sleep(0.5)
        await trip(guard)
        await trio.sleep(10)
        assert guard.state is BreakerState.HALF_OPEN
    script = Script("done", sleep=1)
    await gather(*[lambda: guard.call(script)] * 5)
    assert script.calls == 1


async def test_attempts_count_and_the_refusal_shows(autojump_clock):
    """jvoegele/external_service#93 and failsafe-lib/failsafe#90: the breaker counts attempts, and a call refused after its own says so."""
    x = Dependency(
        "x", timeout=5, retry=policy(attempts=5), breaker=BreakerPolicy(failures=3, open_for=9)
    )
    script = Script(Down)

    with pytest.raises(BreakerOpen) as caught:
        await x.call(script)
    assert script.calls == 3
    (note,) = caught.value.__notes__
    assert note.startswith("gave up after Down('down'), Down('down'), Down('down'): ")


async def test_breaker_outside_of_retry_counts_calls(autojump_clock):
    """jvoegele/external_service#93: who wants calls counted puts the breaker outside of the retry."""
    guard, script = breaker(failures=2), Script(Down)
    for _ in range(2):
        with pytest.raises(Down):
            await guard.call(retry, script, policy=policy())
    assert script.calls == 6
    assert guard.state is BreakerState.OPEN


async def test_open_is_not_transient(autojump_clock):
    """projectbeskar/virtrigaud#70 and resilience4j/resilience4j#1065: a retry of everything does not spin on an open breaker."""
    guard = breaker()
    guard.open()
    rules = policy(on=Exception, attempts=None, backoff=Backoff(0, jitter=0))

    with pytest.raises(BreakerOpen) as caught:
        await retry(guard.call, Script("no"), policy=rules)
    assert (guard.rejected, caught.value.retry_after) == (1, 10)
