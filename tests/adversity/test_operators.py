"""Operators who act at the wrong moment, against each other, and from the wrong place."""

from __future__ import annotations

import contextlib
from functools import partial
from math import inf

import pytest
import trio

from actors import Actor, ActorStopped, NoSuchActor, WouldWaitForItself
from supervision import (
    IllegalTransition,
    NotRunning,
    RestartPolicy,
    StartFailed,
    Supervisor,
    TreeFailed,
    Worker,
)
from supervision.events import Started, StopRequested
from tests.adversity.helpers import AT_ONCE, idle, kinds, running, serve


async def together(*calls) -> list:
    """Begin all calls in one instant; what each returned or raised."""
    outcomes: list = [None] * len(calls)

    async def one(number, call) -> None:
        try:
            outcomes[number] = await call()
        except Exception as error:
            outcomes[number] = error

    async with trio.open_nursery() as nursery:
        for number, call in enumerate(calls):
            nursery.start_soon(one, number, call)
    return outcomes


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("turn", range(8))
async def test_removed_and_started_at_once(swap, turn, autojump_clock) -> None:
    """Of a remove and a start in one instant one fails; nothing ever runs that the tree does not know."""
    before = trio.lowlevel.current_statistics().tasks_living
    async with running(Supervisor("t", [Worker("w", idle), Worker("idle", idle)])) as pool:
        await pool.stop("w")
        calls = [partial(pool.remove, "w"), partial(pool.start, "w")]
        outcomes = await together(*(reversed(calls) if swap else calls))
        known = [worker.path for worker in pool.workers()]
        failed = [error for error in outcomes if error is not None]
        if "t/w/0" in known:
            assert pool.info("w").state == "running"
            assert [type(error) for error in failed] == [IllegalTransition]
        else:
            assert len(failed) == 1

    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_removed_before_its_turn(autojump_clock) -> None:
    """A child that is removed while it waits for its first turn is not started when that comes."""
    ready = trio.Event()
    runs: list[str] = []

    async def first(ctx) -> None:
        await ready.wait()
        ctx.started()
        await trio.sleep_forever()

    async def second(ctx) -> None:
        runs.append(ctx.path)

    tree = Supervisor("t", [Worker("first", first, ready="signal"), Worker("second", second)])
    async with running(tree, wait_ready=False) as pool:
        await trio.sleep(1)
        await pool.remove("second")
        ready.set()
        await pool.wait_ready()

    assert runs == []


@pytest.mark.parametrize("verb", ["start", "restart"])
async def test_disabled_while_somebody_starts_it(verb, autojump_clock) -> None:
    """A disable that is under way wins over a start that comes in between."""

    async def slow(ctx) -> None:
        with ctx.busy():
            await trio.sleep(3)

    async def meddle(pool) -> None:
        await trio.sleep(1)
        with trio.move_on_after(20):
            try:
                await getattr(pool, verb)("w")
            except (IllegalTransition, NotRunning):
                await pool.wait_state("w", "stopped")
                with contextlib.suppress(NotRunning):
                    await pool.start("w")

    async with running(Supervisor("t", [Worker("w", slow), Worker("idle", idle)])) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(meddle, pool)
            await trio.lowlevel.checkpoint()
            await pool.disable("w")
            state = pool.info("w").state
            nursery.cancel_scope.cancel()
        assert state == "disabled"
        await trio.sleep(100)
        assert pool.info("w").state == "disabled"


async def test_two_operators_on_one_child(autojump_clock) -> None:
    """Whoever waits for the end of one run is not kept waiting by the next."""

    async def slow(ctx) -> None:
        with ctx.busy():
            await ctx.sleep(inf)
            await trio.sleep(2)

    async with running(Supervisor("t", [Worker("w", slow), Worker("idle", idle)])) as pool:
        await trio.sleep(1)

        async def change_of_mind() -> None:
            await trio.sleep(0.5)
            await pool.restart("w")

        assert await together(partial(pool.stop, "w"), change_of_mind) == [None, None]
        assert pool.info("w").run == 2
        assert trio.current_time() == 3


async def test_a_caller_who_gives_up_leaves_no_trial_behind(autojump_clock) -> None:
    """After a cancelled `start` the child is restarted by its policy like any other."""
    phase = {"ready": True}

    async def fussy(ctx) -> None:
        if not phase["ready"]:
            raise OSError
        await trio.sleep(5)
        ctx.started()
        await trio.sleep(5)
        phase["ready"] = False
        raise OSError

    restart = RestartPolicy(max_restarts=3, initial_backoff=1, jitter=0)
    worker = Worker("w", fussy, ready="signal", restart=restart, on_failed="hold", enabled=False)
    async with running(Supervisor("t", [worker, Worker("idle", idle)])) as pool:
        with trio.move_on_after(1):
            await pool.enable("w")
        await trio.sleep(100)

        assert pool.info("w").restarts == 3


async def test_a_caller_who_gives_up_on_replicas_leaves_none(autojump_clock) -> None:
    """A cancelled `start_child` leaves no replica behind, those that had failed included."""

    async def mixed(ctx) -> None:
        if ctx.replica == 0:
            raise OSError
        await trio.sleep_forever()

    async with running(Supervisor("t", [Worker("idle", idle), Supervisor("d")])) as pool:
        with trio.move_on_after(1):
            await pool.start_child("d", Worker("w", mixed, replicas=3, ready="signal"))
        await trio.sleep(1)

        assert [worker.path for worker in pool.workers()] == ["t/idle/0"]


async def test_a_child_cannot_wait_for_its_own_end(autojump_clock) -> None:
    """`pool.shutdown` from inside the tree is refused at once, from a run, a handler, or a task of either."""
    refused: list[str] = []
    pools: list = []

    async def attempt(where) -> None:
        with pytest.raises(WouldWaitForItself):
            await pools[0].shutdown()
        refused.append(where)

    async def function(ctx) -> None:
        await trio.sleep(1)
        await attempt("run")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, "task")
        with trio.CancelScope(shield=True):
            await attempt("shield")
        pools[0].request_stop("from inside")
        await trio.sleep_forever()

    class Handler(Actor):
        async def handle(self, message) -> None:
            await attempt("handler")

    async with running(Supervisor("t", [Worker("f", function), Worker("h", Handler)])) as pool:
        pools.append(pool)
        await pool.ref("h").ask("now")
        await pool.wait_stopped()

        assert refused == ["handler", "run", "task", "shield"]
        assert trio.current_time() == 1


async def test_nothing_below_is_restarted_once_the_tree_stops(autojump_clock) -> None:
    """From the request on, no run begins anywhere: not from a backoff, not after a failure, not with a group."""
    events: list = []

    async def fails_at(seconds, ctx) -> None:
        with ctx.busy():
            await trio.sleep(seconds)
        raise OSError

    async def slow(ctx) -> None:
        with ctx.busy():
            await trio.sleep(11)

    restart = RestartPolicy(max_restarts=0, initial_backoff=2, jitter=0)
    deep = [
        Worker("early", partial(fails_at, 0.5), restart=restart),
        Worker("late", partial(fails_at, 3), restart=restart),
    ]
    trees = [Supervisor(f"in-{s}", deep, strategy=s) for s in ("one_for_one", "rest_for_one")]
    tree = Supervisor("t", [Supervisor("mid", trees), Worker("slow", slow)])
    async with running(tree, listeners=[events.append]) as pool:
        await trio.sleep(1)

    asked = kinds(events, StopRequested)[0].seq
    assert [e for e in kinds(events, Started) if e.seq > asked] == []
    assert trio.current_time() == 11
    assert {worker.state for worker in pool.workers()} == {"stopped"}


async def test_a_tree_that_gives_up_keeps_to_its_stop_timeout(autojump_clock) -> None:
    """A root that gives up stops within stop_timeout, as if it had been asked, and reports on it."""

    async def never(ctx) -> None:
        with ctx.busy():
            await trio.sleep_forever()

    async def fails(ctx) -> None:
        await trio.sleep(1)
        raise OSError

    policy = RestartPolicy(max_restarts=1, initial_backoff=0)
    tree = Supervisor(
        "t", [Worker("never", never, shutdown=inf), Worker("w", fails, restart=policy)]
    )
    pools: list = []
    with pytest.raises(TreeFailed):
        async with running(tree, stop_timeout=5) as pool:
            pools.append(pool)
            await trio.sleep_forever()

    assert trio.current_time() == 7
    assert pools[0].stop_report.forced == ("t/never/0",)
    assert pools[0].stop_report.seconds == 5


async def test_senders_of_a_child_that_no_restart_brings_back(autojump_clock) -> None:
    """When a nested supervisor is restarted, those who wait for one of its added children are told."""
    outcomes: list = []

    async def fails(ctx) -> None:
        await trio.sleep(5)
        raise OSError

    async def ask(ref) -> None:
        try:
            await ref.ask("m", timeout=1000)
        except ActorStopped as error:
            outcomes.append((trio.current_time(), error.message))

    listed = Worker("w", fails, restart=RestartPolicy(type="transient", max_restarts=1))
    nested = Supervisor("in", [listed], intensity=0, restart=AT_ONCE)
    async with running(Supervisor("t", [nested, Worker("idle", idle)])) as pool:
        ref = await pool.start_child("in", Worker("added", idle))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, ref)

    assert outcomes == [(5, "m")]


async def test_surplus_replicas_do_not_come_back(autojump_clock) -> None:
    """Replicas that were on their way out when their supervisor was restarted are gone after it."""

    async def slow(ctx) -> None:
        with ctx.busy():
            await ctx.sleep(inf)
            await trio.sleep(5)

    async def fails(ctx) -> None:
        await trio.sleep(2)
        raise OSError

    nested = Supervisor(
        "in",
        [Worker("w", slow, replicas=3), Worker("fails", fails)],
        intensity=0,
        restart=RestartPolicy(max_restarts=1, initial_backoff=0),
        on_failed="hold",
    )
    async with running(Supervisor("t", [nested, Worker("idle", idle)])) as pool:
        await trio.sleep(1)
        with trio.move_on_after(3):
            await pool.scale("w", 1)
        await trio.sleep(3.5)

        assert [w.path for w in pool.workers() if w.name == "w"] == ["t/in/w/0"]


async def test_surplus_replicas_are_not_restarted_by_hand(autojump_clock) -> None:
    """A restart of a worker leaves out the replicas that are on their way out, and says so if it names only those."""

    async def slow(ctx) -> None:
        with ctx.busy():
            await ctx.sleep(inf)
            await trio.sleep(5)

    async def refused(pool) -> None:
        with pytest.raises(NotRunning, match="being removed"):
            await pool.restart("t/w/2")

    async with running(Supervisor("t", [Worker("w", slow, replicas=3)])) as pool:
        with trio.move_on_after(1):
            await pool.scale("w", 1)
        await together(partial(pool.restart, "w"), partial(refused, pool))

        assert [(w.path, w.state, w.run) for w in pool.workers()] == [("t/w/0", "running", 2)]


async def test_removed_without_replicas(autojump_clock) -> None:
    """A worker that was scaled to none can be removed like any other that is down, and its name is free again."""
    tree = Supervisor("t", [Supervisor("dyn", max_children=1)], auto_shutdown="never")
    async with running(tree) as pool:
        for parent in ("dyn", "t"):
            await pool.start_child(parent, Worker("w", idle))
            await pool.scale("w", 0)
            await pool.remove("w")
            with pytest.raises(NoSuchActor):
                pool.ref("w")
            assert pool.counts("dyn").specs == 0
        await pool.start_child("dyn", Worker("w", idle, replicas=2))

        assert [worker.path for worker in pool.workers()] == ["t/dyn/w/0", "t/dyn/w/1"]


async def test_operators_after_the_end(autojump_clock) -> None:
    """After the tree's end every verb says so, and none waits."""
    async with running(Supervisor("t", [Worker("w", idle)])) as pool:
        pass
    for call in (
        partial(pool.start, "w"),
        partial(pool.restart, "w"),
        partial(pool.scale, "w", 3),
        partial(pool.disable, "w"),
        partial(pool.remove, "w"),
        partial(pool.start_child, "t", Worker("x", idle)),
    ):
        with pytest.raises(NotRunning):
            await call()
    assert trio.current_time() == 0


@pytest.mark.parametrize("strict", [True, False])
async def test_strict_start_and_stop_together(strict, autojump_clock) -> None:
    """A tree that is rolled back because its first start failed stops what had started, in reverse, and leaves nothing."""
    ended: list[str] = []

    async def good(ctx) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(ctx.name)

    async def bad(ctx) -> None:
        await trio.sleep(1)
        raise OSError

    before = trio.lowlevel.current_statistics().tasks_living
    tree = Supervisor(
        "t", [Worker("a", good), Worker("b", good), Worker("bad", bad, ready="signal")]
    )
    with trio.move_on_after(1.5):
        with pytest.raises(StartFailed) if strict else contextlib.nullcontext():
            await serve(tree, start="strict" if strict else None)

    assert ended == ["b", "a"]
    assert trio.current_time() == (1 if strict else 1.5)
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_scaled_up_while_it_scales_down(autojump_clock) -> None:
    """Replicas that are on their way out do not count: a worker has as many as the last word said."""

    async def slow(ctx) -> None:
        with ctx.busy():
            await ctx.sleep(inf)
            await trio.sleep(5)

    async with running(Supervisor("t", [Worker("w", slow, replicas=3)])) as pool:
        await trio.sleep(1)
        await together(partial(pool.scale, "w", 1), partial(pool.scale, "w", 3))
        first = [w.state for w in pool.workers()]
        with trio.move_on_after(1):
            await pool.scale("w", 1)
        await pool.scale("w", 3)
        await trio.sleep(10)

        assert first in (["running"] * 3, ["running"])
        assert [w.state for w in pool.workers()] == ["running"] * 3


async def test_scaled_while_disabled(autojump_clock) -> None:
    """New replicas of a disabled worker wait with the others until it is enabled."""
    async with running(Supervisor("t", [Worker("w", idle), Worker("idle", idle)])) as pool:
        await pool.disable("w")
        await pool.scale("w", 3)
        assert [w.state for w in pool.workers() if w.name == "w"] == ["disabled"] * 3

        await pool.enable("w")
        assert [w.state for w in pool.workers() if w.name == "w"] == ["running"] * 3


async def test_scaled_after_it_was_enabled(autojump_clock) -> None:
    """New replicas of a worker that was declared disabled and is enabled now run like the others."""
    async with running(Supervisor("t", [Worker("w", idle, enabled=False)])) as pool:
        await pool.enable("w")
        await pool.scale("w", 3)

        assert [w.phase for w in pool.workers()] == ["ready"] * 3
        pool.ref("t/w/2").tell_nowait("somebody is there")
