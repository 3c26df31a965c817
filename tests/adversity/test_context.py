"""Context variables: each run begins with those of the tree, whatever runs, callers and handlers set."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
import trio

from actors import Actor
from supervision import RestartPolicy, Supervisor, Worker
from tests.adversity.helpers import running

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.mark.parametrize("kind", ["function", "actor"])
@pytest.mark.parametrize("backoff", [0, 1])
async def test_a_run_sees_nothing_of_the_one_before(backoff, kind, autojump_clock) -> None:
    """What a run sets is gone with it, whether the next one goes on in its task or in a task of its own."""
    seen = []

    async def run(ctx) -> None:
        seen.append(tenant.get())
        tenant.set(f"run {ctx.run}")
        await trio.sleep(0.1)
        seen.append(tenant.get())
        if ctx.run < 3:
            raise OSError

    class Same(Actor):
        async def started(self, ctx) -> None:
            await run(ctx)

        async def handle(self, message) -> None: ...

    policy = RestartPolicy(initial_backoff=backoff, jitter=0)
    worker = Worker("w", run if kind == "function" else Same, restart=policy)
    token = tenant.set("the tree's")
    try:
        async with running(Supervisor("t", [worker])):
            tenant.set("the block's")
            await trio.sleep(10)
    finally:
        tenant.reset(token)

    assert seen == ["the tree's", "run 1", "the tree's", "run 2", "the tree's", "run 3"]


async def test_an_operator_lends_nothing_of_its_own(autojump_clock) -> None:
    """A run that an operator starts, restarts or adds begins with the variables of the tree, not with the operator's."""
    seen = []

    async def run(ctx) -> None:
        seen.append((ctx.name, tenant.get()))
        await trio.sleep_forever()

    async with running(Supervisor("t", [Worker("w", run)])) as pool:
        tenant.set("the operator's")
        await pool.restart("w")
        await pool.stop("w")
        await pool.start("w")
        await pool.start_child("t", Worker("x", run))

    assert seen == [("w", "nobody")] * 3 + [("x", "nobody")]
