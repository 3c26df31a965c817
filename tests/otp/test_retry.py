"""The retry loop, while a child's restart keeps failing: cases 83 to 86."""

from __future__ import annotations

import pytest
import trio

from actors import NoSuchActor
from supervision import AlreadyPresent, IllegalTransition, Supervisor
from tests.otp.kit import (
    CRASH,
    STRATEGIES,
    Crashed,
    Stage,
    active,
    group,
    info,
    otp,
    running,
    settle,
    states,
)


def children(stage: Stage) -> list:
    """Three workers that wait a second before each retry."""
    return [stage.worker(name, restart=otp(wait=1)) for name in "abc"]


async def hang(stage: Stage, path: str) -> None:
    """Bring the child at `path` into a loop of failing restarts."""
    stage.refusing[path.rpartition("/")[2]] = Crashed("no")
    await stage.tell(path, CRASH)
    await trio.sleep(5.5)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_hanging_restart_loop(strategy, autojump_clock):
    """In a retry loop a child cannot be added, started or removed; stopping it ends the loop, and a start works later."""
    stage = Stage()
    async with running(group(*children(stage)[:1], strategy=strategy)) as pool:
        await hang(stage, "top/a")
        with pytest.raises(AlreadyPresent) as caught:
            await pool.start_child("top", stage.worker("a"))
        assert caught.value.state == "restarting"
        for verb in (pool.start, pool.remove):
            with pytest.raises(IllegalTransition) as refused:
                await verb("a")
            assert refused.value.state == "restarting"
        assert (states(pool), active(pool)) == ({"a": "restarting"}, (1, 0))
        assert info(pool, "a").next_restart == pytest.approx(6)

        await pool.stop("a")
        tries = info(pool, "a").run
        await trio.sleep(60)
        assert (states(pool), info(pool, "a").run) == ({"a": "stopped"}, tries)
        del stage.refusing["a"]
        await pool.start("a")
        assert active(pool) == (1, 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_hanging_restart_loop_stop_supervisor(strategy, autojump_clock):
    """A supervisor can be stopped during such a loop, at once."""
    stage = Stage()
    async with running(group(*children(stage), strategy=strategy)) as pool:
        await hang(stage, "top/b")
        now = trio.current_time()
        await pool.shutdown()
        assert trio.current_time() == now

    assert {*states(pool).values()} == {"stopped"}


async def test_hanging_restart_loop_stop_nested_supervisor(autojump_clock):
    """A nested supervisor in such a loop can be stopped and started by hand."""
    stage = Stage()
    sub = group(*children(stage), name="sub", strategy="one_for_all")
    async with running(group(sub)) as pool:
        await hang(stage, "top/sub/b")
        await pool.stop("sub")
        await trio.sleep(60)
        assert {*states(pool).values()} == {"stopped"}
        del stage.refusing["b"]
        await pool.start("sub")

        assert {*states(pool).values()} == {"running"}


async def test_hanging_restart_loop_rest_for_one(autojump_clock):
    """Later children stay down while one retries, earlier ones keep their run; without it, the later ones come back."""
    stage = Stage()
    async with running(group(*children(stage), strategy="rest_for_one")) as pool:
        await hang(stage, "top/b")
        assert states(pool) == {"a": "running", "b": "restarting", "c": "restarting"}
        assert (info(pool, "a").run, info(pool, "c").run, active(pool)) == (1, 1, (3, 1))
        await pool.stop("b")
        await trio.sleep(1)
        await settle()

        assert states(pool) == {"a": "running", "b": "stopped", "c": "running"}
        assert (info(pool, "a").run, info(pool, "c").run) == (1, 2)
        del stage.refusing["b"]
        await pool.start("b")
        assert active(pool) == (3, 3)


async def test_hanging_restart_loop_simple(autojump_clock):
    """A dynamic child in such a loop can be stopped, which forgets it; its sibling is left alone."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        for spec in children(stage)[:2]:
            await pool.start_child("top", spec)
        await hang(stage, "top/a")
        assert (active(pool), states(pool)["a"]) == ((2, 1), "restarting")
        with pytest.raises(AlreadyPresent):
            await pool.start_child("top", stage.worker("a"))
        for verb in (pool.start, pool.remove):
            with pytest.raises(IllegalTransition):
                await verb("top/a")
        await pool.stop("top/a")
        await trio.sleep(60)

        assert (active(pool), states(pool)) == ((1, 1), {"b": "running"})
        with pytest.raises(NoSuchActor):
            pool.info("top/a")


async def test_hanging_restart_loop_by_hand(autojump_clock):
    """A restart by hand in the middle of such a loop starts at once, and the loop is over if that works."""
    stage = Stage()
    async with running(group(*children(stage))) as pool:
        await hang(stage, "top/a")
        del stage.refusing["a"]
        now = trio.current_time()
        await pool.restart("a")
        run = info(pool, "a").run
        assert (trio.current_time(), states(pool)["a"]) == (now, "running")
        await trio.sleep(60)

        assert info(pool, "a").run == run
