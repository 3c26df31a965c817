"""Cases that OTP's suite lacks and that matter: E1, E4, E5, E7, E14, E17 and E22."""

from __future__ import annotations

import pytest
import trio

from actors import NoSuchActor
from supervision import RestartPolicy, Supervisor
from tests.otp.kit import (
    CRASH,
    FINISH,
    Crashed,
    Stage,
    active,
    failure,
    group,
    info,
    of,
    otp,
    running,
    runs,
    settle,
    states,
)


async def test_e1_restart_that_ends_before_it_is_ready(autojump_clock):
    """A dynamic child that declines to run at its restart vanishes, and the supervisor stops cleanly."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        await pool.start_child("top", stage.worker("a", "transient"))
        await pool.start_child("top", stage.worker("b"))
        stage.refusing["a"] = None
        await stage.tell("top/a", CRASH)

        assert stage.take() == "+a +b -a +a -a"
        assert active(pool) == (1, 1)
        with pytest.raises(NoSuchActor):
            pool.info("top/a")
        report = await pool.shutdown()
        assert report.orderly == ("top/b/0",)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("how", ["finished", "stopped"])
async def test_e4_siblings_that_are_down_stay_down(how, strategy, autojump_clock):
    """A restart of the group starts neither a sibling that had finished nor one that was stopped by hand."""
    stage = Stage()
    children = [stage.worker("a"), stage.worker("b", "transient"), stage.worker("c")]
    async with running(group(*children, strategy=strategy)) as pool:
        if how == "finished":
            await stage.tell("top/b", FINISH)
        else:
            await pool.stop("b")
        await stage.tell("top/a", CRASH)

        assert runs(pool) == {"a": 2, "b": 1, "c": 2}
        assert states(pool) == {"a": "running", "b": "stopped", "c": "running"}
        await pool.start("b")
        await stage.tell("top/a", CRASH)
        assert runs(pool) == {"a": 3, "b": 3, "c": 3}


@pytest.mark.parametrize("first", ["top/a", "top/b"])
async def test_e5_simultaneous_crashes(first, autojump_clock):
    """Two children that crash in the same moment cost one restart under one_for_all, and two under one_for_one."""
    second = {"top/a": "top/b", "top/b": "top/a"}[first]
    stage = Stage()
    children = [stage.worker("a"), stage.worker("b"), stage.worker("c")]
    async with running(group(*children, strategy="one_for_all", intensity=1, period=100)) as pool:
        stage.order(first, CRASH)
        stage.order(second, CRASH)
        await settle()
        assert runs(pool) == {"a": 2, "b": 2, "c": 2}
        assert pool.info("top").budget_used == 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash_both, stage, first, second)
        error = await failure(group(*children, intensity=1, period=100))
    assert "more than 1 restarts in 100 s" in error.why


async def crash_both(stage: Stage, *paths: str) -> None:
    """Once all run, crash these in the same moment."""
    await settle()
    for path in paths:
        stage.order(path, CRASH)


async def test_e5_rest_for_one_from_the_first(autojump_clock):
    """Of simultaneous crashes under rest_for_one, the first in the list decides who is restarted, whoever comes first."""
    stage = Stage()
    children = [stage.worker(name, restart=otp(wait=1)) for name in "abcd"]
    async with running(group(*children, strategy="rest_for_one", intensity=2)) as pool:
        await crash_both(stage, "top/c", "top/b")
        await trio.sleep(1)
        await settle()

        assert runs(pool) == {"a": 1, "b": 2, "c": 2, "d": 2}


@pytest.mark.parametrize(("gap", "survives"), [(1.0, False), (1.01, True), (1.9, True)])
@pytest.mark.parametrize("phase", [0.0, 0.05, 0.95])
async def test_e7_window_edge(phase, gap, survives, autojump_clock):
    """The window is the period to the fraction of a second, wherever in a second it begins; its edge counts."""
    stage = Stage()
    tree = group(stage.worker("a"), intensity=1, period=1)

    async def crashes() -> None:
        await trio.sleep(phase)
        await settle()
        await stage.tell("top/a", CRASH)
        await trio.sleep(gap)
        await stage.tell("top/a", CRASH)

    if survives:
        async with running(tree) as pool:
            await crashes()
            assert info(pool, "a").run == 3
    else:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crashes)
            error = await failure(tree)
        assert "more than 1 restarts in 1 s" in error.why


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "added"])
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_e14_last_significant_child_swept_away(strategy, listed, autojump_clock):
    """When a sibling's restart removes the last significant child, all_significant ends the supervisor."""
    stage = Stage()
    significant = stage.worker("b", "temporary", significant=True)
    tree = group(
        stage.worker("a"),
        *([significant] if listed else []),
        strategy=strategy,
        auto_shutdown="all_significant",
    )
    async with running(tree) as pool:
        if not listed:
            await pool.start_child("top", significant)
        await stage.tell("top/a", CRASH)

        assert pool.info("top").state == "stopped"
        assert states(pool)["a"] == "stopped"


async def test_e17_transient_supervisor_over_budget(autojump_clock):
    """A transient child supervisor that used its budget up has failed: it is restarted, and its evidence kept."""
    stage, events = Stage(), []
    sub = group(
        stage.worker("a"),
        name="sub",
        intensity=1,
        restart=RestartPolicy(initial_backoff=2, jitter=0),
    )
    async with running(group(sub, stage.worker("z")), listeners=[events.append]) as pool:
        await stage.tell("top/sub/a", CRASH)
        await stage.tell("top/sub/a", CRASH)
        sub_info = pool.info("sub")
        assert (sub_info.state, sub_info.next_restart) == ("restarting", 2)
        assert "more than 1 restarts" in str(sub_info.error)
        await trio.sleep(2)
        await settle()

        assert runs(pool) == {"a": 3, "z": 1}
        assert of(events, "GaveUp") == ["GaveUp top/sub"]
        (gave_up,) = [event for event in events if event.kind == "GaveUp"]
        assert [type(error) for error in gave_up.failures] == [Crashed, Crashed]


async def test_e22_responsive_while_a_child_stops(autojump_clock):
    """While one child takes long to stop, a sibling's crash is answered at once, and so are requests."""
    stage = Stage()
    children = [stage.worker("slow", linger=0.75), stage.worker("b")]
    async with running(group(*children)) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(pool.stop, "slow")
        await settle()
        now = trio.current_time()
        await stage.tell("top/b", CRASH)
        await pool.start_child("top", stage.worker("c"))
        await pool.stop("c")

        assert trio.current_time() == now
        assert (info(pool, "b").run, info(pool, "slow").phase) == (2, "stopping")


async def test_e22_responsive_while_a_child_starts(autojump_clock):
    """While one child takes long to start, a sibling's crash is answered at once, and so are requests."""
    stage = Stage()
    stage.starting["slow"] = 0.5
    async with running(group(stage.worker("b"))) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(pool.start_child, "top", stage.worker("slow"))
        await settle()
        now = trio.current_time()
        await stage.tell("top/b", CRASH)
        await pool.restart("b")

        assert trio.current_time() == now
        assert (info(pool, "b").run, info(pool, "slow").phase) == (3, "starting")
