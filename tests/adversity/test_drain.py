"""Queues that are to be drained: handled before every final stop, kept over every restart."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, MailboxSpec
from supervision import RestartPolicy, Supervisor, Worker
from tests.adversity.helpers import idle, running

DRAIN = MailboxSpec(drain=True)
AGAIN = RestartPolicy(max_restarts=0, initial_backoff=0)


def slow(handled: list[int]) -> type[Actor]:
    """An actor that takes a second for a message."""

    class Slow(Actor):
        async def handle(self, message) -> None:
            await trio.sleep(1)
            handled.append(message)

    return Slow


@pytest.mark.parametrize("said", ["by its spec", "by the operator"])
async def test_a_supervisor_that_is_stopped_drains(said, autojump_clock) -> None:
    """The stop of a supervisor is final for all below it: what is queued there is handled first."""
    handled: list[int] = []
    box = DRAIN if said == "by its spec" else MailboxSpec()
    inner = Supervisor("inner", [Worker("a", slow(handled), mailbox=box)])
    tree = Supervisor("t", [Supervisor("outer", [inner]), Worker("idle", idle)])
    async with running(tree) as pool:
        for number in range(5):
            pool.ref("a").tell_nowait(number)
        await trio.sleep(0.5)
        await pool.stop("outer", drain=said == "by the operator")

        assert handled == [0, 1, 2, 3, 4]
        assert len(pool.dead_letters) == 0


@pytest.mark.parametrize("kind", ["transient", "permanent"])
async def test_a_supervisor_that_is_done_drains(kind, autojump_clock) -> None:
    """A supervisor that ends because it is done drains what it stops, unless it is started again."""
    handled: list[int] = []

    async def last(ctx) -> None:
        if ctx.run > 1:
            await trio.sleep_forever()
        await trio.sleep(0.5)

    children = [Worker("a", slow(handled), mailbox=DRAIN), Worker("b", last, significant=True)]
    inner = Supervisor(
        "inner",
        children,
        auto_shutdown="any_significant",
        restart=RestartPolicy(type=kind, max_restarts=0, initial_backoff=0),
    )
    async with running(Supervisor("t", [inner, Worker("idle", idle)])) as pool:
        for number in range(5):
            pool.ref("a").tell_nowait(number)
        await trio.sleep(1.5)
        phase = pool.info("a").phase
        await trio.sleep(10)

        assert phase == ("draining" if kind == "transient" else "ready")
        assert handled == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("listed", [True, False])
async def test_a_supervisor_that_is_restarted_drains_whom_it_forgets(
    listed, autojump_clock
) -> None:
    """A restart of a supervisor keeps the queues of its list, and drains those of children added at run time."""
    handled: list[int] = []
    worker = Worker("a", slow(handled), mailbox=DRAIN)
    inner = Supervisor("inner", [worker] if listed else [], restart=AGAIN)
    async with running(Supervisor("t", [inner, Worker("idle", idle)])) as pool:
        if not listed:
            await pool.start_child("inner", worker)
        for number in range(5):
            pool.ref("a").tell_nowait(number)
        await trio.sleep(0.5)
        await pool.restart("inner")

        assert trio.current_time() == (1 if listed else 5)
        await trio.sleep(5)
        assert handled == [0, 1, 2, 3, 4]
        assert len(pool.dead_letters) == 0
