"""Trees, counts, names and what is kept of temporary children: cases 70 to 82."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio

from actors import Actor, ActorStopped, Context, NoSuchActor
from supervision import AlreadyPresent, Supervisor, Worker
from tests.otp.kit import (
    CRASH,
    FINISH,
    KILL,
    LEAVE,
    STRATEGIES,
    WATCHDOG,
    Crashed,
    Stage,
    active,
    group,
    info,
    otp,
    running,
    runs,
    settle,
    states,
)


def two_levels(stage: Stage) -> Supervisor:
    """A one-for-all root over two supervisors, each with two workers, and a worker of its own."""
    left = group(stage.worker("a"), stage.worker("b"), name="left", intensity=1, restart=otp())
    right = group(stage.worker("c"), stage.worker("d"), name="right", intensity=1, restart=otp())
    return group(left, right, stage.worker("e"), strategy="one_for_all", intensity=3, period=100)


async def test_tree(autojump_clock):
    """Supervisors and workers are counted level by level; a stopped supervisor counts as spec, not as active."""
    stage = Stage()
    async with running(two_levels(stage)) as pool:
        counts = pool.counts()
        assert (counts.specs, counts.active, counts.supervisors, counts.workers) == (3, 3, 2, 1)
        assert active(pool, "left") == (2, 2)
        await pool.stop("left")
        counts = pool.counts()

        assert (counts.specs, counts.active, counts.supervisors, counts.workers) == (3, 2, 2, 1)
        assert active(pool, "left") == (2, 0)


async def test_tree_leaf(autojump_clock):
    """A leaf's crash changes that leaf alone."""
    stage = Stage()
    async with running(two_levels(stage)) as pool:
        await stage.tell("top/left/a", CRASH)

        assert runs(pool) == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1}


async def test_tree_escalation(autojump_clock):
    """A leaf that cannot start again uses its supervisor's budget up; the one-for-all root restarts all below it."""
    stage = Stage()
    async with running(two_levels(stage)) as pool:
        stage.refusing["a"] = Crashed("no")

        def give_in() -> None:
            del stage.refusing["a"]

        stage.take()
        stage.order("top/left/a", CRASH)
        while "-e" not in stage.log:
            await trio.lowlevel.checkpoint()
        give_in()
        await settle()

        assert stage.take() == "-a +a -a -b -e -d -c +a +b +c +d +e"
        assert {info.run for info in pool.supervisors()} == {1, 2}
        assert pool.info("top").budget_used == 1


async def test_tree_added_children(autojump_clock):
    """Children added at run time are gone after a restart of their supervisor, and their refs say so."""
    stage = Stage()
    async with running(two_levels(stage)) as pool:
        ref = await pool.start_child("left", stage.worker("x"))
        assert active(pool, "left") == (3, 3)
        await stage.tell("top/left/x", CRASH)
        await stage.tell("top/left/x", CRASH)

        assert active(pool, "left") == (2, 2)
        assert pool.info("left").run == 2
        with pytest.raises(ActorStopped):
            ref.tell_nowait("hello")
        for name in ("x", "top/left/x"):
            with pytest.raises(NoSuchActor):
                pool.ref(name)


async def test_tree_stopped_sibling(autojump_clock):
    """A sibling that was stopped by hand stays down when the group restarts."""
    stage = Stage()
    async with running(two_levels(stage)) as pool:
        await pool.stop("left")
        assert active(pool) == (3, 2)
        await stage.tell("top/e", CRASH)

        assert active(pool) == (3, 2)
        assert states(pool)["a"] == "stopped"
        assert runs(pool) == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2}


@pytest.mark.parametrize("children", [10, 200])
async def test_count_children(children, autojump_clock):
    """Dynamic workers are counted as they come, and none is left when all have ended."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        for n in range(children):
            await pool.start_child("top", stage.worker(f"c{n}", "temporary"))
        counts = pool.counts()
        assert (counts.specs, counts.active, counts.workers) == (children, children, children)
        for n in range(children):
            stage.order(f"top/c{n}", CRASH)
        await settle()

        assert active(pool) == (0, 0)


async def test_count_children_supervisor(autojump_clock):
    """Dynamic supervisors are counted as supervisors."""
    async with running(Supervisor("top")) as pool:
        for n in range(50):
            await pool.start_child("top", Supervisor(f"s{n}"))
        counts = pool.counts()
        assert (counts.specs, counts.active, counts.supervisors, counts.workers) == (50, 50, 50, 0)
        for n in range(50):
            await pool.stop(f"s{n}")

        assert active(pool) == (0, 0)


async def test_count_restarting_children(autojump_clock):
    """A child that waits for a retry counts as worker and not as active, and can be stopped in that state."""
    stage = Stage()
    children = [stage.worker(name, restart=otp(wait=5)) for name in "ab"]
    async with running(group(*children)) as pool:
        stage.refusing["a"] = Crashed("no")
        await stage.tell("top/a", CRASH)
        await trio.sleep(11)
        counts = pool.counts()
        assert (counts.specs, counts.active, counts.workers) == (2, 1, 2)
        assert states(pool)["a"] == "restarting"
        await pool.stop("a")
        await trio.sleep(60)

        assert states(pool) == {"a": "stopped", "b": "running"}


class Argument:
    """Something that a child's code holds."""


def holding(argument: Argument, spec: Worker) -> Worker:
    """A worker like `spec` whose code holds `argument`."""

    async def run(ctx: Context) -> None:
        assert argument is not None
        await spec.run(ctx)

    return Worker(spec.name, run, ready="signal", restart=spec.restart)


@pytest.mark.parametrize("strategy", [*STRATEGIES, "dynamic"])
async def test_do_not_save_start_parameters_for_temporary_children(strategy, autojump_clock):
    """What an ended temporary child was made with is let go of; that of a permanent one is kept for its next run."""
    stage = Stage()
    tree = (
        Supervisor("top")
        if strategy == "dynamic"
        else group(stage.worker("z"), strategy=strategy, intensity=5)
    )
    async with running(tree) as pool:
        kept = {}
        for kind in ("permanent", "transient", "temporary"):
            argument = Argument()
            kept[kind] = weakref.ref(argument)
            await pool.start_child("top", holding(argument, stage.worker(kind, kind)))
            del argument
        for kind in ("temporary", "transient", "permanent"):
            await stage.tell(f"top/{kind}", CRASH)
        gc.collect()

        assert {kind: ref() is not None for kind, ref in kept.items()} == {
            "permanent": True,
            "transient": True,
            "temporary": False,
        }


@pytest.mark.parametrize("order", [KILL, FINISH, CRASH, LEAVE, "by hand"])
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_do_not_save_child_specs_for_temporary_children(strategy, order, autojump_clock):
    """However it ends, a temporary child can be added again; a permanent or transient one is present already."""
    stage = Stage()
    specs = [
        stage.worker(kind, kind, watchdog=WATCHDOG)
        for kind in ("permanent", "transient", "temporary")
    ]
    async with running(group(stage.worker("z"), strategy=strategy, intensity=9)) as pool:
        for spec in specs:
            await pool.start_child("top", spec)
        for spec in reversed(specs):
            if order == "by hand":
                await pool.stop(f"top/{spec.name}")
            else:
                await stage.tell(f"top/{spec.name}", order)
        for spec in specs[:2]:
            with pytest.raises(AlreadyPresent):
                await pool.start_child("top", spec)
        await pool.start_child("top", specs[2])

        assert info(pool, "top/temporary").run == 1


class Named(Actor):
    """An actor with a name of its own, which tells its run."""

    async def started(self, ctx: Context) -> None:
        ctx.register("boss")

    async def handle(self, message: object) -> object:
        if message == CRASH:
            raise Crashed(CRASH)
        if message == LEAVE:
            self.ctx.stop()
        return self.ctx.run


@pytest.mark.parametrize("how", ["supervisor fails", "worker fails", "restart", "stop and start"])
async def test_simple_global_supervisor(how, autojump_clock):
    """Whatever restarts the owner of a name, the name leads to its new run."""
    stage = Stage()
    sub = group(
        Worker("named", Named, restart=otp()),
        stage.worker("other", restart=otp(limit=1)),
        name="sub",
        restart=otp(),
    )
    async with running(group(sub)) as pool:
        assert await pool.ref("boss").ask("run?") == 1
        match how:
            case "supervisor fails":
                await stage.tell("top/sub/other", CRASH)
                await stage.tell("top/sub/other", CRASH)
            case "worker fails":
                await pool.ref("boss").tell(CRASH)
            case "restart":
                await pool.restart("named")
            case "stop and start":
                await pool.stop("sub")
                with pytest.raises(NoSuchActor):
                    pool.ref("boss")
                await pool.start("sub")
        await settle()

        assert await pool.ref("boss").ask("run?") == 2
        assert pool.registry.statistics().names == 1
