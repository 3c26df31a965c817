"""Calls of a dependency that stand in the bulkhead's line while its breaker changes, or their trial's lease runs out."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from hypothesis import given, strategies as st

from actors.errors import BreakerOpen, BulkheadFull
from actors.resilience import BreakerPolicy, Dependency
from tests.properties.looking import looking
from tests.resilience.kit import Down, Script


async def as_call(dependency, fn):
    return await dependency.call(fn)


async def as_block(dependency, fn):
    async with dependency:
        return await fn()


SHAPES = pytest.mark.parametrize("shape", [as_call, as_block])


class Shop:
    """A dependency that has just become half-open, with its only place held by hand."""

    def __init__(self, shape, **breaker) -> None:
        policy = BreakerPolicy(failures=1, open_for=5, **{"lease": 3, **breaker})
        self.dependency = Dependency("x", timeout=60, limit=1, max_waiting=9, breaker=policy)
        self.shape = shape
        self.guards = self.dependency.guards()
        self.ends: list[object] = []
        self.running = self.most = 0

    async def recovers(self) -> None:
        with pytest.raises(Down):
            await self.shape(self.dependency, Script(Down))
        self.place = self.guards.bulkhead.enter()
        await trio.sleep(5)

    def gives_place(self) -> None:
        self.guards.bulkhead.left(self.place)

    async def work(self, seconds) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(seconds)
        finally:
            self.running -= 1
        return "done"

    async def caller(self, seconds) -> None:
        try:
            self.ends.append(await self.shape(self.dependency, partial(self.work, seconds)))
        except BreakerOpen as refused:
            self.ends.append(refused)

    def all_is_given_back(self) -> None:
        assert self.guards.bulkhead.statistics().free == self.guards.bulkhead.limit
        assert self.guards.bulkhead._holders == {}
        assert self.guards.breaker.statistics().trials == 0


@SHAPES
async def test_a_trial_that_lost_its_place_in_line_is_not_made(autojump_clock, shape):
    """Of two trials, the one that waited for longer than its lease is refused, and exactly one is under way."""
    shop = Shop(shape)
    await shop.recovers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.caller, 1)
        await trio.sleep(3.5)  # its lease is over
        nursery.start_soon(shop.caller, 1)
        await trio.sleep(0.5)
        assert shop.guards.bulkhead.statistics().waiting == 2
        shop.guards.bulkhead.resize(2)  # the first in line gets it, and hands it on
        await trio.sleep(0.5)
        assert shop.running == 1
        refused = shop.ends[0]
        assert isinstance(refused, BreakerOpen)
        assert refused.trying
        assert refused.retry_after == 2.5
    shop.gives_place()
    assert shop.ends[1:] == ["done"]
    assert shop.most == 1
    assert shop.guards.breaker.state.name == "CLOSED"
    shop.all_is_given_back()


@SHAPES
async def test_a_trial_that_waited_long_is_made_if_nobody_took_its_place(autojump_clock, shape):
    """A trial that waited for longer than its lease, alone, is made, and has its whole lease before it."""
    shop = Shop(shape)
    await shop.recovers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.caller, 2)
        await trio.sleep(10)
        shop.gives_place()
        await trio.sleep(1)
        assert shop.guards.breaker.statistics().trials == 1
        with pytest.raises(BreakerOpen) as refused:
            await shape(shop.dependency, Script("never"))
        assert refused.value.retry_after == 2
    assert shop.ends == ["done"]
    assert shop.guards.breaker.state.name == "CLOSED"
    shop.all_is_given_back()


@SHAPES
async def test_a_hung_trial_does_not_wedge_it(autojump_clock, shape):
    """A trial that waited and then hangs gives way after one lease from its begin, to one that waited in its turn."""
    shop = Shop(shape)
    await shop.recovers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.caller, 50)
        await trio.sleep(2)
        shop.guards.bulkhead.resize(2)
        await trio.sleep(2.5)
        assert not shop.guards.breaker.admits
        await trio.sleep(0.5)
        assert shop.guards.breaker.admits
        nursery.start_soon(shop.caller, 1)
        await trio.sleep(1)
        shop.gives_place()
        await trio.sleep(1.5)
        assert shop.ends == ["done"]
        assert shop.guards.breaker.state.name == "CLOSED"
    shop.all_is_given_back()


@SHAPES
async def test_a_call_that_waited_while_the_breaker_opened_is_not_made(autojump_clock, shape):
    """Whoever stands in line when the breaker opens is refused in its turn, with the time that is left, and the line empties."""
    policy = BreakerPolicy(failures=1, open_for=30)
    dependency = Dependency("x", timeout=60, limit=1, max_waiting=9, breaker=policy)
    script, ends = Script(Down, sleep=5), []

    async def caller() -> None:
        try:
            await shape(dependency, script)
        except (Down, BreakerOpen) as error:
            ends.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(caller)
    assert [type(end) for end in ends] == [Down, BreakerOpen, BreakerOpen, BreakerOpen]
    assert {end.retry_after for end in ends[1:]} == {30}
    assert script.calls == 1
    assert trio.current_time() == script.times[0] + 5
    guards = dependency.guards()
    assert guards.breaker.rejected == 3
    assert guards.bulkhead.statistics().free == 1


@SHAPES
async def test_a_call_that_waited_while_the_breaker_closed_goes_on_as_any_other(
    autojump_clock, shape
):
    """Who was let in as a trial and begins when the breaker has closed is an ordinary call: its failure is counted anew."""
    shop = Shop(shape)
    await shop.recovers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.caller, 1)
        await trio.sleep(1)
        shop.guards.breaker.close()
        shop.gives_place()
    assert shop.ends == ["done"]
    assert shop.guards.breaker.counts.successes == 1
    shop.all_is_given_back()


@looking(60)
@given(
    trials=st.integers(1, 2),
    places=st.integers(2, 3),
    held=st.lists(st.integers(5, 12), min_size=2, max_size=3),
    calls=st.lists(
        st.tuples(st.integers(2, 9), st.integers(1, 5), st.booleans()), min_size=2, max_size=12
    ),
    shape=st.sampled_from([as_call, as_block]),
)
def test_never_more_trials_than_there_may_be(trials, places, held, calls, shape):
    """With calls shorter than their lease, however long they wait in line, no more than `half_open_max` of a period are under way."""
    seen: list[int] = []

    async def main() -> None:
        policy = BreakerPolicy(
            failures=1, open_for=2, open_growth=1, lease=3, half_open_max=trials, successes=3
        )
        x = Dependency("x", timeout=60, limit=places, max_waiting=99, breaker=policy)
        guards = x.guards()
        under_way: dict[int, int] = {}

        async def work(seconds, fails) -> None:
            period = guards.breaker.statistics()
            if period.state != "half_open":
                await trio.sleep(seconds)
                return
            under_way[period.generation] = under_way.get(period.generation, 0) + 1
            seen.append(under_way[period.generation])
            try:
                await trio.sleep(seconds)
                if fails:
                    raise Down
            finally:
                under_way[period.generation] -= 1

        async def caller(after, halves, fails) -> None:
            await trio.sleep(after)
            try:
                await shape(x, partial(work, halves / 2, fails))
            except (Down, BreakerOpen):
                pass

        async def holder(seconds) -> None:
            try:
                place = guards.bulkhead.enter()
            except BulkheadFull:
                return
            await trio.sleep(seconds)
            guards.bulkhead.left(place)

        guards.breaker.open()
        async with trio.open_nursery() as nursery:
            for seconds in held:
                nursery.start_soon(holder, seconds)
            for call in calls:
                nursery.start_soon(caller, *call)
        assert guards.bulkhead.statistics().running == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert max(seen, default=0) <= trials
