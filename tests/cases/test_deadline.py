"""DEADLINE: what inherits one, when it begins to run, and who has to see it."""

from __future__ import annotations

from math import inf

import pytest
import trio

from actors import Actor
from actors.errors import DeadlineExceeded
from actors.resilience import Dependency, deadline, remaining, retry
from supervision import Supervisor, Worker
from tests.cases.kit import at, under_test
from tests.resilience.kit import Script, exact, policy


async def test_b088_requests_carry_the_deadline_detached_work_does_not(autojump_clock):
    """B088, cocoindex-io/cocoindex#2054: leaving a nested deadline restores the outer one; an ask carries it, a tell does not."""
    seen = []

    class Asked(Actor):
        async def handle(self, message):
            seen.append(("asked", self.ctx.deadline - trio.current_time()))
            with deadline(at=self.ctx.deadline):
                seen.append(("inside", remaining()))

    class Told(Actor):
        async def handle(self, message):
            seen.append(("told", self.ctx.deadline, remaining()))
            await trio.sleep(20)
            seen.append(("done", trio.current_time()))

    tree = Supervisor("app", [Worker("asked", Asked), Worker("told", Told)])
    async with under_test(tree) as trial:
        with deadline(10):
            with deadline(3):
                await at(2)
                assert remaining() == 1
            assert remaining() == 8
            await trial.pool.ref("asked").ask("?", timeout=60)
            await at(3)
            await trial.pool.ref("told").tell("!")
        await at(24)
    assert seen == [("asked", 8), ("inside", 8), ("told", inf, inf), ("done", 23)]


async def test_b089_a_limit_counts_from_entry(autojump_clock):
    """B089, python-trio/trio#2512 and agronholm/anyio#514: waiting for a place uses nothing up, and each use is a new one."""
    x = Dependency("x", timeout=5, limit=1, max_waiting=1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(x.guards().bulkhead.call, trio.sleep, 5)
        await trio.sleep(0.1)
        assert await x.call(Script("done", sleep=4)) == "done"
        assert trio.current_time() == 9
    await at(20)
    assert await x.call(Script("done", sleep=4)) == "done"
    assert trio.current_time() == 24
    await at(30)
    with pytest.raises(DeadlineExceeded):
        await x.call(Script("done", sleep=6))
    assert trio.current_time() == 35


async def test_b089_a_deadline_made_early_runs_late(autojump_clock):
    """B089, python-trio/trio#2512: a deadline that was made long ago has all its time, and has it again."""
    limit = deadline(5)

    for start in (100, 200):
        await at(start)
        with limit:
            assert remaining() == 5
            await trio.sleep(4)


async def test_b091_retry_sees_the_deadline(autojump_clock):
    """B091, thomhurst/Kevlar#506: no wait is begun that the deadline would cut; the real error is raised instead."""
    script = Script(ConnectionError("real"))
    rules = policy(on=ConnectionError, backoff=exact(initial=0.6, factor=1))

    with pytest.raises(ConnectionError, match="real"), deadline(1.0):
        await retry(script, policy=rules)
    assert script.times == [0, 0.6]
    assert trio.current_time() == 0.6
