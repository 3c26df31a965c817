"""Mistakes that would otherwise show as a hang or as an error far away."""

from __future__ import annotations

import pytest
import trio

from actors import Actor
from supervision import Supervisor, Worker, supervisor


class Idle(Actor):
    async def handle(self, message):
        return message


async def test_waiting_for_an_unknown_state_is_refused(autojump_clock) -> None:
    """A state that does not exist is an error with the nearest one, not a wait for ever."""
    async with supervisor.running(Supervisor("t", [Worker("w", Idle)]), log=False) as pool:
        with trio.fail_after(1):
            with pytest.raises(ValueError, match=r"'redy'\. Did you mean 'ready'"):
                await pool.wait_state("w", "redy")


async def test_watching_a_router_is_refused(autojump_clock) -> None:
    """A watch is for one actor; a router says so, and its refs can be watched."""
    seen = []

    class Watcher(Actor):
        async def started(self, ctx):
            several = ctx.find("w")
            with pytest.raises(TypeError, match="each of its refs"):
                ctx.watch(several)
            seen.extend(ctx.watch(ref).target.path for ref in several.refs())

        async def handle(self, message): ...

    tree = Supervisor("t", [Worker("w", Idle, replicas=2), Worker("watcher", Watcher)])
    async with supervisor.running(tree, log=False) as pool:
        await pool.wait_ready()

    assert seen == ["t/w/0", "t/w/1"]


@pytest.mark.parametrize("seconds", [None, "5", -1, float("nan")], ids=repr)
async def test_a_time_that_is_none_is_refused(seconds, autojump_clock) -> None:
    """What cannot be waited is a ValueError that says what could, at an ask, a sleep and a timer."""
    said = []

    async def run(ctx):
        for wait in (ctx.sleep(seconds), ctx.ref.ask("x", timeout=seconds)):
            with pytest.raises(ValueError, match=r"seconds must be|timeout must be") as caught:
                await wait
            said.append(str(caught.value))
        for remind in (ctx.after, ctx.every):
            with pytest.raises(ValueError, match="of a timer must be a finite number") as caught:
                remind(seconds, "x")
            said.append(str(caught.value))

    async with supervisor.running(Supervisor("t", [Worker("w", run)]), log=False) as pool:
        await pool.wait_stopped()

    assert len(said) == 4
    assert all(text.endswith(f"not {seconds!r}") for text in said)
