"""A bulkhead whose limit finds itself: what is told to the law, and what becomes of places while it changes."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
import trio

from actors.errors import BulkheadFull, DeadlineExceeded, NotEnoughTime
from actors.office import Office
from actors.options import OptionError
from actors.resilience import (
    BreakerPolicy,
    Bulkhead,
    Bulkheads,
    Dependency,
    LimitChanged,
    VegasLimit,
)
from actors.resilience.vegas import Vegas
from tests.resilience.kit import Down, gather
from tests.resilience.overload import overload


@pytest.fixture
def told(monkeypatch) -> list[tuple[float, int, bool]]:
    """What laws are told: seconds, calls in flight, whether it was too much."""
    heard = []
    real = Vegas.told

    def told(self, round, rtt, running, *, dropped=False):  # noqa: A002
        heard.append((rtt, running, dropped))
        return real(self, round, rtt, running, dropped=dropped)

    monkeypatch.setattr(Vegas, "told", told)
    return heard


async def work(seconds, result=None):
    await trio.sleep(seconds)
    if isinstance(result, BaseException):
        raise result
    return result


async def as_call(guard, fn):
    return await guard.call(fn)


async def as_decorator(guard, fn):
    return await guard(fn)()


async def as_block(guard, fn):
    async with guard:
        return await fn()


SHAPES = pytest.mark.parametrize("shape", [as_call, as_decorator, as_block])
GUARDS = pytest.mark.parametrize(
    "make",
    [
        lambda law: Bulkhead("x", law),
        lambda law: Bulkhead("x", law).take(2),
        lambda law: Bulkheads("x", law).of("a"),
        lambda law: Dependency("x", timeout=60, limit=law, breaker=BreakerPolicy()),
    ],
    ids=["bulkhead", "places", "key", "dependency"],
)


@SHAPES
@GUARDS
async def test_only_what_says_something_is_told(autojump_clock, told, shape, make):
    """H11: a result and a timeout are told with their time; another error, a cancellation and a refusal are not."""
    guard = make(VegasLimit())
    places = getattr(guard, "places", 1)

    await shape(guard, partial(work, 2, "done"))
    with pytest.raises(trio.TooSlowError):
        await shape(guard, partial(work, 3, trio.TooSlowError()))
    with pytest.raises(ExceptionGroup):
        await shape(guard, partial(work, 4, ExceptionGroup("both", [DeadlineExceeded(1), Down()])))
    assert told == [(2, places, False), (3, places, True), (4, places, True)]
    del told[:]

    for nothing in (Down(), NotEnoughTime("x", left=1, needed=2), KeyboardInterrupt()):
        with pytest.raises(type(nothing)):
            await shape(guard, partial(work, 1, nothing))
    with trio.move_on_after(1):
        await shape(guard, trio.sleep_forever)
    assert told == []


@pytest.mark.parametrize("shape", [as_call, as_block])
async def test_a_dependency_tells_only_the_time_of_the_call(autojump_clock, told, shape):
    """H11: what is told is how long the attempt took: not how long it waited in line, and a timeout of its own is one."""
    law = VegasLimit(initial=1, maximum=1)
    x = Dependency("x", timeout=5, total=60, limit=law, max_waiting=9)
    ends = await gather(
        *[lambda: shape(x, partial(work, 3))] * 3, lambda: shape(x, trio.sleep_forever)
    )
    assert [type(end) for end in ends] == [type(None)] * 3 + [DeadlineExceeded]
    assert sorted(told) == [(3, 1, False)] * 3 + [(5, 1, True)]
    assert x.guards().bulkhead.statistics().free == 1


async def test_an_attempt_that_was_not_begun_is_not_told(autojump_clock, told):
    """H11: with too little time left for an attempt it is no sign of an overload, although `NotEnoughTime` is a `TooSlowError`."""
    x = Dependency("x", timeout=9, at_least=5, limit=VegasLimit())
    for shape in (as_call, as_block):
        with trio.move_on_after(2), pytest.raises(NotEnoughTime):
            await shape(x, trio.sleep_forever)
    assert told == []
    assert x.guards().bulkhead.statistics().running == 0


async def test_results_can_say_that_it_was_too_much(autojump_clock, told):
    """A result that `fails` names is as good as a timeout."""
    busy = Bulkhead("x", VegasLimit(fails=lambda status: status == 429))
    assert await busy.call(work, 1, 429) == 429
    assert await busy.call(work, 1, 200) == 200
    assert told == [(1, 1, True), (1, 1, False)]


async def test_a_result_that_is_a_failure_says_nothing(autojump_clock, told):
    """What a breaker takes for a failure is no sign of a fast service, unless it says that it was too much."""
    policy = BreakerPolicy(failures=9, fails=lambda status: status >= 500)
    law = VegasLimit(fails=lambda status: status == 503)
    x = Dependency("x", timeout=9, limit=law, breaker=policy)
    for status in (200, 500, 503):
        assert await x.call(work, 1, status) == status
    assert told == [(1, 1, False), (1, 1, True)]
    assert x.statistics().breaker.counts.failures == 2


async def test_a_dependencys_rules_that_raise_lose_no_place(autojump_clock):
    """If a rule over results raises, place and trial are given back, and the caller hears of it."""
    policy = BreakerPolicy(failures=1, open_for=1, fails=len)
    x = Dependency("x", timeout=9, limit=VegasLimit(), breaker=policy)
    x.guards().breaker.open()
    await trio.sleep(1)
    with pytest.raises(TypeError):
        await x.call(work, 1, 3)
    assert x.statistics().bulkhead.running == 0
    assert x.statistics().breaker.trials == 0


@SHAPES
@pytest.mark.parametrize("several", [False, True])
async def test_rules_of_ones_own_that_raise_lose_no_place(autojump_clock, shape, several):
    """If `on` or `fails` raises, the caller hears of it and the place is free."""

    def broken(_: object) -> bool:
        raise ZeroDivisionError

    bulkhead = Bulkhead("x", VegasLimit(on=broken, fails=broken))
    guard = bulkhead.take(3) if several else bulkhead
    with pytest.raises(ZeroDivisionError):
        await shape(guard, partial(work, 1, Down()))
    if shape is not as_block:  # which has no result
        with pytest.raises(ZeroDivisionError):
            await shape(guard, partial(work, 1))
    assert bulkhead.statistics().running == 0
    assert bulkhead._holders == {}


async def test_calls_that_take_no_time_are_harmless(autojump_clock):
    """H11: calls of 0 seconds, as a coarse clock shows them, change nothing, however many."""
    bulkhead = Bulkhead("x", VegasLimit(initial=1))
    for _ in range(100):
        await bulkhead.call(work, 0)
    assert bulkhead.limit == 1
    assert bulkhead.statistics().alone is None
    for _ in range(12):
        await bulkhead.call(work, 0.5)
    assert bulkhead.statistics().alone == 0.5
    assert bulkhead.limit == 2


async def test_what_was_given_last_holds(autojump_clock):
    """A number fixes the limit until the next resize; a `VegasLimit` makes it find itself, from the beginning."""
    bulkhead = Bulkhead("x", VegasLimit(initial=7, samples=1))
    assert (bulkhead.limit, bulkhead.adaptive) == (7, VegasLimit(initial=7, samples=1))
    assert repr(bulkhead) == "<Bulkhead x 0/7 running, 0 waiting, limit up to 1000>"
    assert bulkhead.statistics().adaptive

    async def late(seconds: float = 1.0) -> None:
        with pytest.raises(trio.TooSlowError):
            await bulkhead.call(work, seconds, trio.TooSlowError())

    await late()
    assert bulkhead.limit == 3
    bulkhead.resize(5)
    await late()
    assert (bulkhead.limit, bulkhead.adaptive) == (5, None)
    assert not bulkhead.statistics().adaptive
    assert repr(bulkhead) == "<Bulkhead x 0/5 running, 0 waiting>"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(late, 3)  # admitted while it was fixed
        await trio.sleep(1)
        bulkhead.resize(VegasLimit(initial=9, samples=1))
        nursery.start_soon(late, 3)  # admitted by a law that is replaced
        await trio.sleep(1)
        bulkhead.resize(VegasLimit(initial=8, samples=1))
    assert bulkhead.limit == 8
    await late()
    assert bulkhead.limit == 4
    assert bulkhead.statistics().running == 0
    bulkhead.resize(0)
    with pytest.raises(BulkheadFull):
        await late()


async def test_a_limit_that_grows_admits_those_who_wait(autojump_clock):
    """A round that ends well lets in as many more as it says, in order, in the same instant."""
    bulkhead, began = Bulkhead("x", VegasLimit(initial=1, samples=1), max_waiting=9), []

    async def call(number: int) -> None:
        began.append((number, trio.current_time()))
        await trio.sleep(1)

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(7):
            nursery.start_soon(bulkhead.call, call, number)
            await trio.lowlevel.checkpoint()
    at = [sum(time == start + second for _, time in began) for second in range(4)]
    assert at == [1, 2, 4, 0]
    assert [number for number, _ in began[:1]] == [0]
    assert {number for number, _ in began[1:3]} == {1, 2}
    assert bulkhead.statistics().free == bulkhead.limit


async def test_a_call_of_more_places_than_there_are_just_now_is_let_in_alone(autojump_clock):
    """Places up to the maximum are given when nothing else runs, so that neither it nor those behind wait for ever."""
    bulkhead = Bulkhead("x", VegasLimit(initial=2, maximum=5), max_waiting=9)
    order = []

    async def call(name: str) -> None:
        order.append((name, bulkhead.statistics().running))
        await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        for name, places in (("a", 1), ("big", 5), ("b", 1), ("c", 1)):
            guard = bulkhead.take(places) if places > 1 else bulkhead
            nursery.start_soon(guard.call, call, name)
            await trio.lowlevel.checkpoint()
            await trio.sleep(0.1)
    assert order[:2] == [("a", 1), ("big", 5)]
    assert sorted(order[2:]) == [("b", 2), ("c", 2)]
    # With nobody before it, it does not wait at all.
    async with bulkhead.take(4):
        assert bulkhead.statistics().free == 0
        with pytest.raises(BulkheadFull, match=r"is full \(2 running"):
            bulkhead.take(4).enter()
    with pytest.raises(
        BulkheadFull, match="bulkhead x has 5 places at most, and 6 are wanted; the call was"
    ):
        await bulkhead.take(6).call(work, 1)
    assert bulkhead.statistics().running == 0


async def test_a_big_call_waits_through_a_shrinking_limit(autojump_clock):
    """A limit that shrinks by itself refuses nobody; one that is resized refuses who can never have as many."""
    bulkhead = Bulkhead("x", VegasLimit(initial=4, samples=1), max_waiting=9)
    async with trio.open_nursery() as nursery:
        held = bulkhead.enter()
        outcome = []

        async def big() -> None:
            try:
                await bulkhead.take(4).call(work, 1)
            except BulkheadFull as full:
                outcome.append(str(full))
            else:
                outcome.append("done")

        nursery.start_soon(big)
        await trio.sleep(1)
        bulkhead.failed(held, trio.TooSlowError())
        assert bulkhead.limit == 2
        await trio.sleep(2)
        held = bulkhead.enter()
        nursery.start_soon(big)
        await trio.sleep(1)
        bulkhead.resize(VegasLimit(initial=1, maximum=3))
        await trio.sleep(1)
        bulkhead.left(held)
    assert outcome[0] == "done"
    assert "has 3 places at most, and 4 are wanted" in outcome[1]
    assert bulkhead.statistics().free == 1


async def test_a_place_is_given_back_and_told_once(autojump_clock, told):
    """H9: giving a place back twice is an error, makes no place, and tells nothing again."""
    bulkhead = Bulkhead("x", VegasLimit(), max_waiting=3)
    ticket = bulkhead.enter()
    await trio.sleep(1)
    bulkhead.succeeded(ticket, None)
    for again in (
        lambda: bulkhead.succeeded(ticket, None),
        lambda: bulkhead.failed(ticket, trio.TooSlowError()),
        lambda: bulkhead.left(ticket),
    ):
        with pytest.raises(KeyError):
            again()
    assert told == [(1, 1, False)]
    assert bulkhead.statistics().free == 10


def test_what_it_found_outlives_a_trio_run():
    """A bulkhead at module level goes on in the next run, whose clock has another origin, with what it has found."""
    bulkhead = Bulkhead("x", VegasLimit(initial=1, samples=2), max_waiting=9)

    async def main() -> None:
        for _ in range(3):
            await bulkhead.call(trio.sleep, 0.25)

    for run in range(3):
        clock = trio.testing.MockClock(autojump_threshold=0)
        clock.jump(1e6 / (run + 1))
        trio.run(main, clock=clock)
        assert bulkhead.statistics().alone == pytest.approx(0.25)
    assert bulkhead.limit == 4  # doubled twice, and then use is low


async def test_only_real_changes_are_reported(autojump_clock):
    """An event tells of a limit that has moved by a quarter and by two at least since the last one, not of every round."""
    bulkhead = Bulkhead("x", VegasLimit(initial=20, samples=1), max_waiting=9)
    bulkhead.home = office = Office()
    heard = []
    office.events.tap(heard.append)
    limits = [20]
    for _ in range(8):
        with pytest.raises(trio.TooSlowError):
            await bulkhead.call(work, 1, trio.TooSlowError())
        limits.append(bulkhead.limit)
    assert limits == [20, 10, 5, 2, 1, 1, 1, 1, 1]
    assert all(isinstance(one, LimitChanged) for one in heard)
    assert [(one.old, one.new) for one in heard] == [(20, 10), (10, 5), (5, 2)]
    assert heard[0].sentence() == "up to 10 calls to x may run at once now, not 20"


async def test_each_key_finds_its_own_limit(autojump_clock):
    """Of `Bulkheads` each key has a law of its own; together they say that there is no one limit."""
    tenants = Bulkheads("x", VegasLimit(initial=8, samples=1), random=Random(1))
    with pytest.raises(trio.TooSlowError):
        await tenants.call("slow", work, 1, trio.TooSlowError())
    await tenants.call("well", work, 1)
    assert (tenants.of("slow").limit, tenants.of("well").limit) == (4, 8)
    assert tenants.statistics().limit is None
    assert repr(tenants) == "<Bulkheads x of 2 keys, up to 1000 places each>"
    tenants.resize(3)
    assert (tenants.of("slow").limit, tenants.of("new").limit) == (3, 3)
    assert tenants.statistics().limit == 3
    tenants.resize(VegasLimit(initial=2))
    assert {tenants.of(key).limit for key in ("slow", "well", "another")} == {2}


async def test_declarations_of_one_name_agree_on_it(autojump_clock):
    """Two declarations with equal laws share the bulkhead; with different ones the second is refused."""
    one = Dependency("x", timeout=1, limit=VegasLimit(maximum=50))
    same = Dependency("x", timeout=2, limit=VegasLimit(maximum=50))
    assert one.guards() is same.guards()
    assert one.statistics().bulkhead.adaptive
    with pytest.raises(OptionError, match=r"declared twice in this tree, with limit=VegasLimit\("):
        Dependency("x", timeout=1, limit=VegasLimit(maximum=60)).guards()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bulkhead("x", 1.5),
        lambda: Bulkhead("x", VegasLimit),
        lambda: Bulkheads("x", "vegas"),
        lambda: Dependency("x", limit="vegas"),
        lambda: Bulkhead("x", 1).resize("vegas"),
        lambda: Bulkheads("x", 1).resize(-1),
    ],
)
def test_another_limit_is_refused(make):
    """A limit is a whole number or a `VegasLimit`, and an error says so."""
    text = r"limit must be a whole number, 0 or more, or a VegasLimit\(...\), not"
    with pytest.raises(OptionError, match=text) as caught:
        make()
    assert caught.value.option == "limit"


def test_a_source_of_jitter_is_one():
    """`random` is a `random.Random`."""
    with pytest.raises(OptionError, match=r"bulkhead 'x': random is a random.Random or None"):
        Bulkhead("x", VegasLimit(), random=3)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scatter", [0.0, 0.5])
def test_it_follows_what_a_service_can_do(seed, scatter):
    """With 10 slots, 3, and 10 again: nine tenths of what the service can do, and less than a timeout a second."""
    for phase in overload(VegasLimit(), seed=seed, scatter=scatter):
        assert phase.share >= 0.9
        assert phase.timeouts < 1
        assert phase.mean < 0.3  # of the 0.6 and more that 60 callers without a limit would take


def test_the_overload_is_one():
    """Without a limit, and with one that is far from the truth, the same calls come to nothing while there are 3 slots."""
    for limit in (None, 40):
        _, few, _ = overload(limit, seed=1)
        assert few.share < 0.5
        assert few.timeouts > 20


def test_the_same_seed_does_the_same():
    """The overload is the same each time for one seed, and another for another."""
    law = VegasLimit()
    first, again, other = (overload(law, seed=seed, seconds=2, settling=2) for seed in (1, 1, 2))
    assert first == again != other
