"""Restart types: cases 40 to 48, 50 and 51."""

from __future__ import annotations

import pytest
import trio

from actors import NoSuchActor
from supervision import Supervisor
from tests.otp.kit import (
    CRASH,
    FINISH,
    KILL,
    LEAVE,
    WATCHDOG,
    Stage,
    active,
    group,
    info,
    running,
    states,
)


@pytest.fixture
def stage():
    """A stage of its own for each test."""
    return Stage()


async def test_permanent_normal(stage, autojump_clock):
    """A permanent child that returns is restarted."""
    async with running(group(stage.worker("a"))) as pool:
        await stage.tell("top/a", FINISH)

        assert (info(pool, "a").run, active(pool)) == (2, (1, 1))


async def test_permanent_shutdown(stage, autojump_clock):
    """A permanent child that asks for its own end stays stopped: this is no end that nobody asked for."""
    async with running(group(stage.worker("a"))) as pool:
        await stage.tell("top/a", LEAVE)
        assert (states(pool), active(pool)) == ({"a": "stopped"}, (1, 0))
        await pool.start("a")

        assert info(pool, "a").run == 2


@pytest.mark.parametrize("order", [CRASH, KILL])
async def test_permanent_abnormal(order, stage, autojump_clock):
    """A permanent child that fails is restarted."""
    async with running(group(stage.worker("a", watchdog=WATCHDOG))) as pool:
        await stage.tell("top/a", order)

        assert (info(pool, "a").run, active(pool)) == (2, (1, 1))


async def test_transient_normal(stage, autojump_clock):
    """A transient child that returns is not restarted; its spec is kept without a run."""
    async with running(group(stage.worker("a", "transient"))) as pool:
        await stage.tell("top/a", FINISH)

        assert (info(pool, "a").run, active(pool)) == (1, (1, 0))


async def test_transient_shutdown(stage, autojump_clock):
    """A transient child that asks for its own end is not restarted, and can be started by hand."""
    async with running(group(stage.worker("a", "transient"))) as pool:
        await stage.tell("top/a", LEAVE)
        assert (states(pool), active(pool)) == ({"a": "stopped"}, (1, 0))
        await pool.start("a")

        assert (info(pool, "a").run, active(pool)) == (2, (1, 1))


@pytest.mark.parametrize("order", [CRASH, KILL])
async def test_transient_abnormal(order, stage, autojump_clock):
    """A transient child that fails is restarted."""
    async with running(group(stage.worker("a", "transient", watchdog=WATCHDOG))) as pool:
        await stage.tell("top/a", order)

        assert (info(pool, "a").run, active(pool)) == (2, (1, 1))


async def gone(stage: Stage, order: str) -> None:
    """Show that a temporary child added at run time is not restarted, is forgotten, and can be added again."""
    spec = stage.worker("a", "temporary", watchdog=WATCHDOG)
    async with running(group(stage.worker("z"))) as pool:
        await pool.start_child("top", spec)
        await stage.tell("top/a", order)
        assert active(pool) == (1, 1)
        with pytest.raises(NoSuchActor):
            pool.info("top/a")
        await pool.start_child("top", spec)

        assert (info(pool, "top/a").run, active(pool)) == (1, (2, 2))


async def test_temporary_normal(stage, autojump_clock):
    """A temporary child that returns is gone."""
    await gone(stage, FINISH)


async def test_temporary_shutdown(stage, autojump_clock):
    """A temporary child that asks for its own end is gone."""
    await gone(stage, LEAVE)


@pytest.mark.parametrize("order", [CRASH, KILL])
async def test_temporary_abnormal(order, stage, autojump_clock):
    """A temporary child that fails is gone, and its failure is nobody else's affair."""
    await gone(stage, order)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "added"])
async def test_temporary_bystander(listed, strategy, stage, autojump_clock):
    """A temporary child that a sibling's restart stopped is not started again; forgotten if it was added at run time."""
    temporary = stage.worker("b", "temporary")
    tree = group(
        stage.worker("a"), *([temporary] if listed else []), strategy=strategy, intensity=3
    )
    async with running(tree) as pool:
        if not listed:
            await pool.start_child("top", temporary)
        await stage.tell("top/a", CRASH)

        assert stage.take() == "+a +b -a -b +a"
        assert states(pool) == ({"a": "running", "b": "stopped"} if listed else {"a": "running"})
        await stage.tell("top/a", CRASH)
        assert stage.take() == "-a +a"


async def test_multiple_restarts(stage, autojump_clock):
    """Crashes that are further apart than the period never use the budget up."""
    async with running(group(stage.worker("a"), intensity=1, period=1)) as pool:
        for run in range(2, 12):
            await stage.tell("top/a", CRASH)
            assert info(pool, "a").run == run
            await trio.sleep(2.1)


async def test_temporary_dynamic_is_forgotten_too(stage, autojump_clock):
    """What holds for a static supervisor holds for a dynamic one: a temporary child that ended leaves nothing."""
    async with running(Supervisor("top")) as pool:
        for order in (FINISH, LEAVE, CRASH):
            await pool.start_child("top", stage.worker("a", "temporary"))
            await stage.tell("top/a", order)
            assert active(pool) == (0, 0)
