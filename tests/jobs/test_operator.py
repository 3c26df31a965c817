"""What an operator changes while a handler runs holds, whatever becomes of that run."""

from __future__ import annotations

import pytest
import trio

from actors.errors import FailWithRetry
from actors.jobs import Failed, MemoryEngine, Settlement
from tests.jobs.kit import DONE, put, states, take
from tests.jobs.tree import at_work, worker


@pytest.fixture
def memory():
    return MemoryEngine("shop")


@pytest.mark.parametrize(
    ("had", "given", "wait", "state", "left"),
    [
        (1, 9, 5.0, "scheduled", 8),
        (3, 9, 0.0, "ready", 8),
        (3, 1, 5.0, "incident", 0),
        (3, 0, 5.0, "incident", 0),
        (1, 2, float("inf"), "scheduled", 1),
        (3, 3, 5.0, "scheduled", 2),
    ],
)
async def test_retries_that_were_changed(engine, had, given, wait, state, left):
    """A job that fails has one retry less than an operator gave it meanwhile; with none it is an incident, and else it runs again."""
    odd, _ = await put(engine, "odd", "good", retries=had)
    jobs = await take(engine)
    await engine.set_retries(odd, given)
    told = [
        Settlement(jobs["odd"].lease, Failed("it broke", had - 1, wait, one_less=True), had),
        Settlement(jobs["good"].lease, DONE, had),
    ]

    assert (await engine.exchange(told)).refused == frozenset()

    info = await engine.find(odd)
    assert (info.state, info.retries, info.error) == (state, left, "it broke")
    assert (info.incident_for is not None) == (state == "incident")
    assert await states(engine) == {state: 1, "completed": 1}
    if state == "incident":
        await engine.resolve(odd, retries=1)
        assert list(await take(engine)) == ["odd"]


async def test_retries_that_were_stated(engine):
    """A number of retries that a handler states is the number, whatever an operator said before."""
    (key,) = await put(engine, "x")
    job = (await take(engine))["x"]
    await engine.set_retries(key, 9)

    assert await engine.settle(job.lease, Failed("never", 0))

    assert (await engine.find(key)).retries == 0
    assert await states(engine) == {"incident": 1}


@pytest.mark.parametrize(
    ("error", "state", "left"),
    [(ValueError("no"), "scheduled", 8), (FailWithRetry("no", retries=0), "incident", 0)],
)
async def test_while_a_handler_runs(autojump_clock, memory, error, state, left):
    """Retries that are given to a job in its last run are there when that run fails, unless the handler knows better."""

    async def handler(job, ctx):
        await trio.sleep(10)
        raise error

    async with at_work(worker(handler, memory)):
        (key,) = await put(memory, "x", retries=1)
        await trio.sleep(5)
        await memory.set_retries(key, 9)
        await trio.sleep(5.2)
        info = await memory.find(key)

    assert (info.state, info.retries) == (state, left)
