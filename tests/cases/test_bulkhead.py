"""BULKHEAD: places that are neither lost nor doubled."""

from __future__ import annotations

import pytest
import trio

from actors.errors import BulkheadFull
from actors.resilience import Bulkhead
from tests.cases.kit import ORDERS, at, turns
from tests.resilience.kit import Script, gather


async def test_b079_a_waiter_that_leaves_takes_nothing(autojump_clock):
    """B079, failsafe-lib/failsafe#393: eight that waited in vain destroy no place."""
    bulkhead = Bulkhead("x", 8, max_waiting=8, max_wait=1)

    async def wait():
        with pytest.raises(BulkheadFull, match="within 1 s"):
            await bulkhead.call(Script("never"))
        assert trio.current_time() == 1

    async def late():
        await at(10)
        await turns(5)
        assert await bulkhead.call(Script("done", sleep=1)) == "done"
        assert trio.current_time() == 11

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(bulkhead.call, trio.sleep, 10)
        await turns(5)
        for _ in range(8):
            nursery.start_soon(wait)
            nursery.start_soon(late)
    stats = bulkhead.statistics()
    assert (stats.free, stats.waiting, stats.rejected) == (8, 0, 8)


@ORDERS
async def test_b080_a_place_reaches_its_waiter_or_the_next(autojump_clock, first, second):
    """B080, agronholm/anyio#947: released and cancelled in one instant, in every order, the place goes to who still wants it."""
    bulkhead = Bulkhead("x", 1, max_waiting=2)
    ran = []
    scope = trio.CancelScope()

    async def hold():
        await at(1)
        await turns(first)

    async def cancel():
        await at(1)
        await turns(second)
        scope.cancel()

    async def w1():
        with scope:
            await bulkhead.call(work, "w1")

    async def work(name):
        ran.append((name, trio.current_time()))
        await trio.sleep(5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bulkhead.call, hold)
        await turns(3)
        nursery.start_soon(w1)
        await turns(3)
        nursery.start_soon(bulkhead.call, work, "w2")
        nursery.start_soon(cancel)
    assert ran[-1] == ("w2", 1)
    assert trio.current_time() == 6
    assert bulkhead.statistics().free == 1


async def test_b080_a_waiter_cancelled_as_it_is_granted_does_not_run(autojump_clock):
    """B080, agronholm/anyio#947: its place is handed over and it is cancelled before it knows: its call is not begun."""
    bulkhead = Bulkhead("x", 1, max_waiting=1)
    script, scope = Script("never"), trio.CancelScope()

    async def wait():
        with scope:
            await bulkhead.call(script)

    async with trio.open_nursery() as nursery:
        async with bulkhead:
            nursery.start_soon(wait)
            await turns(3)
        scope.cancel()
    assert scope.cancelled_caught
    assert script.calls == 0
    assert bulkhead.statistics().free == 1


async def test_b086_release_follows_a_grant_only(autojump_clock):
    """B086, elastic/elasticsearch#14909: an interrupted wait gives back nothing, so never more than two run."""
    bulkhead = Bulkhead("x", 2, max_waiting=5)
    running, most = 0, 0

    async def work():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(bulkhead.call, trio.sleep, 5)
        await turns(3)
        with trio.move_on_after(1) as scope:
            await bulkhead.call(work)
        assert scope.cancelled_caught
    assert (trio.current_time(), bulkhead.statistics().free) == (5, 2)
    await gather(*[lambda: bulkhead.call(work)] * 5)
    assert most == 2
    assert bulkhead.statistics().free == 2
