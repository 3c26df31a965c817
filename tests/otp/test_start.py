"""Starting: cases 1 to 15 and 49."""

from __future__ import annotations

import math

import pytest
import trio

from actors import NoSuchActor
from supervision import (
    RestartPolicy,
    RestartType,
    SpecError,
    StartFailed,
    Supervisor,
    Worker,
    supervisor,
)
from tests.otp.kit import Crashed, Stage, active, group, info, otp, running, settle, states


async def idle(ctx):
    await trio.sleep_forever()


async def test_sup_start_normal(autojump_clock):
    """A supervisor without children starts, and stops when it is told to, as ordered."""
    async with running(Supervisor("top")) as pool:
        assert pool.health().ready
        report = await pool.shutdown("told to")

    assert pool.info("top").state == "stopped"
    assert (report.orderly, report.forced) == ((), ())


async def test_sup_start_ignore_init(autojump_clock):
    """A supervisor that is disabled starts nothing, leaves nothing running, and its parent goes on."""
    stage = Stage()
    tree = group(group(stage.worker("a"), name="off", enabled=False), stage.worker("b"), name="top")
    async with running(tree) as pool:
        assert stage.take() == "+b"
        assert pool.info("off").state == "disabled"
        assert active(pool, "off") == (1, 0)
        assert pool.health().ready


async def test_sup_start_ignore_child(autojump_clock):
    """A child that ends before it is ready was added all the same: its spec is kept, the next child is fine."""
    stage = Stage()
    stage.refusing["a"] = None
    async with running(group(name="top", strategy="one_for_all")) as pool:
        await pool.start_child("top", group(stage.worker("z"), name="sub"))
        await pool.start_child("sub", stage.worker("a", "transient"))
        await pool.start_child("sub", stage.worker("b", "transient"))

        assert active(pool, "sub") == (3, 2)
        assert states(pool) == {"z": "running", "a": "stopped", "b": "running"}


async def test_sup_start_ignore_temporary_child(autojump_clock):
    """A temporary child of the declaration that ends before it is ready stays listed, as stopped."""
    stage = Stage()
    stage.refusing["a"] = None
    async with running(group(stage.worker("a", "temporary"), stage.worker("b"))) as pool:
        assert active(pool) == (2, 1)
        assert states(pool) == {"a": "stopped", "b": "running"}


async def test_sup_start_ignore_temporary_child_start_child(autojump_clock):
    """A temporary child added later that ends before it is ready is not kept."""
    stage = Stage()
    stage.refusing["a"] = None
    async with running(group(stage.worker("z"))) as pool:
        assert await pool.start_child("top", stage.worker("a", "temporary")) is None
        await pool.start_child("top", stage.worker("b", "temporary"))

        assert active(pool) == (2, 2)
        assert states(pool) == {"z": "running", "b": "running"}


async def test_sup_start_ignore_temporary_child_start_child_simple(autojump_clock):
    """Nothing is stored of a temporary child of a dynamic supervisor that ends before it is ready."""
    stage = Stage()
    stage.refusing["a"] = None
    async with running(Supervisor("top")) as pool:
        assert await pool.start_child("top", stage.worker("a", "temporary")) is None

        assert active(pool) == (0, 0)


async def test_sup_start_ignore_permanent_child_start_child_simple(autojump_clock):
    """A permanent child that declines is kept as disabled, and the supervisor stops without error."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        await pool.start_child("top", stage.worker("a", enabled=False))

        assert active(pool) == (1, 0)
        assert states(pool) == {"a": "disabled"}
        await pool.shutdown()

    assert stage.take() == ""


@pytest.mark.parametrize("garbage", [None, "tree", Worker("a", idle), lambda: Supervisor("top")])
async def test_sup_start_error_return(garbage, autojump_clock):
    """What is no supervisor is refused with an error that names it, before anything starts."""
    with pytest.raises(SpecError) as caught:
        await supervisor.serve(garbage)

    assert repr(garbage) in str(caught.value)


async def test_sup_start_fail(autojump_clock):
    """A strict start that fails raises, with the error as its cause."""
    stage = Stage()
    stage.refusing["a"] = boom = Crashed("boom")
    with pytest.raises(StartFailed) as caught:
        await supervisor.serve(group(stage.worker("a"), start="strict"), log=False)

    assert (caught.value.path, caught.value.__cause__) == ("top/a/0", boom)


async def test_sup_start_restart_child_returns_error(autojump_clock):
    """The caller who starts a stopped child gets its error; the spec stays, and so does the supervisor."""
    stage = Stage()
    async with running(group(stage.worker("a"), stage.worker("b"))) as pool:
        await pool.stop("a")
        stage.refusing["a"] = boom = Crashed("boom")
        with pytest.raises(StartFailed) as caught:
            await pool.start("a")

        assert caught.value.__cause__ is boom
        assert active(pool) == (2, 1)
        del stage.refusing["a"]
        await pool.start("a")
        assert states(pool) == {"a": "running", "b": "running"}


def returns_garbage() -> object:
    return "no worker"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("error", [Crashed("boom"), "garbage"], ids=["error", "garbage"])
async def test_sup_start_child_returns_error(error, dynamic, autojump_clock):
    """The caller who adds a child whose start fails gets the reason, and nothing is kept of the child."""
    stage = Stage()
    spec = Worker("a", returns_garbage, restart=otp())
    if error != "garbage":
        stage.refusing["a"] = error
        spec = stage.worker("a")
    async with running(Supervisor("top") if dynamic else group(stage.worker("z"))) as pool:
        before = active(pool)
        with pytest.raises(StartFailed) as caught:
            await pool.start_child("top", spec)

        assert caught.value.__cause__ is error or "no worker" in str(caught.value.__cause__)
        assert active(pool) == before
        await settle()
        assert active(pool) == before


def test_sup_start_map():
    """Defaults can be read from the spec: transient, 15 s to stop, one replica."""
    worker = Worker("a", idle)

    assert (worker.restart.type, worker.shutdown, worker.replicas) == (RestartType.TRANSIENT, 15, 1)
    assert Supervisor("top", [worker]).children == (worker,)
    assert Supervisor("top").restart == RestartPolicy()


async def test_sup_start_map_simple(autojump_clock):
    """Each child of a dynamic supervisor is found by its path; a foreign path is not found."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        await pool.start_child("top", stage.worker("a"))

        assert info(pool, "top/a").run == 1
        for foreign in ("top/b", "other/a", "top/a/7", "b"):
            with pytest.raises(NoSuchActor):
                pool.info(foreign)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Worker(run=idle), "name"),
        (lambda: Worker("a"), "run"),
        (lambda: Supervisor("top", ["a"]), "a child is a Worker or a Supervisor"),
        (lambda: Worker("a", idle, nice=1), "there is no option 'nice'"),
    ],
    ids=["no name", "no run", "no spec", "unknown option"],
)
def test_sup_start_map_faulty_specs(make, words):
    """A spec without a name, without a run, or that is none, has its own error, and so has an unknown option."""
    with pytest.raises((TypeError, SpecError), match=words):
        make()


async def test_faulty_application_shutdown(autojump_clock):
    """A leaf that fails as the application starts surfaces with its path, its error and its stack, after a rollback."""
    stage = Stage()
    stage.refusing["c"] = boom = Crashed("boom")
    tree = group(
        stage.worker("a"), group(stage.worker("b"), stage.worker("c"), name="sub"), start="strict"
    )
    with pytest.raises(StartFailed) as caught:
        await supervisor.serve(tree, start="strict", log=False)

    assert caught.value.path == "top/sub/c/0"
    assert caught.value.__cause__ is boom
    assert boom.__traceback__ is not None
    assert stage.take() == "+a +b +c -c -b -a"


@pytest.mark.parametrize("linger", [0, 7.5, math.inf])
def test_sup_start_map_shutdown_is_kept(linger):
    """Whatever time to stop is declared can be read back."""
    assert Worker("a", idle, shutdown=linger).shutdown == linger
