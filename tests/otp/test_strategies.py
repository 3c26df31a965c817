"""Strategies and budgets of supervisors with a list: cases 52 to 58 and 65 to 68."""

from __future__ import annotations

import trio

from supervision import Supervisor
from tests.otp.kit import (
    CRASH,
    FINISH,
    Crashed,
    Stage,
    failure,
    group,
    of,
    otp,
    running,
    runs,
    settle,
)


async def test_one_for_one(autojump_clock):
    """Only the crashed child gets a new run."""
    stage = Stage()
    async with running(group(stage.worker("a"), stage.worker("b"))) as pool:
        await stage.tell("top/a", CRASH)

        assert runs(pool) == {"a": 2, "b": 1}
        assert stage.take() == "+a +b -a +a"


async def crash(stage: Stage, *paths: str) -> None:
    """Make these runs crash, one after the other, each once all is quiet."""
    for path in paths:
        await settle()
        stage.order(path, CRASH)
    await settle()


async def test_one_for_one_budget(autojump_clock):
    """With an intensity of 2, the third crash ends the supervisor, which stops the others."""
    stage = Stage()
    tree = group(stage.worker("a"), stage.worker("b"), intensity=2, period=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash, stage, "top/a", "top/b", "top/a")
        error = await failure(tree)

    assert stage.take() == "+a +b -a +a -b +b -a -b"
    assert "more than 2 restarts in 100 s" in error.why
    assert [type(leaf) for leaf in error.failures] == [Crashed, Crashed]


async def test_one_for_one_escalation(autojump_clock):
    """A child that never starts again is tried until the budget is spent; then the healthy sibling is stopped."""
    stage, events = Stage(), []
    tree = group(stage.worker("a"), stage.worker("b"), intensity=4, period=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse_and_crash, stage, "a", "top/a")
        error = await failure(tree, listeners=[events.append])

    assert stage.take() == "+a +b" + " -a +a" * 4 + " -a -b"
    assert len(of(events, "RestartScheduled")) == 4
    assert [str(leaf) for leaf in error.failures] == ["top/a/0", *["no"] * 4]


async def test_one_for_all(autojump_clock):
    """All are stopped in reverse order, then all have a new run, in order."""
    stage = Stage()
    children = [stage.worker(name) for name in "abc"]
    async with running(group(*children, strategy="one_for_all")) as pool:
        await stage.tell("top/b", CRASH)

        assert runs(pool) == {"a": 2, "b": 2, "c": 2}
        assert stage.take() == "+a +b +c -b -c -a +a +b +c"


async def test_one_for_all_budget(autojump_clock):
    """The restart of a group costs one, however many children it has."""
    stage = Stage()
    children = [stage.worker(name) for name in "abc"]
    tree = group(*children, strategy="one_for_all", intensity=1, period=100)
    async with running(tree) as pool:
        await stage.tell("top/b", CRASH)
        assert (pool.info("top").budget_used, runs(pool)) == (1, {"a": 2, "b": 2, "c": 2})
    stage.take()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash, stage, "top/b", "top/c")
        error = await failure(tree)
    assert "more than 1 restarts" in error.why
    assert stage.take() == "+a +b +c -b -c -a +a +b +c -c -b -a"


async def test_one_for_all_escalation(autojump_clock):
    """A sibling that cannot start again uses the budget up."""
    stage = Stage()
    tree = group(
        stage.worker("a"), stage.worker("b"), strategy="one_for_all", intensity=4, period=100
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse_and_crash, stage, "b", "top/a")
        error = await failure(tree)

    assert stage.take() == "+a +b -a -b" + " +a +b -b -a" * 4
    assert {str(leaf) for leaf in error.failures} == {"no"}


async def refuse_and_crash(stage: Stage, name: str, path: str) -> None:
    """Once all run: let the starts of one worker fail from then on, and crash another."""
    await settle()
    stage.refusing[name] = Crashed("no")
    stage.order(path, CRASH)


async def test_one_for_all_other_child_fails_restart(autojump_clock):
    """If the second cannot start in a restart of the group, the fresh first one is stopped and all are tried again."""
    stage = Stage()
    tree = group(
        *[stage.worker(name, restart=otp(wait=1)) for name in "abc"], strategy="one_for_all"
    )
    async with running(tree) as pool:
        stage.refusing["b"] = Crashed("no")
        await stage.tell("top/c", CRASH)
        stage.take()
        await trio.sleep(1)
        await settle()
        assert stage.take() == "+a +b -b -a"
        del stage.refusing["b"]
        await trio.sleep(1)
        await settle()

        assert stage.take() == "+a +b +c"
        assert runs(pool) == {"a": 3, "b": 3, "c": 2}


async def test_rest_for_one(autojump_clock):
    """Those before the crashed child are left alone, those after it are stopped and get a new run."""
    stage = Stage()
    children = [stage.worker(name) for name in "abcd"]
    async with running(group(*children, strategy="rest_for_one")) as pool:
        await stage.tell("top/b", CRASH)

        assert runs(pool) == {"a": 1, "b": 2, "c": 2, "d": 2}
        assert stage.take() == "+a +b +c +d -b -d -c +b +c +d"


async def test_rest_for_one_budget(autojump_clock):
    """Crashes of different children are paid from one budget."""
    stage = Stage()
    tree = group(
        *[stage.worker(name) for name in "abc"], strategy="rest_for_one", intensity=2, period=100
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash, stage, "top/b", "top/c", "top/a")
        error = await failure(tree)

    assert stage.take() == "+a +b +c -b -c +b +c -c +c -a -c -b"
    assert "more than 2 restarts" in error.why


async def test_rest_for_one_escalation(autojump_clock):
    """A later child that cannot start again uses the budget up."""
    stage = Stage()
    tree = group(
        stage.worker("a"), stage.worker("b"), strategy="rest_for_one", intensity=4, period=100
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse_and_crash, stage, "b", "top/a")
        await failure(tree)

    assert stage.take() == "+a +b -a -b +a +b -b" + " +b -b" * 3 + " -a"


async def test_rest_for_one_other_child_fails_restart(autojump_clock):
    """If the second cannot start in a restart of the rest, the fresh first one goes on and the second is tried again."""
    stage = Stage()
    tree = group(
        *[stage.worker(name, restart=otp(wait=1)) for name in "abc"], strategy="rest_for_one"
    )
    async with running(tree) as pool:
        stage.refusing["b"] = Crashed("no")
        await stage.tell("top/a", CRASH)
        stage.take()
        await trio.sleep(1)
        await settle()
        assert stage.take() == "+a +b -b"
        del stage.refusing["b"]
        await trio.sleep(1)
        await settle()

        assert stage.take() == "+b +c"
        assert runs(pool) == {"a": 2, "b": 3, "c": 2}


async def test_ends_that_ask_for_no_restart_start_no_group(autojump_clock):
    """A temporary child's crash and a transient one's return leave the group alone."""
    stage = Stage()
    children = [stage.worker("a"), stage.worker("b", "temporary"), stage.worker("c", "transient")]
    tree = Supervisor("top", children, strategy="one_for_all", auto_shutdown="never", intensity=0)
    async with running(tree) as pool:
        await stage.tell("top/b", CRASH)
        await stage.tell("top/c", FINISH)

        assert stage.take() == "+a +b +c -b -c"
        assert runs(pool) == {"a": 1, "b": 1, "c": 1}


async def test_rest_for_one_replicas(autojump_clock):
    """The other replicas of the crashed child's worker are not after it: they are left alone."""
    stage = Stage()
    tree = group(stage.worker("a", replicas=2), stage.worker("b"), strategy="rest_for_one")
    async with running(tree) as pool:
        await stage.tell("top/a/0", CRASH)

        assert {worker.path: worker.run for worker in pool.workers()} == {
            "top/a/0": 2,
            "top/a/1": 1,
            "top/b/0": 2,
        }


async def test_rest_for_one_crash_of_a_later_child_while_the_group_waits(autojump_clock):
    """A later child that an operator starts early, and that crashes, takes nothing from the restart under way."""
    stage = Stage()
    children = [stage.worker(name, restart=otp(wait=2)) for name in "abc"]
    async with running(group(*children, strategy="rest_for_one")) as pool:
        await stage.tell("top/a", CRASH)
        await trio.sleep(1)
        await pool.restart("c")
        await stage.tell("top/c", CRASH)
        assert stage.take() == "+a +b +c -a -c -b +c -c"
        await trio.sleep(2)
        await settle()

        assert stage.take() == "+a +b +c"
