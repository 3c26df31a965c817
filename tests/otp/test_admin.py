"""Administration of children: cases 23 to 33."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, ActorRef, ActorStopped, NoSuchActor
from supervision import (
    AlreadyPresent,
    IllegalTransition,
    NotRunning,
    Supervisor,
    TooManyChildren,
    Worker,
)
from tests.otp.kit import (
    CRASH,
    FINISH,
    LEAVE,
    Stage,
    active,
    group,
    info,
    otp,
    running,
    settle,
    states,
)


async def test_extra_return(autojump_clock):
    """Adding a child gives its address, which is the same after an automatic restart and a start by hand."""

    class Echo(Actor):
        async def handle(self, message: object) -> object:
            if message == CRASH:
                raise RuntimeError(CRASH)
            return self.ctx.run, message

    async with running(group()) as pool:
        ref = await pool.start_child("top", Worker("a", Echo, restart=otp()))
        assert isinstance(ref, ActorRef)
        assert await ref.ask("hello") == (1, "hello")
        await ref.tell(CRASH)
        assert await ref.ask("again") == (2, "again")


async def test_child_adm_already_started(autojump_clock):
    """Adding a child under the name of a running one is refused, with the address of that one."""
    stage = Stage()
    async with running(group(stage.worker("a"))) as pool:
        with pytest.raises(AlreadyPresent) as caught:
            await pool.start_child("top", stage.worker("a"))

        assert (caught.value.path, caught.value.state) == ("top/a", "running")
        assert caught.value.child == pool.ref("top/a/0")
        assert info(pool, "a").run == 1


VERBS = ("start", "stop", "restart", "remove", "disable", "enable")


async def test_child_adm_not_found(autojump_clock):
    """Every verb says of an unknown child that there is none, and names the nearest one."""
    stage = Stage()
    async with running(group(stage.worker("alpha"))) as pool:
        for verb in VERBS:
            with pytest.raises(NoSuchActor, match="top/alpha"):
                await getattr(pool, verb)("top/alpa")
        with pytest.raises(NoSuchActor):
            await pool.scale("top/alpa", 2)
        with pytest.raises(NoSuchActor):
            pool.counts("top/alpa")


async def test_child_adm_dead_supervisor(autojump_clock):
    """Every verb on an ended tree, or on a child of a stopped supervisor, raises in the caller, but stop and looks."""
    stage = Stage()
    async with running(group(group(stage.worker("a"), name="sub"), stage.worker("b"))) as pool:
        await pool.stop("sub")
        for verb in VERBS:
            with pytest.raises(NotRunning) as caught:
                await getattr(pool, verb)("top/sub/a")
            assert caught.value.path == "top/sub"
        with pytest.raises(NotRunning):
            await pool.start_child("sub", stage.worker("c"))
        await pool.shutdown()

    for verb in VERBS:
        if verb != "stop":
            with pytest.raises(NotRunning):
                await getattr(pool, verb)("b")
    await pool.stop("b")
    with pytest.raises(NotRunning):
        await pool.start_child("top", stage.worker("c"))
    with pytest.raises(NotRunning):
        await pool.scale("b", 3)
    with pytest.raises(ActorStopped):
        pool.ref("b").tell_nowait("hello")
    assert active(pool) == (2, 0)
    assert states(pool) == {"a": "stopped", "b": "stopped"}


async def test_child_adm_terminate(autojump_clock):
    """Stopping ends the run and keeps the spec; stopping again is no error."""
    stage = Stage()
    async with running(group(stage.worker("a"))) as pool:
        await pool.stop("a")
        assert active(pool) == (1, 0)
        await pool.stop("a")

        assert (active(pool), stage.take()) == ((1, 0), "+a -a")
        await settle()
        assert states(pool) == {"a": "stopped"}


async def test_child_adm_already_present(autojump_clock):
    """Adding a child under the name of a stopped one is refused too, and the error says how to go on."""
    stage = Stage()
    async with running(group(stage.worker("a"))) as pool:
        await pool.stop("a")
        with pytest.raises(AlreadyPresent, match=r"pool\.remove") as caught:
            await pool.start_child("top", stage.worker("a"))

        assert caught.value.state == "stopped"


async def test_child_adm_restart(autojump_clock):
    """Starting works with a stopped child only: a running one and an unknown one are errors of their own."""
    stage = Stage()
    async with running(group(stage.worker("a"))) as pool:
        with pytest.raises(IllegalTransition) as caught:
            await pool.start("a")
        assert caught.value.state == "running"
        with pytest.raises(NoSuchActor):
            await pool.start("top/b")
        await pool.stop("a")
        await pool.start("a")

        assert info(pool, "a").run == 2


async def test_child_adm_delete(autojump_clock):
    """A running child cannot be removed; after a stop it can, and its name is free again."""
    stage = Stage()
    async with running(group(stage.worker("a"), stage.worker("b"))) as pool:
        with pytest.raises(IllegalTransition) as caught:
            await pool.remove("a")
        assert (caught.value.state, active(pool)) == ("running", (2, 2))
        await pool.stop("a")
        await pool.remove("a")
        assert active(pool) == (1, 1)
        await pool.start_child("top", stage.worker("a"))

        assert (active(pool), info(pool, "a").run) == ((2, 2), 1)


async def test_child_adm_simple_start_empty(autojump_clock):
    """A dynamic supervisor starts empty, without counting a template, and lists its children once they are added."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        assert (active(pool), pool.workers()) == ((0, 0), [])
        for name in "cab":
            await pool.start_child("top", stage.worker(name))

        assert {worker.name for worker in pool.workers()} == {"a", "b", "c"}
        assert active(pool) == (3, 3)


async def test_child_adm_simple_terminate(autojump_clock):
    """Stopping a dynamic child forgets it; one that has gone is unknown, and one of another supervisor is left alone."""
    stage = Stage()
    tree = group(Supervisor("left"), Supervisor("right"))
    async with running(tree) as pool:
        await pool.start_child("left", stage.worker("a"))
        await pool.start_child("right", stage.worker("b"))
        with pytest.raises(NoSuchActor):
            await pool.stop("top/left/b")
        await pool.stop("top/left/a")

        assert (active(pool, "left"), active(pool, "right")) == ((0, 0), (1, 1))
        with pytest.raises(NoSuchActor):
            await pool.stop("top/left/a")
        await pool.start_child("left", stage.worker("a"))
        assert info(pool, "top/left/a").run == 1


@pytest.mark.parametrize("order", [FINISH, LEAVE])
async def test_child_adm_simple_gone(order, autojump_clock):
    """A dynamic child that ended by itself is gone: its name is free, and it does not count for max_children."""
    stage = Stage()
    async with running(Supervisor("top", max_children=1)) as pool:
        await pool.start_child("top", stage.worker("a", "transient"))
        with pytest.raises(TooManyChildren):
            await pool.start_child("top", stage.worker("b"))
        await stage.tell("top/a", order)

        assert active(pool) == (0, 0)
        await pool.start_child("top", stage.worker("a"))


async def test_child_adm_simple_restart_delete(autojump_clock):
    """A running dynamic child can be neither started nor removed; a stopped one is not there to be."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        await pool.start_child("top", stage.worker("a"))
        for verb in (pool.start, pool.remove):
            with pytest.raises(IllegalTransition):
                await verb("top/a")
        await pool.stop("top/a")
        for verb in (pool.start, pool.remove):
            with pytest.raises(NoSuchActor):
                await verb("top/a")


async def test_child_adm_simple_disabled(autojump_clock):
    """A dynamic child that is disabled is kept, and can be enabled again."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        await pool.start_child("top", stage.worker("a"))
        await pool.disable("top/a")
        assert (active(pool), states(pool)) == ((1, 0), {"a": "disabled"})
        await pool.enable("top/a")

        assert states(pool) == {"a": "running"}


async def test_child_adm_caller_cancelled(autojump_clock):
    """A caller who is cancelled while it adds a child leaves nothing of it behind."""
    stage = Stage()
    stage.starting["a"] = 10
    async with running(group(stage.worker("b"))) as pool:
        with trio.move_on_after(1):
            await pool.start_child("top", stage.worker("a", replicas=2))
        await settle()

        assert states(pool) == {"b": "running"}
        assert active(pool) == (1, 1)
