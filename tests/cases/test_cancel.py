"""CANCEL: stops, interrupts, exits and groups of errors that come together."""

from __future__ import annotations

import gc
import logging
import signal
import warnings
from functools import partial

import pytest
import trio
import trio.testing

from supervision import Supervisor, TreeFailed, Worker, supervisor
from tests.cases.kit import (
    ORDERS,
    at,
    fails_after,
    fails_at,
    forever,
    leaves,
    policy,
    turns,
    under_test,
)


@ORDERS
@pytest.mark.parametrize("verb", ["stop", "shutdown", "disable"])
async def test_b038_error_and_stop_in_one_instant(autojump_clock, first, second, verb):
    """B038, python-trio/trio#800: a stop that was asked for wins, and the error that came with it is not lost."""

    async def fail():
        await at(5)
        await turns(first)
        raise ValueError("at 5")

    async def run(ctx):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()

    tree = Supervisor(
        "app", [Worker("w", run, restart=policy(1)), Worker("other", forever)], intensity=3
    )
    async with under_test(tree) as trial:
        await at(5)
        await turns(second)
        if verb == "shutdown":
            await trial.pool.shutdown()
        else:
            await getattr(trial.pool, verb)("w")
        assert trio.current_time() == 5
        state = "disabled" if verb == "disable" else "stopped"
        assert trial.pool.info("w").state == state
        assert trial.pool.info("w").next_restart is None
        if verb != "shutdown":
            await at(20)
            assert trial.pool.info("w").state == state

    assert trial.error is None
    assert trial.starts("app/w/0") == [0]
    told = [e.error for e in trial.seen if e.path == "app/w/0" and e.kind in ("Ended", "Failed")]
    assert len(told) == 1
    # If the stop came so early that the run was cancelled before it could fail, there is no error to keep.
    assert [str(leaf) for leaf in leaves(told[0])] in ([], ["at 5"])
    if first < second:
        assert leaves(told[0]) != []


async def test_b038_failure_count_after_a_stop(autojump_clock):
    """B038, python-trio/trio#800: an error that comes with a stop counts as no failure and uses no limit."""

    async def run(ctx):
        with ctx.busy():
            await ctx.sleep(1000)
            raise ValueError("while stopping")

    async with under_test(Supervisor("app", [Worker("w", run)], intensity=3)) as trial:
        await turns(5)
        await trial.pool.stop("w")
        info = trial.pool.info("w")
        assert (info.state, info.failures, trial.pool.info("app").budget_used) == ("stopped", 0, 0)
        await trial.pool.start("w")

    ended = [e for e in trial.seen if e.kind == "Ended" and e.path == "app/w/0"]
    assert [(e.how, str(e.error)) for e in ended] == [("stopped", "while stopping")] * 2


def only_value_errors(*errors: BaseException) -> Supervisor:
    """A child that raises these, one a second, under a policy that restarts ValueError only."""

    async def run(ctx):
        await trio.sleep(1)
        if ctx.run <= len(errors):
            raise errors[ctx.run - 1]
        await trio.sleep_forever()

    restart = policy(on=(ValueError,))
    return Supervisor("app", [Worker("w", run, restart=restart)], intensity=5, period=60)


async def test_b039_policy_looks_at_the_leaves(autojump_clock):
    """B039, python-trio/trio#2301: classification looks at the leaves; the most severe leaf decides."""
    value, key = ValueError("v"), KeyError("k")
    nested = ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("n")])])
    mixed = ExceptionGroup("mixed", [value, key])
    async with under_test(only_value_errors(nested, mixed)) as trial:
        await trial.pool.wait_stopped()

    assert trial.starts("app/w/0") == [0, 1]
    assert isinstance(trial.error, TreeFailed)
    assert trial.ended_at == 2
    assert leaves(trial.error.__cause__)[-2:] == [value, key]


async def test_b039_a_group_counts_once(autojump_clock):
    """B039, python-trio/trio#2301: several errors in one group are one failure."""
    group = ExceptionGroup("twice", [ValueError("a"), ValueError("b")])
    async with under_test(only_value_errors(group)) as trial:
        await at(3)
        assert (trial.pool.info("w").restarts, trial.pool.info("w").failures) == (1, 1)
        assert trial.pool.info("app").budget_used == 1


async def test_b039_cancelled_leaves_are_no_errors(autojump_clock):
    """B039, python-trio/trio#2301: a cancellation that comes along in a group decides nothing."""

    async def run(ctx):
        if ctx.run > 1:
            await trio.sleep_forever()
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                stray = cancelled
        raise BaseExceptionGroup("mixed", [ValueError("v"), stray])

    worker = Worker("w", run, restart=policy(on=(ValueError,)))
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(1)
        assert trial.pool.info("w").run == 2
        assert [type(leaf) for leaf in leaves(trial.pool.info("w").error)] == [ValueError]


EXITS = {
    "bare": lambda error: error,
    "grouped": lambda error: BaseExceptionGroup("g", [ValueError("v"), error]),
    "deep": lambda error: BaseExceptionGroup("g", [BaseExceptionGroup("h", [error])]),
}


@pytest.mark.parametrize("wrap", EXITS.values(), ids=EXITS)
@pytest.mark.parametrize("nested", [False, True])
async def test_b040_exit_status_is_kept(autojump_clock, wrap, nested):
    """B040, python-trio/trio#3275: exit requests pass through unchanged and are never a failure to recover from."""
    goodbye = SystemExit(3)

    async def run(ctx):
        await trio.sleep(2)
        raise wrap(goodbye)

    a = Worker("a", run, restart=policy())
    tree = Supervisor(
        "app", [Supervisor("inner", [a]) if nested else a, Worker("b", forever)], intensity=5
    )
    async with under_test(tree) as trial:
        await trial.pool.wait_stopped()

    assert trial.error is goodbye
    assert trial.error.code == 3
    assert trial.ended_at == 2
    assert [w.run for w in trial.pool.workers()] == [1, 1]
    assert [w.failures for w in trial.pool.workers()] == [0, 0]
    assert not {"Failed", "RestartScheduled", "GaveUp"} & set(trial.kinds())


async def test_b040_exit_status_through_running(autojump_clock):
    """B040, python-trio/trio#3275: an exit request leaves `async with running(...)` as itself, not in a group."""
    goodbye = SystemExit(3)

    async def run(ctx):
        await trio.sleep(2)
        raise goodbye

    with pytest.raises(SystemExit) as raised:
        async with supervisor.running(Supervisor("app", [Worker("a", run)]), log=False):
            await trio.sleep_forever()

    assert raised.value is goodbye


def interrupted_tree(events: list) -> Supervisor:
    """A waits in backoff until t=20; B's clean-up waits 2 s."""

    async def b(ctx):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            events.append(("b is clean", trio.current_time()))

    return Supervisor(
        "app",
        [Worker("a", fails_after(0), restart=policy(20)), Worker("b", b, shutdown=10)],
    )


def test_b041_interrupt_is_a_stop_request():
    """B041, python-trio/trio#143: an interrupt is a stop request, not a crash; clean-up that waits is not cut."""
    seen, clean, clock = [], [], trio.testing.MockClock(autojump_threshold=0)

    async def main():
        trio.lowlevel.spawn_system_task(interrupt)
        await supervisor.serve(
            interrupted_tree(clean), signals=False, log=False, listeners=[seen.append]
        )

    @trio.lowlevel.enable_ki_protection
    async def interrupt():
        await trio.sleep(5)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=clock)

    assert clean == [("b is clean", 7)]
    assert clock.current_time() == 7
    kinds = [(e.kind, e.path) for e in seen if e.time >= 5]
    assert not {"Failed", "RestartScheduled"} & {kind for kind, _ in kinds}
    assert [e.time for e in seen if e.kind == "Started" and e.path == "app/a/0"] == [0]


async def test_b041_interrupt_inside_a_worker(autojump_clock):
    """B041, python-trio/trio#143: an interrupt that hits a worker's own code stops the tree in order too."""
    clean = []

    async def c(ctx):
        await at(5)
        raise KeyboardInterrupt

    tree = interrupted_tree(clean)
    tree = Supervisor("app", [*tree.children, Worker("c", c, restart=policy())])
    async with under_test(tree) as trial:
        await trial.pool.wait_stopped()

    assert isinstance(trial.error, KeyboardInterrupt)
    assert clean == [("b is clean", 7)]
    assert trial.ended_at == 7
    assert trial.starts("app/a/0") == [0]
    assert trial.times("Failed", "app/c/0") == []


@pytest.mark.parametrize("moment", ["Failed", "Started", "Ended", "RestartScheduled"])
def test_b041_interrupt_inside_the_library(moment):
    """B041, python-trio/trio#143: an interrupt that hits the library in the middle of a step tears nothing apart."""
    clean, hits, clock = [], [], trio.testing.MockClock(autojump_threshold=0)

    class Interrupts(logging.Handler):
        def emit(self, record):
            if record.event == moment and trio.current_time() >= 1 and not hits:
                hits.append(trio.current_time())
                signal.raise_signal(signal.SIGINT)

    async def b(ctx):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            clean.append(trio.current_time())

    async def returns(ctx):
        await at(1.5)

    a = Worker("a", fails_at(1, 3), restart=policy(1))
    tree = Supervisor("app", [Worker("r", returns), Supervisor("s", [a]), Worker("b", b)])
    logger, handler = logging.getLogger("supervision"), Interrupts()
    level = logger.level
    logger.setLevel(logging.DEBUG)  # not the attribute: loggers remember what is enabled
    logger.addHandler(handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            trio.run(partial(supervisor.serve, tree, signals=False), clock=clock)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)

    assert hits == [{"Started": 2, "Ended": 1.5}.get(moment, 1)]
    assert clean == [hits[0] + 2]
    assert clock.current_time() == clean[0]


async def test_b042_leaving_the_event_stream_early(autojump_clock):
    """B042, python-trio/trio#638: the public API never leaves a scope open between two yields."""

    async def watch(ctx):
        await trio.sleep(0.1)
        async for event in pools[0].events():
            seen.append(event.kind)
            break
        await trio.sleep_forever()

    pools, seen = [], []
    tree = Supervisor("app", [Worker("w", watch), Worker("later", fails_after(0.2))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with under_test(tree) as trial:
            pools.append(trial.pool)
            await at(1)
            gc.collect()
            # One is the trial's own listener.
            assert trial.pool.snapshot().events.subscriptions == 1
            await trial.pool.shutdown()
            gc.collect()

    assert len(seen) == 1
    assert (trial.error, trial.ended_at) == (None, 1)


class Steps(trio.abc.Instrument):
    """Counts the scheduler's steps of tasks other than a test's own, by name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def before_task_step(self, task):
        self.names.append(task.name)


async def test_b044_waiting_costs_no_work(autojump_clock):
    """B044, agronholm/anyio#1257 and ClickHouse/nerve#128: waiting for a task that will not end costs no work."""

    async def deaf(ctx):
        with trio.CancelScope(shield=True):
            await trio.sleep(10)

    steps = Steps()
    async with under_test(Supervisor("app", [Worker("w", deaf, shutdown=0)]), stop_timeout=60) as t:
        await turns(5)
        trio.lowlevel.add_instrument(steps)
        t.pool.request_stop()
        await at(9.5)
        trio.lowlevel.remove_instrument(steps)
        await t.pool.wait_stopped()

    library = [name for name in steps.names if "timers" in name or "notice" in name]
    assert t.ended_at == 10
    # Three turns until it is cancelled, three until it is reported, one more for the report after 5 s.
    assert len(library) <= 8
    assert steps.names.count("app/w/0") <= 1
    assert len(steps.names) <= 18
    assert [e.time for e in t.seen if e.kind == "Stuck"][:2] == [0, 5]
