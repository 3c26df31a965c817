"""Dynamic supervisors: cases 59 to 64."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio

from actors import Actor, Context, NoSuchActor
from supervision import Supervisor, Worker
from tests.otp.kit import (
    CRASH,
    Crashed,
    Stage,
    active,
    failure,
    info,
    otp,
    running,
    runs,
    settle,
    states,
)


async def test_simple_one_for_one(autojump_clock):
    """Only the crashed dynamic child gets a new run."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        for name in "ab":
            await pool.start_child("top", stage.worker(name))
        await stage.tell("top/a", CRASH)

        assert runs(pool) == {"a": 2, "b": 1}


async def grow_and_crash(stage: Stage, tree: Supervisor, *, refusing: bool = False) -> None:
    """Run a dynamic tree with children a and b, and let a crash until the tree fails."""
    async with running(tree) as pool:
        for name in "ab":
            await pool.start_child("top", stage.worker(name))
        if refusing:
            stage.refusing["a"] = Crashed("no")
        while True:
            await stage.tell("top/a", CRASH)


async def test_simple_one_for_one_budget(autojump_clock):
    """One crash more than its intensity ends a dynamic supervisor and all its children."""
    stage = Stage()
    with pytest.raises(Exception, match="more than 2 restarts in 100 s"):
        await grow_and_crash(stage, Supervisor("top", intensity=2, period=100))

    assert stage.take() == "+a +b -a +a -a +a -a -b"


async def test_simple_one_for_one_extra(autojump_clock):
    """What a child was made with is there again after its restart, and each child has its own."""

    def echo(word: str) -> type[Actor]:
        class Echo(Actor):
            async def handle(self, message: object) -> object:
                if message == CRASH:
                    raise RuntimeError(CRASH)
                return word, self.ctx.run

        return Echo

    async with running(Supervisor("top")) as pool:
        refs = [
            await pool.start_child("top", Worker(word, echo(word), restart=otp()))
            for word in ("one", "two")
        ]
        await refs[0].tell(CRASH)

        assert [await ref.ask("?") for ref in refs] == [("one", 2), ("two", 1)]


async def test_simple_one_for_one_escalation(autojump_clock):
    """A dynamic child that cannot start again uses the budget up, and the others are stopped."""
    stage = Stage()
    with pytest.raises(Exception, match="more than 4 restarts in 100 s"):
        await grow_and_crash(stage, Supervisor("top", intensity=4, period=100), refusing=True)

    assert stage.take() == "+a +b" + " -a +a" * 4 + " -a -b"


async def test_simple_one_for_one_shutdown(autojump_clock):
    """Dynamic children stop together: those that need 1, 1 and 5 s, with 2 s allowed, take 2 s in all."""

    def needs(seconds: float) -> object:
        async def run(ctx: Context) -> None:
            with ctx.busy():
                while not ctx.stopping:
                    await trio.sleep(0.1)
                await trio.sleep(seconds)

        return run

    async with running(Supervisor("top")) as pool:
        for n, seconds in enumerate((1, 1, 5)):
            spec = Worker(f"c{n}", needs(seconds), shutdown=2, restart=otp())
            await pool.start_child("top", spec)
        began = trio.current_time()
        report = await pool.shutdown()
        assert 1 <= trio.current_time() - began <= 2

    assert report.forced == ("top/c2/0",)
    assert {*report.orderly} == {"top/c0/0", "top/c1/0"}


class Argument:
    """Something that a child was made with."""


def holder(argument: Argument, stage: Stage, name: str) -> Worker:
    """A temporary child whose code holds `argument`."""
    spec = stage.worker(name, "temporary")

    async def run(ctx: Context) -> None:
        assert argument is not None
        await spec.run(ctx)

    return Worker(name, run, ready="signal", restart=otp("temporary"))


async def test_simple_one_for_one_corruption(autojump_clock):
    """What temporary children were made with is let go of, that of the first that crashed and that of later ones."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        left = []
        for n in range(3):
            argument = Argument()
            left.append(weakref.ref(argument))
            await pool.start_child("top", holder(argument, stage, f"c{n}"))
            del argument
            await stage.tell(f"top/c{n}", CRASH)
        gc.collect()

        assert [ref() for ref in left] == [None] * 3
        assert active(pool) == (0, 0)


async def test_dynamic_child_waits_for_its_restart(autojump_clock):
    """A dynamic child that waits for a restart is still there, and counts as one that is not active."""
    stage = Stage()
    async with running(Supervisor("top", max_children=1)) as pool:
        await pool.start_child("top", stage.worker("a", restart=otp(wait=10)))
        await stage.tell("top/a", CRASH)
        assert (active(pool), states(pool)) == ((1, 0), {"a": "restarting"})
        await trio.sleep(10)
        await settle()

        assert (active(pool), info(pool, "top/a").run) == ((1, 1), 2)
        await pool.stop("top/a")
        with pytest.raises(NoSuchActor):
            pool.info("top/a")


async def test_giving_up_carries_its_evidence(autojump_clock):
    """The error of a tree that gave up has the last failures as its cause, each noted with its path and run."""
    stage = Stage()
    stage.refusing["a"] = Crashed("no")
    error = await failure(Supervisor("top", [stage.worker("a")], intensity=2))

    assert [str(leaf) for leaf in error.failures] == ["no"] * 3
    assert isinstance(error.__cause__, ExceptionGroup)
    assert error.failures[0].__notes__ == [
        "top/a/0, run 1, restart 0",
        "top/a/0, run 2, restart 1",
        "top/a/0, run 3, restart 2",
    ]
