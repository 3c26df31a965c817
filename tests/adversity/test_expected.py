"""Who may be sent to: everybody who will run, nobody who will not."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors import Actor, ActorStopped
from supervision import RestartPolicy, Supervisor, Worker
from tests.adversity.helpers import idle, running


class Slow(Actor):
    """Takes a second to start, and answers what it was asked."""

    async def started(self, ctx) -> None:
        await trio.sleep(1)

    async def handle(self, message) -> object:
        return message


def tree(**options) -> Supervisor:
    """A supervisor `s` in which `last` has its turn to start after a second, two levels down."""
    deep = Supervisor("deep", [Worker("last", Slow)])
    once = RestartPolicy(max_restarts=1, initial_backoff=0)
    inner = Supervisor("s", [Worker("first", Slow), deep], restart=once, **options)
    return Supervisor("t", [inner, Worker("idle", idle)])


@pytest.mark.parametrize("how", ["stop", "disable"])
async def test_those_that_are_about_to_start_again_can_be_asked(how, autojump_clock) -> None:
    """Below a supervisor that is started by hand an ask waits for its actor's turn, as in the first start."""
    again = {"stop": "start", "disable": "enable"}[how]
    async with running(tree()) as pool:
        ref = pool.ref("last")
        assert trio.current_time() == 2
        await getattr(pool, how)("s")
        with pytest.raises(ActorStopped):
            ref.tell_nowait("nobody is there")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(getattr(pool, again), "s"))
            await pool.wait_state("s", "starting")
            assert await ref.ask("waited") == "waited"
            assert trio.current_time() == 4


async def test_those_that_stay_disabled_cannot(autojump_clock) -> None:
    """A start of their supervisor does not let messages pile up for those below it that are disabled."""
    async with running(tree()) as pool:
        await pool.disable("deep")
        await pool.stop("s")
        await pool.start("s")
        with pytest.raises(ActorStopped):
            await pool.ref("last").ask("nobody is there")
        assert trio.current_time() == 3


async def test_nobody_piles_up_messages_below_a_supervisor_declared_disabled(
    autojump_clock,
) -> None:
    """What is below a supervisor that was declared disabled refuses messages until it is enabled."""
    async with running(tree(enabled=False)) as pool:
        ref = pool.ref("last")
        with pytest.raises(ActorStopped, match="disabled"):
            await ref.ask("nobody is there")
        assert trio.current_time() == 0
        await pool.enable("s")
        assert await ref.ask("now") == "now"


async def test_a_start_that_is_stopped_answers_those_who_wait(autojump_clock) -> None:
    """If a supervisor that was started by hand is stopped before an actor's turn, whoever asked it hears so at once."""
    async with running(tree()) as pool:
        await pool.stop("s")
        with trio.move_on_after(0.5):
            await pool.start("s")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.stop, "s")
            with pytest.raises(ActorStopped):
                await pool.ref("last").ask("nobody will be there")
        assert trio.current_time() == 2.5
