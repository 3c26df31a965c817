"""Retries, promise by promise. The numbers R1 to R14 are those of the promises listed here.

R1 never more attempts than allowed, and no wait after the last; R2 to R4 (waits) are in test_backoff; R5 a success ends it and
is returned unchanged; R6 only named Exceptions are retried; R7 what is raised is the last real error, with what was tried; R8 a
wait that does not fit is not begun; R9 time decides in virtual time as in real time; R10 hints (also in test_verdict); R11 the
budget (test_budget); R12 a refusal is final; R13 calls through one policy know nothing of each other; R14 (a long run makes the
next failure number 1) is a promise of restarts and tested with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
import trio
from hypothesis import given, strategies as st

from actors.errors import BreakerOpen
from actors.resilience import Backoff, RetryPolicy, retry
from tests.resilience.kit import Down, Script, gather, policy


@pytest.mark.parametrize("attempts", [1, 2, 3, 7])
async def test_r1_attempts_are_calls(autojump_clock, attempts):
    """R1: `attempts` counts calls, the first included, and after the last there is no wait."""
    script = Script(Down)

    with pytest.raises(Down):
        await retry(script, policy=policy(attempts=attempts))
    assert script.calls == attempts
    assert trio.current_time() == script.times[-1] == 2 ** (attempts - 1) - 1


@pytest.mark.parametrize("value", [None, False, 0, "", Down("as a value"), Down])
async def test_r5_any_value_is_a_success(autojump_clock, value):
    """R5: whatever is returned is returned unchanged, at once, also if it looks like a failure."""

    async def give():
        return value

    assert await retry(give, policy=policy()) is value
    assert trio.current_time() == 0


async def test_r5_arguments_are_passed_on(autojump_clock):
    """R5: each attempt gets the same arguments."""
    script = Script(Down, "done")

    assert await retry(script, 1, 2, policy=policy(), key=3) == "done"
    assert script.seen == [((1, 2), {"key": 3})] * 2


class Abrupt(BaseException):
    """No Exception."""


@pytest.mark.parametrize("error", [ValueError, Abrupt, KeyboardInterrupt, GeneratorExit])
async def test_r6_only_named_errors_are_retried(autojump_clock, error):
    """R6: an error that is not named is final, and what is no Exception is never looked at."""
    script = Script(error)

    with pytest.raises(error):
        await retry(script, policy=policy())
    assert script.calls == 1


async def test_r6_a_rule_that_says_yes_to_all_is_asked_about_exceptions_only(autojump_clock):
    """R6: `on=lambda error: True` does not make a cancellation retried."""
    script = Script(Abrupt)

    with pytest.raises(Abrupt):
        await retry(script, policy=policy(on=lambda error: True))
    assert script.calls == 1


async def test_r6_a_group_that_holds_a_cancellation_is_no_error(autojump_clock):
    """R6: when a nursery inside the call is cancelled and a task fails, nothing is retried and the scope ends as cancelled."""
    calls = []

    async def work():
        calls.append(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            await trio.sleep_forever()

    async def fail_when_cancelled():
        try:
            await trio.sleep_forever()
        finally:
            raise Down

    with pytest.raises(ExceptionGroup) as caught, trio.move_on_after(1):
        await retry(work, policy=policy())
    assert caught.group_contains(Down)
    assert calls == [1]


async def test_r7_the_last_error_tells_the_story(autojump_clock):
    """R7: what is raised is the last error itself, with a note of the earlier ones and why it ended."""
    errors = [Down("one"), Down("two"), Down("three")]

    with pytest.raises(Down) as caught:
        await retry(Script(*errors), policy=policy())
    assert caught.value is errors[2]
    assert caught.value.__notes__ == [
        "gave up after Down('one'), Down('two'): 3 of 3 attempts made",
    ]


async def test_r7_a_first_failure_that_is_final_needs_no_note(autojump_clock):
    """R7: an error that was never retried is left as it is."""
    with pytest.raises(ValueError) as caught:
        await retry(Script(ValueError("no")), policy=policy())
    assert not hasattr(caught.value, "__notes__")


async def test_r7_notes_do_not_pile_up(autojump_clock):
    """R7: an error object that is raised again and again keeps one note of ours, and those of others."""
    error = Down("the same object")
    error.add_note("mine")

    for _ in range(20):
        with pytest.raises(Down):
            await retry(Script(error), policy=policy())
    assert len(error.__notes__) == 2
    assert error.__notes__[0] == "mine"


async def test_r7_a_note_is_of_this_call(autojump_clock):
    """R7: an error object that an earlier call has noted does not tell that call's story when it is raised anew."""
    error = Down("the same object")
    with pytest.raises(Down):
        await retry(Script(error), policy=policy())
    assert len(error.__notes__) == 1

    with pytest.raises(Down):
        await retry(Script(error), policy=policy(attempts=1))
    assert error.__notes__ == []


async def test_r7_an_endless_loop_keeps_few_errors(autojump_clock):
    """R7: of a thousand earlier errors the note names the first and the last few."""
    script = Script(*[Down(str(n)) for n in range(1000)], ValueError("end"))

    with pytest.raises(ValueError) as caught:
        await retry(script, policy=policy(attempts=None, backoff=Backoff(0.1, 1, 0.1, jitter=0)))
    (note,) = caught.value.__notes__
    assert note.count("Down(") == 5
    assert "Down('0'), Down('996')" in note


class Mute(Down):
    """An error whose `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


async def test_r7_an_error_that_cannot_be_shown_hides_nothing(autojump_clock):
    """R7: an error whose `repr` raises is retried and noted like any other."""
    with pytest.raises(Down, match="down"):
        await retry(Script(Mute(), Down()), policy=policy(attempts=2))


@dataclass(frozen=True)
class Frozen(Down):
    """An error to which nothing can be added."""

    text: str


class Closed(Down):
    """An error whose notes are not ours to change."""

    __notes__ = ("a class's",)


@pytest.mark.parametrize("kind", [Frozen, Closed])
async def test_r7_an_error_that_takes_no_notes_is_raised_without(autojump_clock, kind):
    """R7: what is raised is the last error itself, also if no note can be added to it."""
    errors = [kind("one"), kind("two"), kind("three")]

    with pytest.raises(kind) as caught:
        await retry(Script(*errors), policy=policy())
    assert caught.value is errors[2]


async def test_r8_a_wait_that_does_not_fit_is_not_begun(autojump_clock):
    """R8: the caller's deadline is looked at before the wait, and the real error is raised at once."""
    script = Script(Down)

    with trio.fail_after(2.5), pytest.raises(Down) as caught:
        await retry(script, policy=policy(attempts=9))
    assert script.times == [0, 1]
    assert trio.current_time() == 1
    assert "only 1.5 s are left" in caught.value.__notes__[0]


async def test_r8_a_failure_after_the_deadline_is_final(autojump_clock):
    """R8: an attempt that fails in its clean-up, past the deadline, is not followed by another."""
    calls = []

    async def work():
        calls.append(1)
        try:
            await trio.sleep(10)
        finally:
            raise Down

    with pytest.raises(Down), trio.move_on_after(1):
        await retry(work, policy=policy())
    assert calls == [1]


@given(
    waits=st.lists(st.integers(1, 8), min_size=1, max_size=6),
    length=st.integers(0, 4),
    limit=st.integers(1, 30),
)
async def test_r9_attempts_that_obey_never_outlast_the_deadline(
    autojump_clock, waits, length, limit
):
    """R9: when each attempt needs `length`, no attempt begins that the deadline would forbid, whatever the waits."""
    began = trio.current_time()
    script = Script(Down, sleep=length)
    factor = 1 + waits[0] / 8

    with trio.move_on_after(limit) as scope, pytest.raises(Down):
        await retry(
            script,
            policy=policy(
                attempts=len(waits) + 1, backoff=Backoff(waits[-1], factor, 50, jitter=0)
            ),
        )
    assert all(time - began < limit for time in script.times)
    assert trio.current_time() - began <= limit
    assert scope.cancelled_caught == (trio.current_time() - began == limit and length > 0)


async def test_r10_a_hint_is_waited_for_exactly(autojump_clock):
    """R10: a hint is waited for, never jittered below, and the schedule goes on after it."""
    script = Script(Down(retry_after=5), Down(), "done")
    rules = policy(backoff=Backoff(1, 2, 100, jitter=0.5))

    assert await retry(script, policy=rules, random=Random(1)) == "done"
    assert script.times[1] == 5
    assert 1 <= script.times[2] - 5 <= 3


async def test_r10_hints_may_be_ignored(autojump_clock):
    """R10: with `hints=False` only the schedule counts."""
    script = Script(Down(retry_after=5), "done")

    await retry(script, policy=policy(hints=False))
    assert script.times == [0, 1]


async def test_r12_a_refusal_is_final_and_bare(autojump_clock):
    """R12: a breaker's refusal ends the call at once, and gets no note, since it says all of it itself."""
    refusal = BreakerOpen("x", retry_after=0.1, trying=False, why="it failed")
    script = Script(refusal)

    with pytest.raises(BreakerOpen) as caught:
        await retry(script, policy=policy(on=Exception))
    assert script.calls == 1
    assert not hasattr(caught.value, "__notes__")


async def test_r13_two_calls_share_a_policy_and_nothing_else(autojump_clock):
    """R13: calls through one policy at once each have their own attempts, waits and results."""
    rules = policy()
    scripts = [Script(*[Down] * n, n) for n in range(4)]

    results = await gather(*[lambda s=script: retry(s, policy=rules) for script in scripts])
    assert results[:3] == [0, 1, 2]
    assert isinstance(results[3], Down)
    assert [script.calls for script in scripts] == [1, 2, 3, 3]


async def test_r13_a_tuple_of_results_is_not_mixed_up(autojump_clock):
    """R13: the decorated function can be called by many tasks at once."""

    @RetryPolicy(on=Down, backoff=Backoff(1, 2, 10, jitter=0))
    async def double(n):
        await trio.sleep(n % 3)
        if trio.current_time() < 2:
            raise Down
        return 2 * n

    assert await gather(*[lambda n=n: double(n) for n in range(20)]) == [2 * n for n in range(20)]


async def test_a_cancelled_wait_is_a_cancellation(autojump_clock):
    """A cancellation during the wait ends it at once, and no other attempt is made."""
    script = Script(Down)
    scope = trio.CancelScope()

    async def cancel():
        await trio.sleep(0.5)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel)
        with scope:
            await retry(script, policy=policy())
    assert scope.cancelled_caught
    assert trio.current_time() == 0.5
    assert script.calls == 1


async def test_no_wait_is_still_a_checkpoint(autojump_clock):
    """An endless retry without any wait can be cancelled and lets others run."""
    script = Script(Down)
    turns = []

    async def other():
        for _ in range(5):
            await trio.lowlevel.checkpoint()
            turns.append(script.calls)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        with trio.CancelScope() as scope:
            await retry(script, policy=policy(attempts=None, backoff=Backoff(0, jitter=0)))
    assert len(set(turns)) > 2


async def test_a_predicate_that_fails_shows_both_errors(autojump_clock):
    """A rule that raises ends the call with its own error, and the call's error is its context."""
    script = Script(Down)

    with pytest.raises(ZeroDivisionError) as caught:
        await retry(script, policy=policy(on=lambda error: 1 / 0))
    assert isinstance(caught.value.__context__, Down)
    assert script.calls == 1
