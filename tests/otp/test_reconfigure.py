"""What can be changed while the tree runs, in place of code changes: cases 87 and 108."""

from __future__ import annotations

import pytest

from actors import WouldWaitForItself
from supervision import SpecError, Worker
from tests.otp.kit import CRASH, Stage, active, group, running, runs, settle, states


async def test_code_change(autojump_clock):
    """A change that is refused leaves the old state; a new child may come without being started."""
    stage = Stage()
    async with running(group(stage.worker("a", replicas=2))) as pool:
        for faulty in (-1, 1.5, "two"):
            with pytest.raises(ValueError, match="replicas"):
                await pool.scale("a", faulty)
        with pytest.raises(SpecError):
            await pool.start_child("top", "no child")
        assert (active(pool), len(pool.workers())) == ((1, 2), 2)

        await pool.start_child("top", stage.worker("b", enabled=False))
        assert (active(pool), states(pool)["b"]) == ((2, 2), "disabled")
        await pool.enable("b")
        assert states(pool)["b"] == "running"


async def test_code_change_scale(autojump_clock):
    """The number of replicas can be changed, to none and back, and outlives a restart of the supervisor."""
    stage = Stage()
    sub = group(stage.worker("a"), stage.worker("b"), name="sub", strategy="one_for_all")
    async with running(group(sub)) as pool:
        await pool.scale("a", 3)
        assert active(pool, "sub") == (2, 4)
        await pool.scale("a", 0)
        assert active(pool, "sub") == (2, 1)
        await pool.scale("a", 2)
        assert active(pool, "sub") == (2, 3)
        await pool.restart("sub")
        await settle()

        assert active(pool, "sub") == (2, 3)


async def test_code_change_from_inside(autojump_clock):
    """A replica that would scale itself away is refused, and nothing has changed."""
    errors = []

    async def run(ctx):
        try:
            await pools[0].scale("a", 0)
        except WouldWaitForItself as error:
            errors.append(error)
        await ctx.sleep(1000)

    pools = []
    async with running(group(Worker("a", run, enabled=False))) as pool:
        pools.append(pool)
        await pool.enable("a")
        await settle()

        assert [error.verb for error in errors] == ["scale"]
        assert (active(pool), len(pool.workers())) == ((1, 1), 1)


async def test_code_change_disable(autojump_clock):
    """A child that is disabled stays down when its group restarts, until it is enabled."""
    stage = Stage()
    tree = group(stage.worker("a"), stage.worker("b"), strategy="one_for_all")
    async with running(tree) as pool:
        await pool.disable("b")
        await stage.tell("top/a", CRASH)
        assert (states(pool), runs(pool)) == ({"a": "running", "b": "disabled"}, {"a": 2, "b": 1})
        await pool.enable("b")

        assert states(pool) == {"a": "running", "b": "running"}


async def test_significant_upgrade_child(autojump_clock):
    """A significant child cannot be added where significance has no effect, and nothing of it is kept."""
    stage = Stage()
    async with running(group(stage.worker("a"), auto_shutdown="never")) as pool:
        with pytest.raises(SpecError, match="significant"):
            await pool.start_child("top", stage.worker("b", "transient", significant=True))

        assert active(pool) == (1, 1)
