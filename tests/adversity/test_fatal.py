"""Errors that are nobody's to handle, from wherever they come: the tree stops in order, then they go on as they are."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, HandlerFailed
from actors.errors import ActorStopped
from supervision import Strategy, Supervisor, Worker
from supervision.events import Ended, Started
from tests.adversity.helpers import account, idle, kinds, running, serve


class Odd(BaseException):
    """Neither an Exception nor one of Python's own."""


async def bare(error) -> None:
    raise error


async def in_a_group(error) -> None:
    raise BaseExceptionGroup("some", [ValueError("also"), BaseExceptionGroup("deep", [error])])


async def in_an_inner_nursery(error) -> None:
    async def later() -> None:
        await trio.sleep(0.5)
        raise error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(later)


@pytest.mark.parametrize("how", [bare, in_a_group, in_an_inner_nursery])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Odd])
async def test_a_fatal_error_stops_the_tree_in_order(how, kind, autojump_clock) -> None:
    """Whatever is no Exception stops the whole tree in order, restarts nothing, and comes out as the very object raised."""
    error = kind(3)
    events: list = []

    async def fatal(ctx) -> None:
        await trio.sleep(1)
        await how(error)

    tree = Supervisor(
        "t", [Worker("a", idle), Supervisor("in", [Worker("f", fatal)]), Worker("b", idle)]
    )
    with pytest.raises(kind) as caught:
        await serve(tree, listeners=[events.append])

    assert caught.value is error
    assert [e.path for e in kinds(events, Ended)][-3:] == ["t/in", "t/a/0", "t"]
    assert all(e.run == 1 for e in kinds(events, Started))


async def test_two_fatal_errors_end_in_the_first(autojump_clock) -> None:
    """When several children exit at once the tree ends with the first of their errors, not with a hang."""

    async def exits(ctx) -> None:
        raise SystemExit(ctx.path)

    with pytest.raises(SystemExit):
        await serve(Supervisor("t", [Worker("w", exits, replicas=3)]))


async def test_a_fatal_error_during_the_stop_comes_out_too(autojump_clock) -> None:
    """A child that exits while the tree is stopping anyway is heard."""

    async def exits(ctx) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise SystemExit(4)

    with pytest.raises(SystemExit):
        async with running(Supervisor("t", [Worker("w", exits), Worker("idle", idle)])):
            await trio.sleep(1)


@pytest.mark.parametrize("stopping", [False, True])
async def test_the_message_of_a_fatal_error_is_accounted_for(stopping, autojump_clock) -> None:
    """A message whose handler exits the program is not counted as handled, and its asker is told."""
    told: list[BaseException] = []
    refs: list = []

    class Exits(Actor):
        async def handle(self, message) -> None:
            await trio.sleep(2)
            raise SystemExit(5)

    async def slow(ctx) -> None:
        with ctx.busy():
            await trio.sleep(8)

    async def ask(ref) -> None:
        try:
            await ref.ask("m", timeout=100)
        except (ActorStopped, HandlerFailed) as error:
            told.append(error)

    tree = Supervisor("t", [Worker("w", Exits), Worker("slow", slow)])
    async with trio.open_nursery() as nursery:
        with pytest.raises(SystemExit):
            async with running(tree) as pool:
                refs.append(pool.ref("w"))
                nursery.start_soon(ask, refs[0])
                await trio.sleep(1)
                if not stopping:
                    await trio.sleep_forever()

    mail = refs[0].mailbox.statistics()
    assert account(refs[0]) == (1, 1)
    assert mail.handled == 0
    assert len(told) == 1


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("names", [("fails", "exits"), ("exits", "fails")])
async def test_an_exit_in_one_of_a_group_restarts_nobody(strategy, names, autojump_clock) -> None:
    """An exit in the same tick as a failure that restarts the group wins, whoever is first."""
    runs: list[str] = []
    go = trio.Event()

    async def fails(ctx) -> None:
        runs.append(ctx.name)
        await go.wait()
        raise SystemExit(1) if ctx.name == "exits" else OSError

    tree = Supervisor("t", [Worker(name, fails) for name in names], strategy=strategy)
    with pytest.raises(SystemExit):
        async with running(tree):
            go.set()
            await trio.sleep_forever()

    assert runs == list(names)


async def test_serve_fails_inside_somebody_elses_nursery(autojump_clock) -> None:
    """A tree that fails in a service's nursery cancels that, comes out of it, and leaves no task behind."""
    before = trio.lowlevel.current_statistics().tasks_living
    order: list[str] = []

    async def dies(ctx) -> None:
        await trio.sleep(1)
        raise SystemExit(6)

    async def neighbour() -> None:
        try:
            await trio.sleep_forever()
        finally:
            order.append("neighbour")

    async def last(ctx) -> None:
        try:
            await trio.sleep_forever()
        finally:
            order.append("tree")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(neighbour)
            nursery.start_soon(serve, Supervisor("t", [Worker("last", last), Worker("d", dies)]))

    assert [type(leaf) for leaf in caught.value.exceptions] == [SystemExit]
    assert order == ["tree", "neighbour"]
    assert trio.lowlevel.current_statistics().tasks_living == before


def test_trio_run_ends_with_its_tree() -> None:
    """`trio.run(serve, tree)` returns when the tree is done, with nothing left running."""

    async def brief(ctx) -> None:
        await trio.lowlevel.checkpoint()

    async def main() -> int:
        await serve(Supervisor("t", [Worker("w", brief, replicas=3)]))
        return trio.lowlevel.current_statistics().tasks_living

    async def bare() -> int:
        return trio.lowlevel.current_statistics().tasks_living

    assert trio.run(main) == trio.run(bare)
