"""Two children that fail in the same tick, under every strategy and in both orders."""

from __future__ import annotations

import pytest
import trio

from actors import Actor
from supervision import (
    NotRunning,
    RestartPolicy,
    RestartType,
    Strategy,
    Supervisor,
    Worker,
    supervisor,
)
from supervision.events import GaveUp, RestartScheduled, Started
from tests.adversity.helpers import idle, kinds, running


class Fuse:
    """Children that fail together when it is lit; each names itself when it goes."""

    def __init__(self) -> None:
        self.lit = {name: trio.Event() for name in "abc"}
        self.went: list[str] = []

    async def wait(self, ctx) -> None:
        await self.lit[ctx.name].wait()
        self.lit[ctx.name] = trio.Event()
        self.went.append(ctx.name)
        raise OSError(ctx.name)

    def light(self, names: str) -> None:
        for name in names:
            self.lit[name].set()


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("names", ["ab", "ba", "ac", "ca", "bc", "cb", "abc", "cba"])
@pytest.mark.parametrize("backoff", [0, 1])
async def test_failures_in_one_tick(strategy, names, backoff, autojump_clock) -> None:
    """Every child is up again, in order where there is an order; those of one group are restarted and paid for once."""
    fuse, events = Fuse(), []
    restart = RestartPolicy(initial_backoff=backoff, jitter=0)
    children = [Worker(name, fuse.wait, restart=restart) for name in "abc"]
    tree = Supervisor("t", children, strategy=strategy, intensity=3)
    async with running(tree, listeners=[events.append]) as pool:
        await trio.sleep(1)
        fuse.light(names)
        await trio.sleep(0.5)
        paid = len(kinds(events, RestartScheduled))
        await trio.sleep(backoff)
        infos = {worker.name: worker for worker in pool.workers()}

    again = [e.path[2] for e in kinds(events, Started) if e.time >= 1]
    assert all(info.state == "running" and info.phase == "ready" for info in infos.values())
    if strategy is Strategy.ONE_FOR_ONE:
        assert sorted(again) == sorted(names)
        assert paid == len(names)
    elif strategy is Strategy.ONE_FOR_ALL:
        assert again == ["a", "b", "c"]
        assert paid == 1
    else:
        first = min(names)
        group = [name for name in "abc" if name >= first]
        # A later one that is found first has restarted already if there is no wait.
        assert again[-len(group) :] == group
        assert again[: -len(group)] == [] or backoff == 0
        assert 1 <= paid <= len(names)
    if backoff or strategy is not Strategy.REST_FOR_ONE:
        assert all(info.run <= 2 for info in infos.values())


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_the_last_restart_and_the_limit_in_one_tick(strategy, autojump_clock) -> None:
    """When two fail together and the budget has one restart left, a group takes it and single children give up."""
    fuse, events = Fuse(), []
    restart = RestartPolicy(initial_backoff=0)
    children = [Worker(name, fuse.wait, restart=restart) for name in "ab"]
    inner = Supervisor("in", children, strategy=strategy, intensity=1, on_failed="hold")
    tree = Supervisor("t", [Worker("idle", idle), inner])
    async with running(tree, listeners=[events.append]) as pool:
        await trio.sleep(1)
        fuse.light("ab")
        await trio.sleep(0.5)
        gave_up = bool(kinds(events, GaveUp))
        state = pool.info("a").state

    if strategy is Strategy.ONE_FOR_ALL:
        assert not gave_up
        assert state == "running"
    elif strategy is Strategy.ONE_FOR_ONE:
        assert gave_up


@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("kind", list(RestartType))
async def test_of_a_group_that_fails_together_temporary_ones_stay_down(
    kind, names, autojump_clock
) -> None:
    """A temporary child that fails just before its group would have stopped it is down for good, not waiting for ever."""
    fuse = Fuse()
    slow_stop = trio.Event()

    async def slow(ctx) -> None:
        with ctx.busy():
            await slow_stop.wait()

    group = [
        Worker("a", fuse.wait, restart=RestartPolicy(initial_backoff=0)),
        Worker("b", fuse.wait, restart=RestartPolicy(type=kind, initial_backoff=0)),
        Worker("slow", slow),
    ]
    async with running(Supervisor("t", group, strategy="one_for_all")) as pool:
        await trio.sleep(1)
        fuse.light(names[0])
        await trio.sleep(1)  # `slow` is stopping; the other's turn to stop has not come
        fuse.light(names[1])
        await trio.sleep(1)
        slow_stop.set()
        await trio.sleep(1)
        states = {worker.name: worker.state for worker in pool.workers()}

    stays = kind is RestartType.TEMPORARY
    assert states["b"] == ("stopped" if stays else "running")
    # `a` is not temporary: it is up again, unless its only failure was taken for the stop of `b`'s.
    assert states["a"] == "running"


async def test_an_operator_restarts_a_temporary_child_whose_group_restarts(autojump_clock) -> None:
    """A temporary child is left out of its group's restart also while an operator restarts it, who is told so."""
    fuse, told = Fuse(), []
    once = RestartPolicy(initial_backoff=0)

    async def slow(ctx) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep({"b": 1, "c": 2}[ctx.name])

    children = [
        Worker("a", fuse.wait, restart=once),
        Worker("b", slow, restart=RestartPolicy(type=RestartType.TEMPORARY)),
        Worker("c", slow, restart=once),
    ]
    tree = Supervisor("t", children, strategy=Strategy.ONE_FOR_ALL)

    async def restart(pool) -> None:
        with pytest.raises(NotRunning, match="stopped meanwhile"):
            await pool.restart("b")
        told.append("b")

    with trio.fail_after(60):
        async with running(tree) as pool, trio.open_nursery() as nursery:
            nursery.start_soon(restart, pool)
            await trio.sleep(0.5)
            fuse.light("a")
            await trio.sleep(5)
            states = [worker.state for worker in pool.workers()]

    assert states == ["running", "stopped", "running"]
    assert told == ["b"]


async def test_a_wait_that_an_operator_ended_holds_up_nobody(autojump_clock):
    """In a group, the backoff of a replica that was stopped by hand meanwhile does not put off the restart of another."""
    starts: list[tuple[int, float]] = []
    fail = {0: [], 1: [0.25, 0.75]}

    async def work(ctx):
        now = trio.current_time()
        starts.append((ctx.replica, now))
        await trio.sleep_until(next((when for when in fail[ctx.replica] if when >= now), 99))
        raise ValueError("boom")

    policy = RestartPolicy(initial_backoff=0.5, factor=2, jitter=0, max_restarts=5)
    tree = Supervisor(
        "t",
        [Worker("w", work, replicas=2, restart=policy, shutdown=1)],
        strategy="one_for_all",
        auto_shutdown="never",
    )
    async with supervisor.running(tree, log=False) as pool:
        await pool.stop("t/w/0")
        await trio.sleep(1)  # the other one waits until 1.75
        assert pool.info("t/w/1").next_restart == 1.75
        await pool.stop("t/w/1")
        fail[0] = [1.0]
        await pool.start("t/w/0")
        await trio.sleep(1)
    assert [when for replica, when in starts if replica == 0] == [0.0, 1.0, 1.5]


async def test_a_wait_that_an_operator_cut_short_is_over(autojump_clock):
    """In a group, one that was started by hand during a long wait and fails again waits for its new decision alone."""
    starts: list[float] = []

    async def work(ctx):
        starts.append(trio.current_time())
        if len(starts) <= 3:
            raise ValueError("boom")
        await trio.sleep_forever()

    policy = RestartPolicy(initial_backoff=0.5, factor=8, max_backoff=4, jitter=0)
    tree = Supervisor(
        "t", [Worker("w", work, restart=policy), Worker("other", idle)], strategy="one_for_all"
    )
    async with supervisor.running(tree, wait_ready=False, log=False) as pool:
        await trio.sleep(1)
        assert pool.info("t/w/0").next_restart == 4.5
        await pool.restart("t/w/0")  # forgives: the next failure is the first in a row
        await trio.sleep(10)
    assert starts == [0, 0.5, 1, 1.5]


async def test_a_restart_ends_for_a_child_that_is_forgotten_meanwhile(autojump_clock):
    """One that was added at run time and whose supervisor begins anew in the same instant does not come back: the call says so."""
    for _ in range(10):  # in whatever order the two go on
        async with running(Supervisor("t", [Supervisor("in", [Worker("w", idle)])])) as pool:
            await pool.start_child("in", Worker("x", idle))

            async def restart_it() -> None:
                with pytest.raises(NotRunning, match=r"t/in(/x/0)? .*'restart' cannot be done"):
                    await pool.restart("t/in/x/0")

            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(restart_it)
                    nursery.start_soon(pool.restart, "t/in")
            assert [worker.path for worker in pool.workers()] == ["t/in/w/0"]


@pytest.mark.parametrize("first", ["itself", "group", "operator"])
async def test_one_that_asks_for_its_own_end_is_not_restarted_with_others(
    first, autojump_clock
) -> None:
    """`ctx.stop()` is an end for good, whether the run asked before a restart of its group or during any restart."""
    fuse = Fuse()

    class Last(Actor):
        async def handle(self, message) -> None:
            if first != "itself":
                await trio.sleep(2)
            self.ctx.stop()
            await trio.sleep(2)

    async def brief(ctx) -> None:
        if ctx.run == 1:
            await fuse.wait(ctx)
        await trio.sleep(10)

    children = [
        Worker("a", brief, restart=RestartPolicy(initial_backoff=0)),
        Worker("b", Last, restart=RestartPolicy(type=RestartType.PERMANENT)),
    ]
    with trio.fail_after(60):  # and with `b` and then `a` the tree is done
        async with running(Supervisor("t", children, strategy=Strategy.ONE_FOR_ALL)) as pool:
            pool.ref("b").tell_nowait("the last one")
            await trio.sleep(1)
            if first == "operator":
                with pytest.raises(NotRunning, match="stopped meanwhile"):
                    await pool.restart("b")
            fuse.light("a")
            await pool.wait_stopped()

    assert [(worker.state, worker.run) for worker in pool.workers()] == [
        ("stopped", 2),
        ("stopped", 1),
    ]


@pytest.mark.parametrize("verb", ["start_child", "start", "enable"])
async def test_a_child_that_is_started_by_hand_may_be_restarted_with_its_group(
    verb, autojump_clock
):
    """A sibling that fails before the child is ready is no fault of the child's: the call waits until it is ready after all."""
    fuse, ready = Fuse(), []

    async def slow(ctx):
        await trio.sleep(2)
        ctx.started()
        ready.append(trio.current_time())
        await trio.sleep_forever()

    spec = Worker("slow", slow, ready="signal", enabled=verb != "enable")
    children = [Worker("a", fuse.wait, restart=RestartPolicy(initial_backoff=1, jitter=0))]
    if verb != "start_child":
        children.append(spec)
    async with running(Supervisor("t", children, strategy="one_for_all")) as pool:
        if verb == "start":
            await pool.stop("slow")
        ready.clear()
        async with trio.open_nursery() as nursery:
            args = ["t", spec] if verb == "start_child" else ["slow"]
            nursery.start_soon(getattr(pool, verb), *args)
            await trio.sleep(1)
            fuse.light("a")
            await trio.sleep(0.5)
            assert not ready
        assert len(ready) == 1
        assert pool.info("slow").phase == "ready"
