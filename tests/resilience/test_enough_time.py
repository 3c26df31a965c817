"""What is begun at all: a declared minimum of time (D7), clean-up that cannot be cut off nor go on for ever (D8), and jobs (D9)."""

from __future__ import annotations

from math import inf, nan

import pytest
import trio

from actors import Actor
from actors.errors import DeadlineExceeded, NotEnoughTime, Rejected
from actors.jobs import MemoryEngine
from actors.options import OptionError
from actors.resilience import BreakerPolicy, Dependency, cleanup, deadline, remaining, retry
from supervision import Supervisor, Worker, supervisor
from tests.jobs.tree import at_work, one, worker
from tests.resilience.kit import Down, Script, gather, policy


@pytest.mark.parametrize("shape", ["block", "call", "decorator"])
async def test_d7_work_without_enough_time_is_not_begun(autojump_clock, shape):
    """D7: with less than `at_least` left, of its own time or of an enclosing one, nothing of the work runs."""
    script = Script("done")
    limit = deadline(10, at_least=4, what="the report")

    async def begin():
        if shape == "call":
            return await limit.call(script)
        if shape == "decorator":
            return await limit(script.__call__)()
        with limit:
            return await script()

    assert await begin() == "done"
    with trio.move_on_after(4):
        assert await begin() == "done"
    with trio.move_on_after(3), pytest.raises(NotEnoughTime) as caught:
        await begin()
    assert script.calls == 2
    assert isinstance(caught.value, Rejected)
    assert isinstance(caught.value, trio.TooSlowError)
    assert (caught.value.left, caught.value.needed) == (3, 4)
    assert str(caught.value).startswith("the report needs 4 s at least and only 3 s are left")
    assert limit._entered == {}


async def test_d7_the_reserve_is_not_there_to_be_used(autojump_clock):
    """D7: what is kept back does not count as time for the work."""
    with trio.move_on_after(6), pytest.raises(NotEnoughTime):
        deadline(10, reserve=3, at_least=4).__enter__()
    with pytest.raises(NotEnoughTime):
        deadline(at=trio.current_time() + 1, at_least=4).__enter__()


async def test_d7_who_is_cancelled_already_is_cancelled(autojump_clock):
    """D7: in a cancelled scope the cancellation comes out, and no refusal in its place."""
    with trio.CancelScope() as scope, deadline(10, at_least=4):
        scope.cancel()
        with deadline(10, at_least=4):
            await trio.sleep(1)
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "options",
    [{"seconds": 5, "at_least": 6}, {"seconds": 9, "reserve": 5, "at_least": 5}, {"at_least": nan}],
    ids=str,
)
def test_d7_a_minimum_that_can_never_be_met_is_refused_where_it_is_written(options):
    """D7: more than the deadline ever gives is a mistake, and so is what is no number."""
    with pytest.raises(OptionError, match="at_least"):
        deadline(**options)


@pytest.mark.parametrize("option", ["timeout", "total"])
def test_d7_a_dependency_whose_minimum_can_never_be_met_is_refused(option):
    """D7: an attempt that needs more than its timeout, or than all of them have, would never be made."""
    with pytest.raises(OptionError, match=f"at_least .3 s. is more than {option} .2 s."):
        Dependency("x", at_least=3, **{option: 2})


async def test_d7_a_refused_attempt_leaves_no_trace(autojump_clock):
    """D7: refused for its time, a call costs no place, is nothing against the service, and no attempt."""
    x = Dependency(
        "x",
        timeout=9,
        at_least=4,
        limit=1,
        breaker=BreakerPolicy(failures=1),
        retry=policy(on=Exception),
    )
    script = Script("done")

    with trio.move_on_after(3):
        with pytest.raises(NotEnoughTime, match="a call to x needs 4 s"):
            await x.call(script)
        with pytest.raises(NotEnoughTime):
            async with x:
                await script()
    assert script.calls == 0
    stats = x.statistics()
    assert (stats.bulkhead.free, stats.breaker.state, stats.breaker.counts.calls) == (
        1,
        "closed",
        0,
    )
    assert x.guards().entered == {}
    assert await x.call(script) == "done"


async def test_d7_waiting_in_line_costs_time_too(autojump_clock):
    """D7: a call that waited so long for its place that it has too little time left is not made."""
    x = Dependency("x", timeout=9, total=9, at_least=4, limit=1, max_waiting=1)
    script = Script("done")

    async def second():
        await trio.sleep(1)
        return await x.call(script)

    first, second = await gather(lambda: x.call(Script(7)), second)
    assert first == 7
    assert isinstance(second, NotEnoughTime)
    assert (second.left, script.calls) == (3, 0)


async def test_d7_a_retry_that_would_be_refused_is_not_waited_for(autojump_clock):
    """D7: if after the wait less than the minimum would be left, the real error is raised at once."""
    x = Dependency("x", total=6, at_least=4, retry=policy(attempts=9))
    script = Script(Down)

    with pytest.raises(Down):
        await x.call(script)
    assert script.times == [0, 1]
    assert trio.current_time() == 1


async def test_d7_a_job_that_comes_too_late_is_put_back(autojump_clock):
    """D7: a job whose handler finds too little of its time left is put back, and no retry is used up."""
    x = Dependency("x", timeout=60, at_least=20)
    script = Script("done")
    engine = MemoryEngine("shop")
    attempts = []

    async def handler(job, ctx):
        attempts.append(job.attempt)
        if len(attempts) == 1:
            with deadline(10):
                await x.call(script)
        await x.call(script)

    async with at_work(worker(handler, engine, timeout=60)) as seen:
        key = await one(engine)
        await trio.sleep(30)
    assert script.calls == 1
    assert attempts == [1, 1]
    assert seen.outcomes(key) == ["refused", "completed"]


async def test_d9_a_job_brings_its_deadline(autojump_clock):
    """D9: in a job's handler the remaining time is that of the lease, which nobody renews, and only shrinks."""
    left = []
    engine = MemoryEngine("shop")

    async def handler(job, ctx):
        left.append(remaining())
        with deadline(100, reserve=5):
            left.append(remaining())
        await trio.sleep(50)
        left.append(remaining())

    async with at_work(worker(handler, engine, timeout=60, renew=False)):
        await one(engine)
        await trio.sleep(70)
    assert left[0] == pytest.approx(60, abs=0.1)
    assert left[1] == pytest.approx(left[0] - 5)
    assert left[2] == pytest.approx(left[0] - 50)


async def test_d9_a_lease_that_is_renewed_is_no_deadline(autojump_clock):
    """D9: while a lease is renewed its end is not a time by which to be done, so no retry is refused for its sake."""
    left = []
    engine = MemoryEngine("shop")

    async def handler(job, ctx):
        left.append(remaining())
        await trio.sleep(90)
        left.append(remaining())

    async with at_work(worker(handler, engine, timeout=60)):
        await one(engine)
        await trio.sleep(100)
    assert left == [inf, inf]


async def test_d8_clean_up_goes_on_after_the_deadline(autojump_clock):
    """D8: what is in the block is not cut off by the deadline or cancellation that has struck already."""
    steps = []

    with pytest.raises(DeadlineExceeded), deadline(5):
        try:
            await trio.sleep_forever()
        finally:
            with cleanup(3) as scope:
                assert remaining() == 3
                await trio.sleep(2)
                steps.append(trio.current_time())
    assert steps == [7]
    assert not scope.cancelled_caught


async def test_d8_clean_up_that_hangs_ends(autojump_clock):
    """D8: when its own time is up the block ends quietly, says so, and the cancellation goes on its way."""
    with trio.move_on_after(5) as outer:
        try:
            await trio.sleep_forever()
        finally:
            with cleanup(3) as scope:
                await trio.sleep_forever()
    assert trio.current_time() == 8
    assert scope.cancelled_caught
    assert outer.cancelled_caught


async def test_d8_its_time_counts_from_its_entry(autojump_clock):
    """D8: made early, it still has all of its seconds."""
    block = cleanup(3)
    await trio.sleep(10)
    with block:
        assert remaining() == 3


@pytest.mark.parametrize("seconds", [0, -1, inf, nan, None, "5"])
def test_d8_a_shield_without_an_end_is_refused(seconds):
    """D8: clean-up has a finite time."""
    with pytest.raises(OptionError, match="cleanup: seconds must be a finite number above 0"):
        cleanup(seconds)


async def test_d8_a_stop_waits_for_clean_up_and_no_longer(autojump_clock):
    """D8: a run that is cancelled at its stop deadline still has the seconds of its clean-up."""
    closed = []

    class Connected(Actor):
        async def handle(self, message):
            try:
                await trio.sleep_forever()
            finally:
                with cleanup(2):
                    await trio.sleep(1)
                    closed.append(trio.current_time())

    tree = Supervisor("t", [Worker("w", Connected, shutdown=4)])
    async with supervisor.running(tree, log=False, signals=False) as pool:
        await pool.ref("w").tell("work")
        await trio.sleep(1)
    assert closed == [6]


async def test_d10_a_retry_that_is_cancelled_while_it_cleans_up_is_no_retry(autojump_clock):
    """D10: an attempt that cleans up past its caller's deadline is the last."""
    calls = []

    async def work():
        calls.append(trio.current_time())
        try:
            await trio.sleep_forever()
        finally:
            with cleanup(3):
                await trio.sleep(2)

    with trio.move_on_after(1) as scope:
        await retry(work, policy=policy(on=Exception))
    assert (calls, scope.cancelled_caught, trio.current_time()) == ([0], True, 3)
