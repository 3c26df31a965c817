"""LIFECYCLE: one run at a time, in the right order, and a supervisor that stays reachable."""

from __future__ import annotations

from math import inf

import pytest
import trio

from supervision import NotRunning, Supervisor, Worker
from tests.cases.kit import ORDERS, at, fails_at, forever, policy, turns, under_test


@pytest.mark.parametrize("end", ["failure", "return", "watchdog", "restart"])
async def test_b019_one_incarnation_at_a_time(autojump_clock, end):
    """B019, tqwewe/kameo#387: an incarnation is over only when its clean-up is over."""
    live = []
    most = []

    async def run(ctx):
        live.append(ctx.run)
        most.append(len(live))
        try:
            if ctx.run > 1 or end == "restart":
                await trio.sleep_forever()
            await trio.sleep(inf if end == "watchdog" else 10)
            if end == "failure":
                raise OSError("down")
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            live.remove(ctx.run)

    watchdog = 10 if end == "watchdog" else None
    worker = Worker("w", run, restart=policy(1), watchdog=watchdog)
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(10)
        if end == "restart":
            await trial.pool.restart("w")
            assert trio.current_time() == 13
        await at(15)

    # The wait is counted from the end of the clean-up; a restart by hand waits for nothing else.
    assert trial.starts("app/w/0") == [0, 13 if end == "restart" else 14]
    assert max(most) == 1


async def test_b019_a_stop_by_hand_during_the_clean_up(autojump_clock):
    """B019, tqwewe/kameo#387: a stop that comes during the clean-up of a failed run waits for it and starts nothing."""

    async def run(ctx):
        try:
            raise OSError("down")
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)

    async with under_test(Supervisor("app", [Worker("w", run, restart=policy())])) as trial:
        await at(1)
        await trial.pool.stop("w")
        assert trio.current_time() == 3
        await at(10)
        assert trial.pool.info("w").state == "stopped"

    assert trial.starts("app/w/0") == [0]


def three(strategy: str, *when: float, **options) -> Supervisor:
    """A, B and C, of which B fails at these moments."""
    return Supervisor(
        "app",
        [
            Worker("a", forever, restart=policy(), **options),
            Worker("b", fails_at(*when), restart=policy()),
            Worker("c", forever, restart=policy()),
        ],
        strategy=strategy,
    )


async def test_b020_group_restart_in_order(autojump_clock):
    """B020, rabbitmq/rabbitmq-common#92: stop in reverse order, start in the given order, never mixed."""
    async with under_test(three("one_for_all", 5)) as trial:
        await at(6)
        assert trial.story("Started", "Ended", "Failed")[-6:] == [
            ("b", "Failed"),
            ("c", "Ended"),
            ("a", "Ended"),
            ("a", "Started"),
            ("b", "Started"),
            ("c", "Started"),
        ]
    assert trial.starts("app/a/0")[-1] == 5


async def test_b020_group_restart_waits_for_every_stop(autojump_clock):
    """B020, rabbitmq/rabbitmq-common#92: with slow clean-ups, replicas and slow starts the order is the same."""

    async def slow(ctx):
        await trio.sleep(1)
        ctx.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)

    tree = Supervisor(
        "app",
        [
            Worker("a", slow, ready="signal", replicas=2),
            Supervisor("s", [Worker("x", slow, ready="signal")]),
            Worker("b", fails_at(10), restart=policy()),
            Worker("c", slow, ready="signal"),
        ],
        strategy="one_for_all",
    )
    async with under_test(tree, stop_timeout=60) as trial:
        await at(30)

    times = {w: trial.starts(f"app/{w}/0") for w in ("a", "s/x", "b", "c")}
    # Down: c from 10 to 12, s/x to 14, a to 16. Up: a is ready at 17, s/x at 18, b at once.
    assert times == {"a": [0, 16], "s/x": [1, 17], "b": [2, 18], "c": [2, 18]}
    assert trial.starts("app/a/1") == [0, 16]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_b021_added_children_have_the_same_rights(autojump_clock, strategy):
    """B021, elle-lisp/elle#1215: children added at run time are restarted with their group like any other."""
    tree = Supervisor("app", [Worker("a", forever)], strategy=strategy)
    async with under_test(tree) as trial:
        await at(1)
        await trial.pool.start_child("app", Worker("d", fails_at(2), restart=policy()))
        await trial.pool.start_child("app", Worker("e", forever))
        await at(2)
        await turns(20)
        assert [worker.state for worker in trial.pool.workers()] == ["running"] * 3
        assert trio.current_time() == 2

    again = [path for path in ("a", "d", "e") if trial.starts(f"app/{path}/0")[-1] == 2]
    assert again == (["a", "d", "e"] if strategy == "one_for_all" else ["d", "e"])
    assert [w for w, _ in trial.story("Started")][3:] == again


async def test_b022_later_children_never_outlive_an_earlier_one(autojump_clock):
    """B022, apache/couchdb#1572: a child that depends on an earlier one never outlives that one's incarnation."""
    tree = Supervisor(
        "app",
        [
            Worker("a", fails_at(1), restart=policy()),
            Worker("b", fails_at(2), restart=policy()),
            Worker("c", forever),
        ],
        strategy="rest_for_one",
    )
    async with under_test(tree) as trial:
        await at(1.5)
        assert [worker.run for worker in trial.pool.workers()] == [2, 2, 2]
        await at(2.5)
        assert [worker.run for worker in trial.pool.workers()] == [2, 3, 3]


async def test_b022_an_earlier_failure_while_later_ones_restart(autojump_clock):
    """B022, apache/couchdb#1572: a failure of an earlier child takes over the restart that is under way."""

    async def slow_end(ctx):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)

    tree = Supervisor(
        "app",
        [
            Worker("a", fails_at(3), restart=policy(1)),
            Worker("b", fails_at(1), restart=policy(1)),
            Worker("c", slow_end),
        ],
        strategy="rest_for_one",
    )
    async with under_test(tree) as trial:
        await at(4)
        assert [worker.state for worker in trial.pool.workers()][:2] == ["restarting"] * 2
        await at(7)

    assert {w: trial.starts(f"app/{w}/0") for w in "abc"} == {"a": [0, 6], "b": [0, 6], "c": [0, 6]}


@ORDERS
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("kind", ["transient", "permanent", "temporary"])
async def test_b025_ending_and_stopping_in_one_instant(autojump_clock, first, second, alone, kind):
    """B025, erlang/otp#5193: a lost race between ending and stopping is not an error."""

    async def run(ctx):
        await at(5)
        await turns(first)

    children = [Worker("w", run, restart=policy(1, type=kind))]
    if not alone:
        children.append(Worker("other", forever))
    async with under_test(Supervisor("app", children)) as trial:
        await at(5)
        await turns(second)
        await trial.pool.stop("w")
        assert trio.current_time() == 5
        assert trial.pool.info("w").state == "stopped"
        await at(20)

    assert trial.error is None
    assert trial.starts("app/w/0") == [0]
    assert "Failed" not in trial.kinds()
    ended = [e for e in trial.seen if e.kind == "Ended" and e.path == "app/w/0"]
    assert [e.how in ("returned", "stopped") for e in ended] == [True]
    assert trial.pool.info("w").error is None


@ORDERS
async def test_b025_returning_as_the_tree_stops(autojump_clock, first, second):
    """B025, erlang/otp#5193: nothing goes wrong when children end by themselves while the tree is being stopped."""

    async def run(ctx):
        await at(5)
        await turns(first)

    names = ("a", "b", "c")
    tree = Supervisor("app", [Worker(n, run, replicas=2) for n in names], strategy="one_for_all")
    async with under_test(tree) as trial:
        await at(5)
        await turns(second)
        report = await trial.pool.shutdown()
        assert trio.current_time() == 5

    assert trial.error is None
    assert report.forced == ()
    assert trial.kinds().count("Ended") == 7
    assert "Failed" not in trial.kinds()


async def slow_start(ctx):
    """Needs 30 s to become ready."""
    await trio.sleep(30)
    ctx.started()
    await trio.sleep_forever()


@pytest.mark.parametrize("nested", [False, True])
async def test_b026_reachable_while_a_child_starts(autojump_clock, nested):
    """B026, erlang/otp#8361: no child can make its supervisor unreachable."""
    slow = Worker("b", slow_start, ready="signal")
    tree = Supervisor(
        "app",
        [
            Worker("a", fails_at(2), restart=policy()),
            Supervisor("inner", [slow]) if nested else slow,
        ],
    )
    async with under_test(tree) as trial:
        await at(1)
        assert trial.pool.info("b").phase == "starting"
        assert trial.pool.health().waiting_for == (trial.pool.info("b").path,)
        await at(2)
        await turns(10)
        assert (trial.pool.info("a").state, trial.pool.info("a").run) == ("running", 2)
        await at(3)
        await trial.pool.shutdown()
        assert trio.current_time() == 3

    assert trial.error is None
    assert trial.ended_at == 3


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_b026_a_group_restart_cuts_a_start_short(autojump_clock, strategy):
    """B026, erlang/otp#8361: a failure interrupts the start of a later child of its group, and both start again."""
    tree = Supervisor(
        "app",
        [
            Worker("a", fails_at(2), restart=policy()),
            Worker("b", slow_start, ready="signal"),
            Worker("c", forever),
        ],
        strategy=strategy,
    )
    async with under_test(tree) as trial:
        await at(40)

    assert trial.starts("app/a/0") == [0, 2]
    assert trial.starts("app/b/0") == [0, 2]
    assert trial.starts("app/c/0") == [32]


@pytest.mark.parametrize("verb", ["stop", "restart", "disable"])
async def test_b026_an_operator_interrupts_a_start(autojump_clock, verb):
    """B026, erlang/otp#8361: a child that is starting can be stopped, restarted or disabled; those after it go on."""
    tree = Supervisor("app", [Worker("b", slow_start, ready="signal"), Worker("c", forever)])
    async with under_test(tree) as trial:
        await at(1)
        with trio.move_on_after(1):
            await getattr(trial.pool, verb)("b")
        await at(40)
        state = {"stop": "stopped", "restart": "running", "disable": "disabled"}[verb]
        assert trial.pool.info("b").state == state
        assert trial.pool.health().started

    assert trial.starts("app/c/0") == [31 if verb == "restart" else 1]


async def test_b026_asking_a_tree_that_has_ended(autojump_clock):
    """B026, erlang/otp#8361: a tree that has ended answers questions, takes a stop as done, and refuses changes."""
    async with under_test(Supervisor("app", [Worker("a", forever)])) as trial:
        await trial.pool.shutdown()

        assert trial.pool.info("a").state == "stopped"
        await trial.pool.stop("a")
        with pytest.raises(NotRunning):
            await trial.pool.start("a")
