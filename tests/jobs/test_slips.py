"""What a slip in a handler costs: its own job something, and nobody else anything."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
import trio

from actors.errors import FailWithRetry
from actors.jobs import MemoryEngine, NewJob, SQLIdempotencyStore, State
from tests.jobs.kit import put, states
from tests.jobs.tree import at_work, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


async def test_numbers_that_are_none(autojump_clock, engine):
    """What a handler takes for a number costs its own job a retry, and the others of its batch are completed."""

    async def handler(job, ctx):
        if job.variables["name"] == "odd":
            raise FailWithRetry("later", retries=2.5)
        if job.variables["name"] == "late":
            error = FailWithRetry("later")
            error.retry_in = "soon"
            raise error

    async with at_work(worker(handler, engine)):
        odd, late, good = await put(engine, "odd", "late", "good")
        await trio.sleep(0.4)
        found = {key: await engine.find(key) for key in (odd, late, good)}

    assert [found[key].retries for key in (odd, late, good)] == [2, 2, 3]
    assert found[good].state is State.COMPLETED
    assert "retries must be a whole number" in found[odd].error


async def test_two_effects_under_one_key(autojump_clock, engine):
    """A second effect that was not given a name is refused as an incident; it is not taken for a repetition and left out."""
    store, did = SQLIdempotencyStore(engine), []

    async def effect(*what):
        did.append(what)
        return len(did)

    async def another():
        did.append("another")

    class Bank:
        async def pay(self):
            did.append(self)

    ways = [
        lambda job, n: (effect, n),
        lambda job, n: (partial(effect, n),),
        lambda job, n: (lambda: effect(n),),
        lambda job, n: ((effect, another)[n],),
        lambda job, n: (Bank().pay,),
    ]

    async def handler(job, ctx):
        for n in range(2):
            await store.once_for(job, *ways[job.variables["way"]](job, n))

    async with at_work(worker(handler, engine)):
        for way in range(len(ways)):
            await engine.enqueue(NewJob("a", {"way": way}))
        await trio.sleep(1)

    assert await states(engine) == {"incident": len(ways)}
    assert "Give each piece of work its own key" in (await engine.find("1")).error
    assert len(did) == len(ways)


async def test_one_effect_that_is_asked_for_again(autojump_clock, engine):
    """The same work under the same key in one run is a repetition, also if the function is made anew; after a failure it is tried."""
    store, did = SQLIdempotencyStore(engine), []

    async def effect(what):
        did.append(what)
        if len(did) == 1:
            raise ValueError(what)
        return {"n": len(did)}

    async def handler(job, ctx):
        what = {"amount": 7}
        with suppress(ValueError):
            await store.once_for(job, effect, "something else")
        for _ in range(3):
            assert await store.once_for(job, lambda: effect(what)) == {"n": 2}
            assert await store.once_for(job, partial(effect, what), step="p") == {"n": 3}
        for name in "xyz":
            await store.once_for(job, effect, name, step=name)

    async with at_work(worker(handler, engine)):
        await engine.enqueue(NewJob("a"))
        await trio.sleep(1)

    assert await states(engine) == {"completed": 1}
    assert did == ["something else", {"amount": 7}, {"amount": 7}, "x", "y", "z"]
