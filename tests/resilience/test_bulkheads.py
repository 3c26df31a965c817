"""A bulkhead for each key (H10): keys are independent, idle ones are forgotten, and none loses or doubles a place."""

from __future__ import annotations

import gc

import pytest
import trio
import trio.testing
from hypothesis import given, strategies as st

from actors.errors import BulkheadFull
from actors.options import OptionError
from actors.resilience import Bulkheads
from tests.properties.looking import looking
from tests.resilience.kit import Script, gather


async def test_h10_no_key_takes_the_places_of_another(autojump_clock):
    """H10: one tenant that fills its places and its line leaves the others theirs."""
    tenants = Bulkheads("reports", 2, max_waiting=1, max_wait=9)

    loud = [lambda: tenants.call("loud", trio.sleep, 5) for _ in range(6)]
    results = await gather(*loud, lambda: tenants.call("quiet", Script("done")))
    assert results[-1] == "done"
    refused = [r for r in results if isinstance(r, BulkheadFull)]
    assert [r.name for r in refused] == ["reports[loud]"] * 3


@looking(40)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["begin", "begin", "end", "cancel", "look"])),
        max_size=60,
    ),
    idle=st.integers(0, 3),
)
async def test_h10_keys_come_and_go_and_no_place_with_them(autojump_clock, steps, idle):
    """H10: however many keys there are, no key has ever more running than its limit, and idle ones are bounded."""
    tenants = Bulkheads("x", 2, idle=idle)
    running: dict[int, list[trio.CancelScope]] = {key: [] for key in range(5)}

    async def work(scope):
        with scope:
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for key, what in steps:
            mine = running[key]
            if what == "begin":
                scope = trio.CancelScope()
                nursery.start_soon(begin, tenants, key, work, scope, mine)
            elif what in ("end", "cancel") and mine:
                mine.pop(0).cancel()
            await trio.testing.wait_all_tasks_blocked()
            for other, scopes in running.items():
                assert len(scopes) <= 2
                assert tenants.of(other).statistics().running == len(scopes)
            assert tenants.statistics().running == sum(map(len, running.values()))
        gc.collect()
        busy = sum(bool(scopes) for scopes in running.values())
        assert tenants.statistics().keys <= busy + idle
        nursery.cancel_scope.cancel()


async def begin(tenants, key, work, scope, mine):
    full = len(mine) == 2
    mine.append(scope)
    try:
        await tenants.call(key, work, scope)
    except BulkheadFull:
        mine.remove(scope)
        assert full


async def test_h10_who_holds_one_shares_it(autojump_clock):
    """H10: a bulkhead that somebody still has is the one that others get, forgotten or not."""
    tenants = Bulkheads("x", 1, idle=1)
    mine = tenants.of("a")
    for key in range(50):
        tenants.of(key)
    assert tenants.of("a") is mine

    async with tenants.of("a"):
        for key in range(50):
            tenants.of(key)
        with pytest.raises(BulkheadFull):
            await tenants.call("a", Script("no"))


async def test_all_keys_are_resized_at_once(autojump_clock):
    """`resize` is for the keys that are there and for those to come; who waited is let in."""
    tenants = Bulkheads("x", 0, max_waiting=1)

    async def grow():
        await trio.sleep(1)
        tenants.resize(1)

    results = await gather(*[lambda k=k: tenants.call(k, Script(k)) for k in "ab"], grow)
    assert results[:2] == ["a", "b"]
    assert tenants.of("c").limit == 1
    assert repr(tenants) == "<Bulkheads x of 3 keys, 1 places each>"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limit": -1}, "bulkhead 'x': limit"),
        ({"limit": 1, "max_wait": -1}, "bulkhead 'x': max_wait"),
        ({"limit": 1, "idle": -1}, "bulkheads 'x': idle must be a whole number, 0 or more, not -1"),
    ],
)
def test_options_are_checked_at_the_door(options, text):
    """A wrong option is refused where it is written, not at the first key."""
    with pytest.raises(OptionError, match=text):
        Bulkheads("x", **options)
