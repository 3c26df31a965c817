"""What a slip in a handler costs: its own job something, and nobody else anything."""

from __future__ import annotations

import pytest
import trio

from actors.errors import FailWithRetry
from actors.jobs import MemoryEngine, State
from tests.jobs.kit import put
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
