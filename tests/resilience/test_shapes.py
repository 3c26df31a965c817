"""Every guard in its shapes: decorator, block and call; wrong options refused where they are written; what they show."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from random import Random

import pytest
import trio

from actors.errors import BreakerOpen, BulkheadFull, DeadlineExceeded
from actors.options import OptionError
from actors.resilience import (
    Backoff,
    BreakerPolicy,
    BudgetPolicy,
    Bulkhead,
    CircuitBreaker,
    Dependency,
    RetryBudget,
    RetryPolicy,
    deadline,
    degrade,
)
from tests.resilience.kit import Down, Script, gather, policy

GUARDS = {
    "breaker": lambda: CircuitBreaker("x", BreakerPolicy(failures=1)),
    "bulkhead": lambda: Bulkhead("x", 1),
    "dependency": lambda: Dependency(
        "x", timeout=5, limit=1, breaker=BreakerPolicy(failures=1), retry=policy(attempts=1)
    ),
}


async def as_call(guard, fn, /, *args, **kwargs):
    return await guard.call(fn, *args, **kwargs)


async def as_decorator(guard, fn, /, *args, **kwargs):
    return await guard(fn)(*args, **kwargs)


async def as_block(guard, fn, /, *args, **kwargs):
    async with guard as entered:
        assert entered is guard
        return await fn(*args, **kwargs)


SHAPES = pytest.mark.parametrize("shape", [as_call, as_decorator, as_block])


@pytest.mark.parametrize("guard", GUARDS)
@SHAPES
async def test_each_shape_returns_what_the_call_returns(autojump_clock, guard, shape):
    """In each shape arguments go in, the result comes out, and the guard is free again."""
    script = Script("done")
    guard = GUARDS[guard]()

    for _ in range(3):
        assert await shape(guard, script, 1, fn=2, guard=3, name=4) == "done"
    assert script.seen == [((1,), {"fn": 2, "guard": 3, "name": 4})] * 3


@SHAPES
async def test_each_shape_of_a_breaker_counts(autojump_clock, shape):
    """In each shape a failure counts, a refusal runs nothing, a success closes, and a cancellation is neutral."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1, open_for=10, fails=len))
    script = Script(Down, 5)

    with pytest.raises(Down):
        await shape(breaker, script)
    with pytest.raises(BreakerOpen):
        await shape(breaker, script)
    await trio.sleep(10)
    with trio.move_on_after(1):
        await shape(breaker, script)
    assert script.calls == 2
    assert breaker.counts.neutral == 1
    await shape(breaker, Script(""))  # `fails` is asked about results; a block has none
    assert breaker.statistics().state == "closed"


@SHAPES
async def test_each_shape_of_a_bulkhead_keeps_its_place(autojump_clock, shape):
    """In each shape a place is held while the call runs, and given back however it ends."""
    bulkhead = Bulkhead("x", 1)

    async def inside():
        assert bulkhead.statistics().running == 1
        with pytest.raises(BulkheadFull):
            await shape(bulkhead, Script("never"))
        raise Down

    with pytest.raises(Down):
        await shape(bulkhead, inside)
    with trio.move_on_after(1):
        await shape(bulkhead, Script(5))
    assert bulkhead.statistics().free == 1


@SHAPES
async def test_each_shape_of_a_dependency_has_its_timeout(autojump_clock, shape):
    """In each shape an attempt is cut after `timeout`, which is a failure and frees all places."""
    x = Dependency("x", timeout=5, limit=1, breaker=BreakerPolicy(failures=1))

    with pytest.raises(DeadlineExceeded, match=r"calls? (to call )?x took longer than its 5 s"):
        await shape(x, Script(9))
    assert trio.current_time() == 5
    stats = x.statistics()
    assert (stats.breaker.state, stats.bulkhead.free) == ("open", 1)
    assert not x.available


async def test_a_block_of_retries(autojump_clock):
    """`async for attempt in policy.attempts_of(name): with attempt:` is the same loop as `retry`."""
    script, numbers = Script(Down, Down, "done"), []

    async for attempt in policy().attempts_of("x"):
        with attempt:
            numbers.append(attempt.number)
            result = await script()
    assert result == "done"
    assert numbers == [1, 2, 3]
    assert script.times == [0, 1, 3]


async def test_a_block_of_retries_ends_with_the_real_error(autojump_clock):
    """The last error of the block form is raised, with its note; what is no Exception passes at once."""
    script = Script(Down)
    with pytest.raises(Down) as caught:
        async for attempt in policy().attempts_of():
            with attempt:
                await script()
    assert script.calls == 3
    assert "3 of 3 attempts made" in caught.value.__notes__[0]

    with trio.move_on_after(1) as scope:
        async for attempt in policy().attempts_of():
            with attempt:
                await trio.sleep(5)
    assert scope.cancelled_caught


async def test_a_block_of_retries_can_be_left(autojump_clock):
    """Leaving the loop early, or a body that forgets `with attempt`, leaves nothing behind and loops no more."""
    async for attempt in policy().attempts_of():
        with attempt:
            break
    passes = 0
    async for _ in policy().attempts_of():
        passes += 1
    assert passes == 1


async def test_blocks_nest_in_one_task(autojump_clock):
    """One guard can be entered in itself, and each exit settles its own entry."""
    bulkhead = Bulkhead("x", 2)
    async with bulkhead:
        async with bulkhead:
            assert bulkhead.statistics().running == 2
        assert bulkhead.statistics().running == 1
    assert bulkhead.statistics().running == 0


@pytest.mark.parametrize("kind", ["bulkhead", "several places", "breaker"])
async def test_a_block_that_another_task_leaves_gives_its_place_back(autojump_clock, kind):
    """A block in a generator that nobody closes is left by another task at last, and its place is free again then."""
    bulkhead, breaker = Bulkhead("x", 3), CircuitBreaker("x", BreakerPolicy(half_open_max=3))
    breaker.open(0)
    guard = {"bulkhead": bulkhead, "several places": bulkhead.take(1), "breaker": breaker}[kind]

    async def rows():
        async with guard:
            yield 1

    left_open = [rows(), rows()]
    for one in left_open:
        await anext(one)
    async with guard, trio.open_nursery() as nursery:
        for one in left_open:
            nursery.start_soon(one.aclose)
    assert bulkhead.statistics().free == 3
    assert breaker.statistics().trials == 0
    assert guard._entered == {}


async def test_a_block_inside_a_group_settles_all(autojump_clock):
    """A block that ends by its own timeout while a task fails gives its place back and shows the failure."""
    x = Dependency("x", timeout=1, limit=1, breaker=BreakerPolicy(failures=1))

    async def fail_at_the_end():
        try:
            await trio.sleep_forever()
        finally:
            raise Down

    with pytest.raises(ExceptionGroup):
        async with x, trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            nursery.start_soon(trio.sleep_forever)
    assert x.statistics().bulkhead.free == 1
    assert x.statistics().breaker.state == "open"


async def test_a_block_of_retries_may_be_kept(autojump_clock):
    """The object of the block form can be kept and looped over again, also by two tasks at once, each with its own attempts."""
    kept = policy().attempts_of("x")

    async def one():
        script = Script(Down, Down, "done")
        async for attempt in kept:
            with attempt:
                return await script(), attempt.number
        return "the body was never run"

    assert await one() == ("done", 3)
    assert await gather(one, one) == [("done", 3)] * 2


DECORATORS = [
    CircuitBreaker("x"),
    Bulkhead("x", 1),
    Bulkhead("x", 2).take(2),
    Dependency("x", timeout=5),
    deadline(5),
    degrade("x"),
    policy(),
]


@pytest.mark.parametrize("decorate", DECORATORS, ids=repr)
async def test_what_cannot_be_awaited_is_not_decorated(autojump_clock, decorate):
    """A decorator refuses an async generator, and what is no function, where it is written; methods of all kinds are fine."""

    async def rows():
        yield 1

    with pytest.raises(OptionError, match=r"rows.* is an async generator"):
        decorate(rows)
    with pytest.raises(OptionError, match=r"classmethod.* is no function; below @classmethod"):
        decorate(classmethod(asks))

    class Client:
        @decorate
        async def one(self, n):
            return n

        @classmethod
        @decorate
        async def other(cls, n):
            return cls, n

        @staticmethod
        @decorate
        async def third(n):
            return n

    assert (await Client().one(1), await Client.other(2)) == (1, (Client, 2))
    assert await Client.third(3) == 3
    assert await decorate(partial(asks, 4))() is False


async def asks(_=None):
    """A rule that would have to be awaited."""
    return False


WRONG = [
    (lambda: Backoff(initial=-1), "initial"),
    (lambda: Backoff(factor=0.5), "factor"),
    (lambda: RetryPolicy(on=5), "on"),
    (lambda: RetryPolicy(on="Down"), "on"),
    (lambda: RetryPolicy(on=BaseException), "on"),
    (lambda: RetryPolicy(on=(Down, trio.Cancelled)), "on"),
    (lambda: RetryPolicy(on=Down, never=[KeyboardInterrupt]), "never"),
    (lambda: RetryPolicy(on=Down, attempts=0), "attempts"),
    (lambda: RetryPolicy(on=Down, attempts=2.0), "attempts"),
    (lambda: RetryPolicy(on=Down, attempts=True), "attempts"),
    (lambda: RetryPolicy(on=Down, total=0), "total"),
    (lambda: RetryPolicy(on=Down, hints="no"), "hints"),
    (lambda: RetryPolicy(on=Down, hint_max=inf), "hint_max"),
    (lambda: RetryPolicy(on=Down, atempts=3), "attempts"),
    (lambda: BreakerPolicy(failures=0), "failures"),
    (lambda: BreakerPolicy(failures=None), "nothing would ever open it"),
    (lambda: BreakerPolicy(failure_rate=0), "failure_rate"),
    (lambda: BreakerPolicy(failure_rate=1.5), "failure_rate"),
    (lambda: BreakerPolicy(slow_rate=0.5), "slow_after"),
    (lambda: BreakerPolicy(slow_after=1), "slow_rate"),
    (lambda: BreakerPolicy(window=0), "window"),
    (lambda: BreakerPolicy(failure_rate=0.5, window_calls=5), "minimum"),
    (lambda: BreakerPolicy(open_for=nan), "open_for"),
    (lambda: BreakerPolicy(open_for=400), "open_max"),
    (lambda: BreakerPolicy(jitter=1), "jitter"),
    (lambda: BreakerPolicy(half_open_max=0), "half_open_max"),
    (lambda: BreakerPolicy(lease=0), "lease"),
    (lambda: BreakerPolicy(on="abc"), "on"),
    (lambda: BreakerPolicy(neutral=trio.Cancelled), "neutral"),
    (lambda: BreakerPolicy(ready_to_trip=True), "ready_to_trip"),
    (lambda: BreakerPolicy(fails=500), "fails"),
    (lambda: RetryPolicy(on=asks), "on has to answer at once"),
    (lambda: RetryPolicy(on=Down, never=partial(asks, 1)), "never has to answer at once"),
    (lambda: BreakerPolicy(on=asks), "on has to answer at once"),
    (lambda: BreakerPolicy(neutral=Script(True)), "neutral has to answer at once"),
    (lambda: BreakerPolicy(ready_to_trip=asks), "ready_to_trip has to answer at once"),
    (lambda: BreakerPolicy(fails=asks), "fails has to answer at once"),
    (lambda: degrade("x", on=asks), "on has to answer at once"),
    (lambda: degrade("x", fails=asks), "fails has to answer at once"),
    (lambda: degrade("x", fails=500), "fails is a function or None"),
    (lambda: degrade("x", default=asks), "default has to answer at once"),
    (lambda: CircuitBreaker("x", 5), "policy"),
    (lambda: CircuitBreaker(""), "name"),
    (lambda: CircuitBreaker("x", on_state_change=5), "on_state_change is a function or None"),
    (lambda: CircuitBreaker("x", random=5), "random"),
    (lambda: Bulkhead("x", -1), "limit"),
    (lambda: Bulkhead("x", 1.5), "limit"),
    (lambda: Bulkhead("x", 1, max_waiting=-1), "max_waiting"),
    (lambda: Bulkhead("x", 1, max_wait=nan), "max_wait"),
    (lambda: Bulkhead("x", 1).resize(-1), "limit"),
    (lambda: BudgetPolicy(ratio=-0.1), "ratio"),
    (lambda: BudgetPolicy(floor=1.5), "floor"),
    (lambda: BudgetPolicy(window=0), "window"),
    (lambda: Dependency(""), "name"),
    (lambda: Dependency("x", timeout=0), "timeout"),
    (lambda: Dependency("x", total=-1), "total"),
    (lambda: Dependency("x", limit=True), "limit"),
    (lambda: Dependency("x", max_waiting=5), "limit"),
    (lambda: Dependency("x", max_wait=5), "limit"),
    (lambda: Dependency("x", retry=3), "retry"),
    (lambda: Dependency("x", breaker=5), "breaker"),
    (lambda: Dependency("x", idempotent=1), "idempotent"),
    (lambda: Dependency("x", random=4), "random"),
    (lambda: Dependency("x", timout=5), "timeout"),
    (lambda: deadline(-1), "seconds"),
    (lambda: deadline("5"), "seconds"),
    (lambda: deadline(5, reserve=nan), "reserve"),
    (lambda: deadline(reserve=inf), "reserve must be finite"),
    (lambda: deadline(at=nan), "at"),
    (lambda: degrade(""), "feature"),
    (lambda: degrade("x", stale_for=0), "stale_for"),
    (lambda: degrade("x", on=trio.Cancelled), "on"),
    (lambda: degrade("x", on=[5]), "on"),
]


@pytest.mark.parametrize(("make", "names"), WRONG)
def test_wrong_options_are_refused_where_they_are_written(make, names):
    """A wrong option raises a ValueError at once that names it."""
    with pytest.raises(ValueError, match=names):
        make()


def test_refusals_say_what_was_being_declared():
    """The error says which thing it is about."""
    with pytest.raises(OptionError, match=r"^BreakerPolicy: window "):
        BreakerPolicy(window=0)
    with pytest.raises(OptionError, match=r"^dependency 'x': timeout "):
        Dependency("x", timeout=-1)
    with pytest.raises(OptionError, match=r"^degrade 'x': stale_for "):
        degrade("x", stale_for=-1)


async def test_each_shows_itself(autojump_clock):
    """Each repr says what it is and how it stands."""
    breaker = CircuitBreaker("x", BreakerPolicy(failures=1))
    breaker.isolate()
    budget = RetryBudget(BudgetPolicy())
    budget.attempted(0)

    assert repr(breaker) == "<CircuitBreaker x open isolated, 0 rejected>"
    assert repr(Bulkhead("x", 2)) == "<Bulkhead x 0/2 running, 0 waiting>"
    assert repr(budget) == "<RetryBudget 0 retries of 1 first attempts>"
    assert repr(deadline(5, reserve=1)) == "<deadline 5 s, reserve=1>"
    assert repr(deadline()) == "<deadline of what encloses it>"
    assert repr(degrade("x")) == "<degrade x>"


async def test_each_has_statistics(autojump_clock):
    """Statistics of a dependency hold those of its guards, and None for what it does not have."""
    full = Dependency(
        "x", timeout=5, limit=2, max_waiting=3, breaker=BreakerPolicy(), random=Random()
    )
    await full.call(Script("done"))
    stats = full.statistics()

    assert stats.name == stats.breaker.name == stats.bulkhead.name == "x"
    assert stats.breaker.counts.successes == stats.bulkhead.admitted == 1
    assert stats.budget.retries == 0
    bare = Dependency("y", budget=None).statistics()
    assert bare.breaker is bare.bulkhead is bare.budget is None
