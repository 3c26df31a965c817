"""Significant children and automatic shutdown: cases 95 to 106."""

from __future__ import annotations

import pytest

from supervision import Pool, Supervisor, Worker
from tests.otp.kit import (
    CRASH,
    FINISH,
    KILL,
    LEAVE,
    STRATEGIES,
    WATCHDOG,
    Stage,
    group,
    running,
    runs,
    settle,
    states,
)

ANY, ALL, NEVER = "any_significant", "all_significant", "never"
BY_HAND = "by hand"


def done(pool: Pool) -> bool:
    """True if the tree has ended by itself."""
    return pool.info("top").state == "stopped"


def child(stage: Stage, name: str, kind: str, *, significant: bool = True) -> Worker:
    """A worker that may be significant."""
    return stage.worker(name, kind, significant=significant, watchdog=WATCHDOG)


async def end(pool: Pool, stage: Stage, path: str, how: str) -> None:
    """End one run in one of the ways there are."""
    if how == BY_HAND:
        await pool.stop(path)
        await settle()
    else:
        await stage.tell(path, how)


@pytest.mark.parametrize("how", [BY_HAND, KILL, CRASH, FINISH])
@pytest.mark.parametrize("mode", [ANY, ALL, NEVER])
async def test_nonsignificant_temporary(mode, how, autojump_clock):
    """However a temporary child that is not significant ends, its supervisor goes on."""
    stage = Stage()
    children = [child(stage, "a", "temporary", significant=False), stage.worker("b")]
    async with running(group(*children, auto_shutdown=mode)) as pool:
        await end(pool, stage, "top/a", how)

        assert states(pool) == {"a": "stopped", "b": "running"}
        assert not done(pool)


@pytest.mark.parametrize("how", [BY_HAND, KILL, CRASH, FINISH])
@pytest.mark.parametrize("mode", [ANY, ALL, NEVER])
async def test_nonsignificant_transient(mode, how, autojump_clock):
    """However a transient child that is not significant ends, its supervisor goes on; failures restart it."""
    stage = Stage()
    children = [child(stage, "a", "transient", significant=False), stage.worker("b")]
    async with running(group(*children, auto_shutdown=mode)) as pool:
        await end(pool, stage, "top/a", how)

        assert states(pool)["a"] == ("running" if how in (KILL, CRASH) else "stopped")
        assert not done(pool)


async def test_significant_temporary_any_by_hand(autojump_clock):
    """A significant temporary child that is stopped by hand does not end its supervisor."""
    stage = Stage()
    children = [child(stage, "a", "temporary"), stage.worker("b")]
    async with running(group(*children, auto_shutdown=ANY)) as pool:
        await end(pool, stage, "top/a", BY_HAND)

        assert states(pool) == {"a": "stopped", "b": "running"}
        assert not done(pool)


async def one_ends(how: str) -> None:
    """Show that the end of one significant temporary child stops the others, in order, and the supervisor."""
    stage = Stage()
    children = [stage.worker("z"), child(stage, "a", "temporary"), stage.worker("b")]
    async with running(group(*children, auto_shutdown=ANY)) as pool:
        await end(pool, stage, "top/a", how)

        assert stage.take() == "+z +a +b -a -b -z"
        assert done(pool)


async def test_significant_temporary_any_kill(autojump_clock):
    """A significant temporary child that its watchdog had to cancel ends its supervisor."""
    await one_ends(KILL)


async def test_significant_temporary_any_abnormal(autojump_clock):
    """A significant temporary child that crashes ends its supervisor."""
    await one_ends(CRASH)


async def test_significant_temporary_any_normal(autojump_clock):
    """A significant temporary child that returns ends its supervisor."""
    await one_ends(FINISH)


@pytest.mark.parametrize("how", [KILL, CRASH, FINISH])
async def test_significant_temporary_all(how, autojump_clock):
    """Not the first but the last significant temporary child ends its supervisor, and the other sibling with it."""
    stage = Stage()
    children = [child(stage, "a", "temporary"), child(stage, "b", "temporary"), stage.worker("z")]
    async with running(group(*children, auto_shutdown=ALL)) as pool:
        await end(pool, stage, "top/a", FINISH)
        assert not done(pool)
        await end(pool, stage, "top/b", how)

        assert stage.take() == "+a +b +z -a -b -z"
        assert done(pool)


@pytest.mark.parametrize("how", [BY_HAND, KILL, CRASH, FINISH])
async def test_significant_transient_any(how, autojump_clock):
    """Of a significant transient child, only the normal end counts; failures restart it, a stop by hand does nothing."""
    stage = Stage()
    children = [child(stage, "a", "transient"), stage.worker("b")]
    async with running(group(*children, auto_shutdown=ANY)) as pool:
        await end(pool, stage, "top/a", how)

        assert done(pool) is (how == FINISH)
        assert (
            states(pool)
            == {
                BY_HAND: {"a": "stopped", "b": "running"},
                KILL: {"a": "running", "b": "running"},
                CRASH: {"a": "running", "b": "running"},
                FINISH: {"a": "stopped", "b": "stopped"},
            }[how]
        )


async def test_significant_transient_all(autojump_clock):
    """The last normal end of the significant transient children ends the supervisor; failures before do not count."""
    stage = Stage()
    children = [child(stage, "a", "transient"), child(stage, "b", "transient"), stage.worker("z")]
    async with running(group(*children, auto_shutdown=ALL)) as pool:
        await end(pool, stage, "top/a", CRASH)
        await end(pool, stage, "top/b", FINISH)
        assert (done(pool), runs(pool)) == (False, {"a": 2, "b": 1, "z": 1})
        await end(pool, stage, "top/a", FINISH)

        assert done(pool)


@pytest.mark.parametrize("mode", [ANY, ALL])
async def test_significant_simple(mode, autojump_clock):
    """A dynamic supervisor ends with its first, or its last, significant child."""
    stage = Stage()
    async with running(Supervisor("top", auto_shutdown=mode)) as pool:
        for name in "ab":
            await pool.start_child("top", child(stage, name, "temporary"))
        await pool.start_child("top", stage.worker("z"))
        await end(pool, stage, "top/a", CRASH)
        assert done(pool) is (mode == ANY)
        if mode == ALL:
            await end(pool, stage, "top/b", FINISH)

        assert done(pool)
        assert stage.take().startswith("+a +b +z -a")


@pytest.mark.parametrize("kind", ["transient", "temporary"])
@pytest.mark.parametrize("mode", [ANY, ALL])
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_significant_bystander(strategy, mode, kind, autojump_clock):
    """A significant child that is stopped because a sibling restarts does not end the supervisor while another lives."""
    stage = Stage()
    children = [child(stage, "z", "transient"), stage.worker("a"), child(stage, "b", kind)]
    async with running(group(*children, strategy=strategy, auto_shutdown=mode)) as pool:
        await end(pool, stage, "top/a", CRASH)

        swept = strategy != "one_for_one" and kind == "temporary"
        assert not done(pool)
        assert states(pool) == {
            "z": "running",
            "a": "running",
            "b": "stopped" if swept else "running",
        }


@pytest.mark.parametrize("significant", [True, False])
async def test_significant_escalation(significant, autojump_clock):
    """Significance goes up level by level; a supervisor in between that is not significant ends the way up."""
    stage = Stage()
    low = group(
        child(stage, "a", "transient"), name="low", auto_shutdown=ANY, significant=significant
    )
    middle = group(
        low,
        stage.worker("b"),
        name="middle",
        auto_shutdown=ANY if significant else NEVER,
        significant=True,
    )
    async with running(group(middle, stage.worker("c"), auto_shutdown=ANY)) as pool:
        await end(pool, stage, "top/middle/low/a", FINISH)

        assert pool.info("low").state == "stopped"
        assert done(pool) is significant
        assert stage.take() == ("+a +b +c -a -b -c" if significant else "+a +b +c -a")


@pytest.mark.parametrize("kind", ["transient", "temporary"])
async def test_significant_shutdown(kind, autojump_clock):
    """A significant child that asks for its own end has ended by itself, and ends its supervisor."""
    stage = Stage()
    children = [child(stage, "a", kind), stage.worker("b")]
    async with running(group(*children, auto_shutdown=ANY)) as pool:
        await end(pool, stage, "top/a", LEAVE)

        assert states(pool) == {"a": "stopped", "b": "stopped"}
        assert done(pool)
