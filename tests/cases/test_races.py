"""LIFECYCLE, SHUTDOWN and CANCEL once more: requests, ends and stops that meet in one instant, at any depth."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, NoSuchActor
from supervision import (
    NotRunning,
    StartFailed,
    Supervisor,
    TreeFailed,
    Worker,
)
from tests.cases.kit import (
    ORDERS,
    at,
    fails_after,
    fails_at,
    forever,
    policy,
    turns,
    under_test,
)


def clean_up(seconds: float):
    """A worker with a shielded clean-up of that length."""

    async def run(ctx):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(seconds)

    return run


@ORDERS
@pytest.mark.parametrize("wait", [0, 1])
@pytest.mark.parametrize("how", ["fails", "returns"])
async def test_b025_restart_as_the_run_ends(autojump_clock, first, second, wait, how):
    """B025, erlang/otp#5193: a restart by hand in the instant the run ends gives one more run, never two, never none."""
    live, most = [], []

    async def run(ctx):
        live.append(ctx.run)
        most.append(len(live))
        try:
            if ctx.run == 1:
                await at(5)
                await turns(first)
                if how == "fails":
                    raise OSError("down")
                return
            await trio.sleep_forever()
        finally:
            live.remove(ctx.run)

    worker = Worker("w", run, restart=policy(wait))
    async with under_test(Supervisor("app", [worker, Worker("o", forever)])) as trial:
        await at(5)
        await turns(second)
        await trial.pool.restart("w")
        assert trio.current_time() == 5
        assert trial.pool.info("w").phase == "ready"
        await at(30)
        info = trial.pool.info("w")

    # Without a wait the failure may have been followed by a run of its own, which the request then replaced.
    assert info.run in ((2, 3) if wait == 0 else (2,))
    assert info.state == "running"
    assert max(most) == 1
    assert trial.error is None


@ORDERS
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_b025_scaling_down_as_a_replica_fails(autojump_clock, first, second, strategy):
    """B025, erlang/otp#5193: replicas that are taken away while they fail are gone, the others run on."""

    async def run(ctx):
        if ctx.run == 1 and ctx.replica:
            await at(5)
            await turns(first)
            raise OSError("down")
        await trio.sleep_forever()

    tree = Supervisor(
        "app",
        [Worker("w", run, replicas=4, restart=policy(1)), Worker("z", forever)],
        strategy=strategy,
    )
    async with under_test(tree) as trial:
        await at(5)
        await turns(second)
        await trial.pool.scale("w", 1)
        assert trio.current_time() == 5
        await at(10)
        assert [w.path for w in trial.pool.workers()] == ["app/w/0", "app/z/0"]
        assert [w.phase for w in trial.pool.workers()] == ["ready", "ready"]
        assert trial.pool._tree.timers.statistics().active == 0

    assert trial.error is None


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("end", ["stop", "give up", "cancel", "done"])
async def test_b041_nothing_starts_while_the_tree_ends(autojump_clock, depth, end):
    """B041, python-trio/trio#143: once the tree is to end nothing is started again, however deep and whenever it was due."""
    group = Supervisor(
        "g",
        [
            Worker("a", fails_at(4.5), restart=policy(1)),  # in backoff when the stop comes
            Worker("b", fails_at(5.5, 6.5), restart=policy()),  # fails while it is under way
            Worker("c", forever),
        ],
        strategy="rest_for_one" if depth == 2 else "one_for_one",
    )
    for level in range(depth):
        group = Supervisor(f"g{level}", [group])
    children = [group, Worker("slow", clean_up(4))]
    options = {}
    if end == "give up":
        children.append(Worker("last", fails_after(5), restart=policy(on=(KeyError,))))
    if end == "done":
        children.append(
            Worker("last", fails_after(5), restart=policy(type="temporary"), significant=True)
        )
        options["auto_shutdown"] = "any_significant"
    async with trio.open_nursery() as nursery:
        async with under_test(Supervisor("app", children, **options)) as trial:
            await at(5)
            if end in ("stop", "cancel"):
                trial.pool.request_stop()
            await trial.pool.wait_stopped()
        nursery.cancel_scope.cancel()

    late = [e for e in trial.seen if e.kind == "Started" and e.time >= 5]
    assert late == []
    assert trial.ended_at == 9
    assert isinstance(trial.error, TreeFailed) is (end == "give up")
    assert {w.state for w in trial.pool.workers()} <= {"stopped", "failed"}


async def test_b031_restart_by_hand_overtaken_by_the_stop(autojump_clock):
    """B031, uber-go/fx#1059: a restart that waits for a clean-up is given up when the tree stops, and its caller returns."""
    tree = Supervisor("app", [Supervisor("inner", [Worker("w", clean_up(2))])])
    told = []

    async def restart(pool):
        with pytest.raises(NotRunning, match="was stopped meanwhile"):
            await pool.restart("w")
        told.append(trio.current_time())

    async with under_test(tree) as trial, trio.open_nursery() as nursery:
        await turns(5)
        nursery.start_soon(restart, trial.pool)
        await at(1)
        await trial.pool.shutdown()
        assert trio.current_time() == 2

    assert told == [2]
    assert trial.starts("app/inner/w/0") == [0]


@pytest.mark.parametrize("verb", ["start_child", "start", "enable"])
async def test_b031_start_by_hand_overtaken_by_the_stop(autojump_clock, verb):
    """B031, uber-go/fx#1059: who waits for a start by hand hears of the stop; it is not told that it succeeded."""

    async def slow(ctx):
        await trio.sleep(10)
        ctx.started()

    spec = Worker("w", slow, ready="signal", enabled=verb != "enable")
    told = []

    async def start(pool):
        try:
            if verb == "start_child":
                await pool.start_child("app", spec)
            else:
                await getattr(pool, verb)("w")
        except (NotRunning, StartFailed) as error:
            told.append((type(error), trio.current_time()))

    tree = Supervisor("app", [] if verb == "start_child" else [spec], auto_shutdown="never")
    async with under_test(tree) as trial, trio.open_nursery() as nursery:
        await turns(5)
        if verb == "start":
            await trial.pool.stop("w")
        nursery.start_soon(start, trial.pool)
        await at(1)
        await trial.pool.shutdown()

    assert [when for _, when in told] == [1]
    assert trial.ended_at == 1


async def test_b051_waiting_for_a_state_ends_with_the_tree(autojump_clock):
    """B051, cloudmark/cats-actors#36: who waits for a state that will not come any more is told so."""
    errors = []

    async def wait(pool, path, state):
        try:
            await pool.wait_state(path, state)
        except (NotRunning, NoSuchActor) as error:
            errors.append((path, type(error), trio.current_time()))

    tree = Supervisor("app", [Worker("w", forever), Supervisor("s"), Supervisor("d")])
    async with under_test(tree) as trial, trio.open_nursery() as nursery:
        await trial.pool.wait_ready()
        await trial.pool.start_child("s", Worker("x", forever))
        for path in ("w", "s", "app"):
            nursery.start_soon(wait, trial.pool, path, "restarting")
        nursery.start_soon(wait, trial.pool, "x", "failed")
        nursery.start_soon(wait, trial.pool, "w", "stopped")
        await at(1)
        await trial.pool.stop("x")
        await at(2)
        await trial.pool.shutdown()
        await at(3)
        nursery.start_soon(wait, trial.pool, "w", "running")

    assert sorted(errors, key=str) == sorted(
        [
            ("x", NoSuchActor, 1),
            ("w", NotRunning, 2),
            ("s", NotRunning, 2),
            ("app", NotRunning, 2),
            ("w", NotRunning, 3),
        ],
        key=str,
    )


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
@pytest.mark.parametrize("when", [1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
async def test_b031_stop_during_a_group_restart(autojump_clock, strategy, when):
    """B031, uber-go/fx#1059: a stop in any phase of a group's restart ends it; no child starts after that."""

    async def slow(ctx):
        await trio.sleep(0.5)
        ctx.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)

    inner = Supervisor(
        "g",
        [
            Worker("a", slow, ready="signal"),
            Worker("b", fails_at(1), restart=policy(1)),
            Worker("c", slow, ready="signal"),
        ],
        strategy=strategy,
    )
    async with under_test(Supervisor("app", [inner, Worker("z", clean_up(1))])) as trial:
        await at(when)
        await turns(3)
        report = await trial.pool.shutdown()

    assert [e for e in trial.seen if e.kind == "Started" and e.time > when] == []
    assert trial.error is None
    assert report.forced == ()
    assert trial.ended_at <= when + 1 + 3 * 0.5
    assert {w.state for w in trial.pool.workers()} == {"stopped"}
    assert trial.pool._tree.timers.statistics().active == 0


@ORDERS
async def test_b038_two_errors_and_two_stops(autojump_clock, first, second):
    """B038, python-trio/trio#800: several children that fail while the tree stops in the same instant leave one clean end."""

    async def fail(ctx):
        await at(5)
        await turns(first if ctx.replica % 2 else second)
        raise ValueError(ctx.path)

    class Fails(Actor):
        async def started(self, ctx):
            ctx.after(5, "now")

        async def handle(self, message):
            await turns(first)
            raise ValueError(message)

    tree = Supervisor(
        "app",
        [
            Supervisor(
                "s", [Worker("w", fail, replicas=4, restart=policy())], strategy="one_for_all"
            ),
            Worker("x", Fails, replicas=3, restart=policy(1)),
            Worker("y", fail, replicas=2, restart=policy(type="temporary")),
        ],
    )
    async with under_test(tree) as trial, trio.open_nursery() as nursery:
        await at(5)
        await turns(second)
        nursery.start_soon(trial.pool.shutdown)
        await turns(first)
        await trial.pool.shutdown()
        assert trio.current_time() == 5

    assert trial.error is None
    assert {w.state for w in trial.pool.workers()} == {"stopped"}
    told = {e.path: e.error for e in trial.seen if e.kind in ("Ended", "Failed")}
    assert all(w.error is told[w.path] for w in trial.pool.workers() if told[w.path] is not None)
    asked = next(e.seq for e in trial.seen if e.kind == "StopRequested" and e.path == "app")
    assert [e for e in trial.seen if e.kind == "Started" and e.seq > asked] == []
