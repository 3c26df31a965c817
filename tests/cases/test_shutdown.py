"""SHUTDOWN: every stop is ordered, bounded, remembered, and told truly."""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext
from math import inf

import pytest
import trio
import trio.testing

from actors import Actor
from supervision import StartFailed, StartTimeout, Supervisor, Worker, supervisor
from tests.cases.kit import at, forever, turns, under_test


class Cleaning:
    """A worker whose clean-up takes so long, shielded; notes when each began and ended."""

    def __init__(self, seconds: float, *, starting: float = 0) -> None:
        self.seconds = seconds
        self.starting = starting
        self.notes: list[tuple[str, str, float]] = []

    async def __call__(self, ctx):
        try:
            await trio.sleep(self.starting)
            ctx.started()
            await trio.sleep_forever()
        finally:
            self.notes.append((ctx.name, "cleans", trio.current_time()))
            with trio.CancelScope(shield=True):
                await trio.sleep(self.seconds)
            self.notes.append((ctx.name, "clean", trio.current_time()))


class Deaf(Actor):
    """Has a message in hand for ever, so that a stop waits for its deadline."""

    async def handle(self, message):
        await trio.sleep_forever()


async def deaf(ctx):
    """Does not hear a stop until it is cancelled."""
    with ctx.busy():
        await trio.sleep_forever()


@pytest.mark.parametrize("run", [deaf, Deaf], ids=["function", "actor"])
async def test_b028_one_deaf_child(autojump_clock, run):
    """B028, Supervisor/supervisor#1649: the stop takes at most the deadlines along the order, and says who was forced."""
    names = ("a", "b", "c")
    tree = Supervisor("app", [Worker(n, run if n == "c" else forever, shutdown=5) for n in names])
    async with under_test(tree) as trial:
        await turns(5)
        await trial.pool.ref("c").tell("work")
        await turns(5)
        report = await trial.pool.shutdown()

    assert trial.story("Ended") == [("c", "Ended"), ("b", "Ended"), ("a", "Ended")]
    assert [trial.times("Ended", f"app/{n}/0") for n in names] == [[5], [5], [5]]
    assert (report.forced, report.orderly) == (("app/c/0",), ("app/b/0", "app/a/0"))
    assert (report.seconds, trial.ended_at) == (5, 5)


async def test_b028_deaf_children_add_up_to_the_tree_limit(autojump_clock):
    """B028, Supervisor/supervisor#1649: deadlines add up along the order, replicas stop together, the tree's limit ends all."""
    tree = Supervisor(
        "app", [Worker(n, deaf, shutdown=5, replicas=3) for n in ("a", "b", "c", "d")]
    )
    async with under_test(tree, stop_timeout=12) as trial:
        await turns(5)
        report = await trial.pool.shutdown()

    times = [trial.times("Ended", f"app/{n}/2") for n in ("d", "c", "b", "a")]
    assert times == [[5], [10], [12], [12]]
    assert len(report.forced) == 12


@pytest.mark.parametrize("nested", [False, True])
async def test_b029_start_timeout_rolls_back(autojump_clock, nested):
    """B029, uber-go/fx#1035: every child that was started is stopped, whatever ends the start phase."""
    cleaning = Cleaning(1)
    a = Worker("a", cleaning)
    tree = Supervisor(
        "app",
        [
            Supervisor("inner", [a]) if nested else a,
            Worker("b", Cleaning(0, starting=20), ready="signal", start_timeout=5),
            Worker("c", forever),
        ],
    )
    with pytest.raises(StartFailed) as failed:
        await supervisor.serve(tree, start="strict", log=False)

    assert cleaning.notes == [("a", "cleans", 5), ("a", "clean", 6)]
    assert isinstance(failed.value.__cause__, StartTimeout)
    assert "app/b/0" in str(failed.value)
    assert trio.current_time() == 6


@pytest.mark.parametrize("start", ["strict", "restart"])
async def test_b029_what_comes_after_is_not_started(autojump_clock, start):
    """B029, uber-go/fx#1035: after a start that was rolled back, nothing that comes later has run."""
    started = []

    async def run(ctx):
        started.append(ctx.name)
        await trio.sleep_forever()

    async def never_ready(ctx):
        await run(ctx)

    tree = Supervisor(
        "app",
        [
            Worker("a", run),
            Worker("b", never_ready, ready="signal", start_timeout=5),
            Worker("c", run),
        ],
        start=start,
    )
    with trio.move_on_after(5.5) as scope:
        with pytest.raises(StartFailed) if start == "strict" else nullcontext():
            await supervisor.serve(tree, log=False)

    # By default a start that failed is repeated later, and those after it are not kept waiting.
    assert started == (["a", "b"] if start == "strict" else ["a", "b", "c"])
    assert scope.cancelled_caught is (start == "restart")


async def test_b029_cancelled_while_starting(autojump_clock):
    """B029, uber-go/fx#1035: cancelling the start from outside stops in order what had started."""
    first, second = Cleaning(1), Cleaning(1, starting=20)
    tree = Supervisor(
        "app", [Worker("a", first), Worker("b", second, ready="signal"), Worker("c", forever)]
    )
    with trio.move_on_after(5):
        async with under_test(tree, wait_ready=True):
            raise AssertionError("it cannot have started")

    assert second.notes == [("b", "cleans", 5), ("b", "clean", 6)]
    assert first.notes == [("a", "cleans", 6), ("a", "clean", 7)]


@pytest.mark.parametrize("extra", [0, 1, 3])
async def test_b030_signal_and_call_coincide(autojump_clock, extra):
    """B030, uber-go/fx#930: stop is idempotent; late callers wait for the same end."""
    cleaning = Cleaning(1)
    tree = Supervisor("app", [Worker(n, cleaning, shutdown=10) for n in ("a", "b")])
    returned = []

    async def stop(pool, when):
        await at(when)
        await turns(extra)
        await pool.shutdown()
        returned.append(trio.current_time())

    async with under_test(tree, signals=True) as trial, trio.open_nursery() as nursery:
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(signal.SIGTERM)
        nursery.start_soon(stop, trial.pool, 0)
        nursery.start_soon(stop, trial.pool, 0.5)

    assert cleaning.notes == [
        ("b", "cleans", 0),
        ("b", "clean", 1),
        ("a", "cleans", 1),
        ("a", "clean", 2),
    ]
    assert returned == [2, 2]
    assert trial.error is None


@pytest.mark.parametrize("whole_first", [False, True])
async def test_b030_stopping_a_part_and_the_whole(autojump_clock, whole_first):
    """B030, uber-go/fx#930: a child stopped by hand while the tree stops too is cleaned up once, and both calls return."""
    cleaning = Cleaning(1)
    tree = Supervisor("app", [Worker(n, cleaning, shutdown=10) for n in ("a", "b")])
    async with under_test(tree) as trial, trio.open_nursery() as nursery:
        await turns(5)
        if whole_first:
            trial.pool.request_stop()
        nursery.start_soon(trial.pool.stop, "a")
        await turns(3)
        await trial.pool.shutdown()

    ends = {name: when for name, what, when in cleaning.notes if what == "clean"}
    assert ends == ({"b": 1, "a": 2} if whole_first else {"a": 1, "b": 1})
    assert len(cleaning.notes) == 4


@pytest.mark.parametrize("when", [0, 0.5, 1.0, 1.5, 2.999, 3.0])
@pytest.mark.parametrize("extra", [0, 1, 2, 5])
async def test_b031_stop_during_start_is_remembered(autojump_clock, when, extra):
    """B031, uber-go/fx#1059: a stop request is remembered, whenever it comes."""
    tree = Supervisor(
        "app", [Worker(n, Cleaning(0, starting=1), ready="signal") for n in ("a", "b", "c")]
    )
    async with under_test(tree) as trial:
        await at(when)
        await turns(extra)
        trial.pool.request_stop()
        late = when + 0.1
        await at(late)
        await trial.pool.wait_ready()
        await trial.pool.wait_stopped()
        assert trio.current_time() == late

    assert (trial.error, trial.ended_at) == (None, when)
    if when not in (1.0, 3.0):
        assert len(trial.story("Started")) == int(when) + 1


async def test_b031_stop_before_the_first_step(autojump_clock):
    """B031, uber-go/fx#1059: a stop that comes before any task of the tree has run is kept too."""
    ran = []

    async def run(ctx):
        ran.append(ctx.path)

    class AtOnce(trio.TaskStatus):
        def started(self, pool=None):
            pools.append(pool)
            pool.request_stop()

    pools = []
    tree = Supervisor("app", [Worker("a", run), Worker("b", run)])
    await supervisor.serve(tree, log=False, wait_ready=False, task_status=AtOnce())

    assert ran == []
    assert [worker.state for worker in pools[0].workers()] == ["stopped", "stopped"]


@pytest.mark.parametrize("depth", [1, 3])
async def test_b033_nested_supervisors_get_the_time_they_need(autojump_clock, depth):
    """B033, elixir-lang/elixir#1546: a nested supervisor has no stop limit but what its children may need."""
    cleaning = Cleaning(4)
    tree = Supervisor("s0", [Worker(f"w{n}", cleaning, shutdown=5) for n in (1, 2, 3)])
    for level in range(1, depth + 1):
        tree = Supervisor(f"s{level}", [tree])
    async with under_test(tree) as trial:
        await turns(5)
        report = await trial.pool.shutdown()

    # 12 s are within the tree's own stop_timeout, 15 s by default.
    ends = [(name, when) for name, what, when in cleaning.notes if what == "clean"]
    assert ends == [("w3", 4), ("w2", 8), ("w1", 12)]
    assert (report.forced, trial.ended_at) == ((), 12)


async def twenty_seconds(ctx):
    """Needs 20 s to stop, and can be cancelled."""
    with ctx.busy():
        await ctx.sleep(1000)
        await trio.sleep(20)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("pair", ["INT INT", "TERM TERM", "TERM INT"])
async def test_b036_second_signal_forces(autojump_clock, again, pair):
    """B036, sanic-org/sanic#2621: a second stop signal turns the orderly stop into a forced one."""
    first, second = (getattr(signal, f"SIG{name}") for name in pair.split())
    tree = Supervisor(
        "app", [Worker("other", deaf, shutdown=30), Worker("w", twenty_seconds, shutdown=30)]
    )
    async with under_test(tree, signals=True, stop_timeout=inf) as trial:
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(first)
        if again:
            await at(3)
            signal.raise_signal(second)
        report = await trial.pool.shutdown()

    # The other one hears nothing until its own deadline, 30 s after it is asked.
    assert trial.times("Ended", "app/w/0") == [3 if again else 20]
    assert trial.ended_at == (3 if again else 50)
    assert ("app/w/0" in report.forced) is again


class Tidy(Actor):
    """Its clean-up takes 20 s."""

    async def stopped(self, ctx):
        await trio.sleep(20)


@pytest.mark.parametrize("how", ["signal", "cancel", "tree limit", "deadline", "none"])
@pytest.mark.parametrize("ends", ["stopped", "failed before"])
async def test_b036_an_actor_in_its_clean_up_is_forced_too(autojump_clock, how, ends):
    """B036, sanic-org/sanic#2621: the shield of an actor's clean-up ends with the stop deadline, or when the stop is forced."""

    class Fails(Tidy):
        async def started(self, ctx):
            if ends == "failed before":
                raise OSError("down")

    worker = Worker("w", Fails, shutdown=3 if how == "deadline" else 30)
    options = {"stop_timeout": 3 if how == "tree limit" else inf}
    async with under_test(Supervisor("app", [worker]), signals=True, **options) as trial:
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(signal.SIGINT)
        await at(3)
        if how == "signal":
            signal.raise_signal(signal.SIGINT)
        elif how == "cancel":
            trial.pool.cancel()
        report = await trial.pool.shutdown()

    assert trial.ended_at == (20 if how == "none" else 3)
    assert report.forced == (() if how == "none" else ("app/w/0",))


class Blocked:
    """A worker in a thread that a test releases."""

    def __init__(self, *, abandon: bool) -> None:
        self.released = threading.Event()
        self.began = trio.Event()
        self.abandon = abandon

    def block(self) -> None:
        trio.from_thread.run_sync(self.began.set)
        self.released.wait()

    async def __call__(self, ctx):
        with ctx.busy():
            await trio.to_thread.run_sync(self.block, abandon_on_cancel=self.abandon)


async def test_b037_thread_that_may_be_abandoned(autojump_clock):
    """B037, procrastinate-org/procrastinate#1185: a thread left behind is reported as abandoned, the run ends in time."""
    blocked = Blocked(abandon=True)
    autojump_clock.autojump_threshold = inf
    async with under_test(Supervisor("app", [Worker("w", blocked, shutdown=10)])) as trial:
        await blocked.began.wait()
        autojump_clock.autojump_threshold = 0
        report = await trial.pool.shutdown()
        blocked.released.set()

    assert trial.ended_at == 10
    assert (report.abandoned_threads, report.forced) == (1, ("app/w/0",))
    assert trial.times("Abandoned", "app/w/0") == [10]


async def test_b037_thread_that_must_be_waited_for(autojump_clock):
    """B037, procrastinate-org/procrastinate#1185: a thread that cannot be abandoned is named until it ends."""
    blocked = Blocked(abandon=False)
    autojump_clock.autojump_threshold = inf
    async with under_test(Supervisor("app", [Worker("w", blocked, shutdown=10)])) as trial:
        await blocked.began.wait()
        autojump_clock.autojump_threshold = 0
        trial.pool.request_stop()
        await at(119)
        assert (trial.pool.info("w").state, trial.pool.info("w").phase) == ("running", "stopping")
        await at(120)
        autojump_clock.autojump_threshold = inf
        blocked.released.set()
        await trial.pool.wait_stopped()
        autojump_clock.autojump_threshold = 0

    stuck = [e for e in trial.seen if e.kind == "Stuck"]
    assert (stuck[0].time, stuck[0].thread, stuck[0].path) == (10, True, "app/w/0")
    assert "still waiting for a thread" in stuck[0].sentence()
    assert trial.ended_at == 120
    report = trial.pool.stop_report
    assert (report.abandoned_threads, report.forced, report.overrun) == (0, ("app/w/0",), 110)
