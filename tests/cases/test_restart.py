"""RESTART: how often and when a failed child is started again, and when its supervisor gives up."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import trio

from supervision import RestartPolicy, StartFailed, Supervisor, TreeFailed, Worker
from tests.cases.kit import at, fails_after, fails_at, forever, leaves, policy, turns, under_test


@pytest.mark.parametrize("depth", [0, 1])
async def test_b002_orphan_holds_the_port(autojump_clock, depth):
    """B002, getpaseo/paseo#1258: an unrecoverable start failure ends in one give-up, not in a loop."""
    port = Worker("port", fails_after(0), restart=policy(0.2, 2, 5))
    tree = Supervisor("app", [port], intensity=5, period=10)
    if depth:  # a supervisor that cannot be cured by its own restart does not loop either
        tree = Supervisor("root", [curable_by_nobody(tree)])
    path = "root/app/port/0" if depth else "app/port/0"

    async with under_test(tree) as trial:
        await trial.pool.wait_stopped()

    assert trial.starts(path) == pytest.approx([0, 0.2, 0.6, 1.4, 3.0, 6.2])
    assert trial.ended_at == pytest.approx(6.2)
    assert isinstance(trial.error, TreeFailed)
    assert [str(leaf) for leaf in leaves(trial.error.__cause__)][-1] == "down"
    assert "5 restarts in 10 s" in str(trial.error)
    assert trial.kinds().count("GaveUp") == 1 + depth
    assert trial.pool._tree.timers.statistics().active == 0


def curable_by_nobody(inner: Supervisor) -> Supervisor:
    """The same supervisor as one that is never restarted by its parent."""
    return Supervisor(
        inner.name,
        inner.children,
        intensity=inner.intensity,
        period=inner.period,
        restart=policy(on=(ZeroDivisionError,)),
    )


@pytest.mark.parametrize("ready", ["run", "signal"])
async def test_b005_child_dies_on_its_first_step(autojump_clock, ready):
    """B005, elle-lisp/elle#1210: the end of a child cannot be missed, however early it comes."""
    tree = Supervisor(
        "app",
        [Worker("early", fails_after(0), restart=policy(1), ready=ready)],
        intensity=3,
        period=10,
    )
    states = []
    async with under_test(tree) as trial:
        for n in range(4):
            await at(n + 0.5)
            states.append(trial.pool.info("early").state)

    assert trial.starts("app/early/0") == [0, 1, 2, 3]
    assert trial.times("GaveUp", "app") == [3]
    assert states == ["restarting", "restarting", "restarting", "failed"]


async def test_b005_child_ends_before_it_is_awaited(autojump_clock):
    """B005, elle-lisp/elle#1210: starting a child that dies at once tells the caller, and leaves nothing listed."""
    async with under_test(Supervisor("app")) as trial:
        with pytest.raises(StartFailed) as failed:
            await trial.pool.start_child("app", Worker("early", fails_after(0), ready="signal"))

        assert isinstance(failed.value.__cause__, OSError)
        assert trial.pool.workers() == []


@pytest.mark.parametrize("limit", ["intensity", "max_restarts"])
async def test_b006_respawn_is_no_proof_of_health(autojump_clock, limit):
    """B006, bobmatnyc/trusty-tools#3631: having been started clears no count; only time does."""
    by_window = limit == "intensity"
    restart = policy(max_restarts=0 if by_window else 5, reset_after=60)
    tree = Supervisor(
        "app",
        [Worker("sidecar", fails_after(3), restart=restart)],
        intensity=5 if by_window else None,
        period=60,
    )
    async with under_test(tree) as trial:
        await trial.pool.wait_stopped()

    assert trial.times("Failed", "app/sidecar/0") == [3, 6, 9, 12, 15, 18]
    assert trial.times("GaveUp", "app") == [18]
    assert trial.pool.info("sidecar").restarts == 5


@pytest.mark.parametrize("kind", ["transient", "temporary"])
async def test_b007_normal_ends_cost_nothing(autojump_clock, kind):
    """B007, zoedsoupe/anubis-mcp#239: a normal end of a transient or temporary child never counts against intensity."""

    async def session(ctx):
        await trio.sleep(1)
        if ctx.name == "s21" and ctx.run == 1:
            raise OSError("lost")
        if ctx.name == "s21":
            await trio.sleep_forever()

    restart = policy(type=kind)
    async with under_test(Supervisor("sessions", intensity=3, period=5)) as trial:
        for n in range(20):
            await trial.pool.start_child("sessions", Worker(f"s{n}", session, restart=restart))
        await at(1)
        await trial.pool.start_child("sessions", Worker("s21", session, restart=policy()))
        await turns(10)

        assert trial.pool.info("sessions").budget_used == 0
        assert [worker.name for worker in trial.pool.workers()] == ["s21"]
        await at(2)
        await turns(10)
        assert trial.pool.info("sessions").budget_used == 1
        assert (trial.pool.info("s21").state, trial.pool.info("s21").run) == ("running", 2)
        assert trial.pool.info("sessions").state == "running"


@pytest.mark.parametrize("limit", ["intensity", "max_restarts"])
async def test_b008_an_old_outage_is_forgotten(autojump_clock, limit):
    """B008, bloxbean/yaci-store#998: limits look at a sliding window or a good run, never at the whole life."""
    by_window = limit == "intensity"
    restart = policy(max_restarts=0) if by_window else policy(max_restarts=5, reset_after=60)
    failing = fails_at(10, 20, 30, 40, 50, 1000, 1010, 1020, 1030, 1040)
    tree = Supervisor("app", [Worker("sync", failing, restart=restart)], intensity=5, period=600)
    async with under_test(tree) as trial:
        await at(1100)
        assert trial.pool.info("app").budget_used == 5
        assert trial.pool.info("sync").state == "running"
        assert trial.pool.info("sync").run == 11
        await at(1700)
        assert trial.pool.info("app").budget_used == 0

    assert trial.error is None


async def test_b008_window_edges(autojump_clock):
    """B008, bloxbean/yaci-store#998: a restart counts for exactly `period` seconds, both edges included."""
    tree = Supervisor("app", [Worker("w", fails_at(1), restart=policy())], intensity=1, period=10)
    async with under_test(tree) as trial:
        await at(11)
        assert trial.pool.info("app").budget_used == 1
        await at(11.001)
        assert trial.pool.info("app").budget_used == 0


@pytest.mark.parametrize("limit", ["intensity", "max_restarts"])
async def test_b009_give_up_at_the_root_ends_the_run(autojump_clock, limit):
    """B009, robinhood/faust#301: a give-up at the root stops the others in reverse order and always ends the run."""
    boom = RuntimeError("boom")
    only_once = RestartPolicy(on=(KeyError,)) if limit == "max_restarts" else RestartPolicy()
    tree = Supervisor(
        "app",
        [
            Worker("a", fails_after(1, lambda: boom), restart=only_once),
            Worker("b", forever),
            Worker("c", forever),
        ],
        intensity=0 if limit == "intensity" else None,
    )
    async with under_test(tree) as trial:
        await trial.pool.wait_stopped()

    assert trial.ended_at == 1
    assert isinstance(trial.error, TreeFailed)
    assert leaves(trial.error.__cause__) == [boom]
    assert trial.story("Failed", "Ended") == [("a", "Failed"), ("c", "Ended"), ("b", "Ended")]


def test_b009_as_a_program(tmp_path):
    """B009, robinhood/faust#301: a program whose root gave up ends with a status that is not zero."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import trio
            from supervision import Supervisor, Worker, supervisor

            async def crash(ctx):
                raise RuntimeError("boom")

            async def run(ctx):
                await trio.sleep_forever()

            trio.run(
                supervisor.serve, Supervisor("app", [Worker("a", crash), Worker("b", run)], intensity=0)
            )
            """
        ),
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert done.returncode == 1
    assert b"boom" in done.stderr
    assert b"TreeFailed" in done.stderr


@pytest.mark.parametrize("asks", [0, 1000])
async def test_b010_one_failure_counts_once(autojump_clock, asks):
    """B010, elle-lisp/elle#1211: one failure adds exactly one to the count; unrelated traffic adds nothing."""
    worker = Worker("w", fails_after(1), restart=policy())
    async with under_test(Supervisor("app", [worker], intensity=3, period=10)) as trial:
        for tick in range(4 * asks):
            await at((tick + 1) / asks)
            trial.pool.info("app")
            trial.pool.counts()
            trial.pool.snapshot()
        await trial.pool.wait_stopped()

    assert trial.times("Failed", "app/w/0") == [1, 2, 3, 4]
    assert trial.starts("app/w/0") == [0, 1, 2, 3]
    assert trial.times("GaveUp", "app") == [4]


async def test_b010_a_group_restart_counts_once(autojump_clock):
    """B010, elle-lisp/elle#1211: children that are stopped by their group's restart, or fail with it, cost nothing more."""
    tree = Supervisor(
        "app",
        [
            Worker("w", fails_after(1), replicas=3, restart=policy()),
            Worker("x", fails_after(1), restart=policy()),
        ],
        strategy="one_for_all",
        intensity=3,
        period=10,
    )
    async with under_test(tree) as trial:
        await trial.pool.wait_stopped()

    # All four fail in the same instant: whichever comes first costs one, the others are part of its restart.
    assert trial.times("GaveUp", "app") == [4]
    assert trial.starts("app/x/0") == [0, 1, 2, 3]
