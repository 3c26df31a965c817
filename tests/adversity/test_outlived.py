"""A task that outlives its run and goes on with its context: it speaks for no other run, and takes nothing."""

from __future__ import annotations

import pytest
import trio

from actors import Context
from supervision import RestartPolicy, Supervisor, Worker
from tests.adversity.helpers import AT_ONCE, running


async def first_and_second(pool, contexts: list[Context]) -> Context:
    """The context of the first run, when the second is under way."""
    with trio.fail_after(10):
        while len(contexts) < 2:
            await trio.sleep(1)
    assert pool.info("w").run == 2
    return contexts[0]


def twice(contexts: list[Context], *, ready: str = "run") -> Supervisor:
    """A worker whose first run fails."""

    async def run(ctx) -> None:
        contexts.append(ctx)
        if ctx.run == 1:
            raise OSError
        await trio.sleep_forever()

    return Supervisor("t", [Worker("w", run, restart=AT_ONCE, ready=ready)])


async def test_it_stops_no_later_run(autojump_clock) -> None:
    """`ctx.stop()` is about the run that it was handed to."""
    contexts: list[Context] = []
    async with running(twice(contexts)) as pool:
        old = await first_and_second(pool, contexts)
        old.stop()
        await trio.sleep(1)
        assert pool.info("w").state == "running"
        contexts[1].stop()
        await pool.wait_stopped()


async def test_it_makes_no_later_run_ready(autojump_clock) -> None:
    """`ctx.started()` is about the run that it was handed to."""
    contexts: list[Context] = []
    async with running(twice(contexts, ready="signal"), wait_ready=False) as pool:
        old = await first_and_second(pool, contexts)
        old.started()
        assert pool.info("w").phase == "starting"
        contexts[1].started()
        assert pool.info("w").phase == "ready"


async def test_it_takes_no_names(autojump_clock) -> None:
    """A name or a place in a group that no end of a run would free is refused, and stays free for others."""
    contexts: list[Context] = []
    async with running(twice(contexts)) as pool:
        old = await first_and_second(pool, contexts)
        for take in (old.register, old.join):
            with pytest.raises(RuntimeError, match="run 1 of t/w/0 has ended"):
                take("boss")
        assert pool.registry.statistics().names == 0
        assert old.members("boss") == ()


async def test_it_says_nothing_of_its_health(autojump_clock) -> None:
    """`ctx.degraded()` of an ended run is no event, and makes nothing unready."""
    contexts: list[Context] = []
    seen: list = []
    async with running(twice(contexts), listeners=[seen.append]) as pool:
        old = await first_and_second(pool, contexts)
        old.degraded("server", "is down")
        assert pool.health().ready
        await trio.sleep(1)

    assert "RunDegraded" not in {event.kind for event in seen}


async def test_it_answers_for_no_later_run(autojump_clock) -> None:
    """The ask in hand is that of the living run: an ended one neither sees its deadline nor takes it over."""
    contexts: list[Context] = []
    seen = []

    async def run(ctx) -> None:
        contexts.append(ctx)
        if ctx.run == 1:
            raise OSError
        async for _ in ctx.mailbox:
            seen.append(contexts[0].deadline)
            with pytest.raises(RuntimeError, match="no ask in hand"):
                contexts[0].answer_later()
            assert ctx.deadline < float("inf")

    policy = RestartPolicy(initial_backoff=0)
    async with running(Supervisor("t", [Worker("w", run, restart=policy)])) as pool:
        assert await pool.ref("w").ask("x") is None

    assert seen == [float("inf")]
