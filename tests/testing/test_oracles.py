"""Oracles: what they say of traces that were made wrong on purpose, and of right ones."""

from __future__ import annotations

import math
import random

import attrs
import pytest
import trio
from hypothesis import given, strategies as st

from actors.resilience import BreakerPolicy, CircuitBreaker
from supervision import RestartPolicy, Supervisor, TreeFailed, Worker, supervisor
from supervision.events import RestartScheduled, Started
from supervision.testing import (
    DEFAULT,
    Deadlock,
    InvariantViolation,
    Life,
    Nondeterminism,
    Plan,
    Sim,
    TooLong,
    Trace,
    check_determinism,
    commands,
    faulty,
    idle,
    judge,
    operate,
    plans,
    schedules,
    simulate,
    sometimes,
    trees,
)
from supervision.testing.sometimes import forget_sometimes, never_held
from tests.properties.looking import looking

EXACT = RestartPolicy(jitter=0, initial_backoff=1, max_restarts=5)
TREE = Supervisor("t", [Worker("a", idle, restart=EXACT), Worker("b", idle)], intensity=3, period=5)


def traced(*fates: float) -> Trace:
    """The trace of a tree whose worker a crashes after these times, one a run."""
    plan = Plan(tuple(Life("crashes", after) for after in fates))
    with Sim() as sim:
        sim.supervise(faulty(TREE, {"t/a": plan}))
        sim.advance(30)
    return sim.trace


def test_who_waits_joins_the_restart_of_its_group() -> None:
    """A replica that waits for its own restart waits for the group's, if a sibling that was added meanwhile fails."""
    tree = Supervisor("t", [Worker("w", idle, restart=EXACT)], strategy="one_for_all")
    with Sim() as sim:
        pool = sim.supervise(faulty(tree))
        sim.grips["t/w/0"].crash()
        sim.advance(0.5)
        sim.run(pool.scale, "w", 2)
        sim.grips["t/w/1"].crash()
        sim.advance(10)
    judge(sim.trace)
    assert [e.time for e in sim.trace.of(Started) if e.path == "t/w/0"] == [0, 1.5]


def change(trace: Trace, kind, index: int, **fields) -> Trace:
    """The same trace, but for one event."""
    events = trace.trees[0].events
    found = [event for event in events if isinstance(event, kind)][index]
    events[events.index(found)] = attrs.evolve(found, **fields)
    return trace


def drop(trace: Trace, kind, index: int) -> Trace:
    """The same trace, less one event."""
    events = trace.trees[0].events
    events.remove([event for event in events if isinstance(event, kind)][index])
    return trace


def test_a_right_trace_passes() -> None:
    """A tree that keeps its promises has no findings."""
    trace = traced(1, 1)

    judge(trace)
    assert len(list(trace.of(RestartScheduled))) == 2


def test_a_wait_ends_with_the_supervisor() -> None:
    """A child whose supervisor gave up during its wait begins with the supervisor, not at the time that was decided."""
    slow = RestartPolicy(jitter=0, initial_backoff=0.5)
    inner = Supervisor(
        "in", [Worker("a", idle, restart=slow), Worker("b", idle, restart=slow)], intensity=1,
        restart=EXACT,
    )  # fmt: skip
    crash = Plan((Life("crashes", 0),))
    with Sim() as sim:
        sim.supervise(faulty(Supervisor("t", [inner]), {"t/in/a": crash, "t/in/b": crash}))
        sim.advance(5)
        sim.judge()
        assert [e.time for e in sim.trace.of(Started) if e.path == "t/in/a/0"] == [0, 1]


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("backoff_exact", lambda t: change(t, RestartScheduled, 0, delay=2.0)),
        ("backoff_exact", lambda t: change(t, RestartScheduled, 1, attempt=1, delay=1.0)),
        ("backoff_exact", lambda t: change(t, Started, 3, time=2.5)),
        ("intensity_respected", lambda t: change(t, RestartScheduled, 1, attempt=6)),
        ("no_orphans", lambda t: change(t, Started, 3, run=7)),
        ("no_orphans", lambda t: drop(t, Started, 0)),
        ("no_lost_restart", lambda t: drop(t, RestartScheduled, 1)),
    ],
)
def test_a_wrong_trace_is_found(name, spoil) -> None:
    """Each oracle speaks up, by its name, when what it stands for is broken."""
    oracle = next(oracle for oracle in DEFAULT if oracle.__name__ == name)
    # Two crashes and no end: the trace is judged while the second wait goes on.
    plan = Plan((Life("crashes", 1), Life("crashes", 1)))
    with Sim() as sim:
        sim.supervise(faulty(TREE, {"t/a": plan}))
        sim.advance(3.5)
        trace = sim.trace
        judge(trace, [oracle])
        spoil(trace)
        with pytest.raises(InvariantViolation, match=name):
            judge(trace, [oracle])


def test_a_breaker_that_half_opens_early_is_found() -> None:
    """Changes of breakers are judged by what they announced."""
    breaker = CircuitBreaker("db", BreakerPolicy(failures=1, open_for=2, jitter=0))

    async def calls(ctx) -> None:
        async def fail() -> None:
            raise OSError

        with pytest.raises(OSError):
            await breaker.call(fail)
        await trio.sleep(2)
        assert breaker.state.name == "HALF_OPEN"
        await trio.sleep_forever()

    with Sim() as sim:
        sim.supervise(Supervisor("t", [Worker("w", calls)]))
        sim.advance(3)
        sim.judge()
        changes = [e for e in sim.trace.events if type(e).__name__ == "BreakerChanged"]
        assert [e.new for e in changes] == ["open", "half_open"]
        events = sim.trace.trees[0].events
        events[events.index(changes[1])] = attrs.evolve(changes[1], time=1.5)
        with pytest.raises(InvariantViolation, match="breaker_generations"):
            sim.judge()


@given(data=st.data(), tree=trees(), schedule=schedules() | schedules(kind="pct"))
@looking(150)
def test_whatever_befalls_any_tree_the_invariants_hold(data, tree, schedule) -> None:
    """Drawn trees under drawn plans, commands and orders keep every promise."""
    plan, acts = data.draw(plans(tree)), data.draw(commands(tree))

    async def program() -> None:
        try:
            async with supervisor.running(faulty(tree, plan), log=False) as pool:
                await operate(pool, acts)
                await trio.sleep(20)
        except TreeFailed:
            pass

    simulate(program, schedule=schedule)


def test_a_failure_shows_the_timeline_and_how_to_replay_it() -> None:
    """The notes of a finding have a column for each child, what was expected, and one line to run it again."""
    with pytest.raises(AssertionError) as caught, Sim() as sim:
        sim.supervise(faulty(TREE, {"t/a": Plan((Life("crashes", 1),))}))
        sim.advance(3)
        raise AssertionError("mine")
    notes = "\n".join(caught.value.__notes__)
    assert "t/a/0 restarts in 1 s" in notes
    assert "expected: a start at 2" in notes
    assert "--supervision-schedule='fifo'" in notes


def test_a_deadlock_is_found_at_once() -> None:
    """A scenario that waits for what will never come says where it waits."""

    async def wait() -> None:
        await trio.Event().wait()

    with pytest.raises(Deadlock, match=r"Event\(\)\.wait\(\)"):
        simulate(wait)
    with pytest.raises(TooLong, match="100 virtual seconds"):
        simulate(_naps, horizon=100)


async def _naps() -> None:
    while True:
        await trio.sleep(7)


def test_what_is_not_deterministic_is_found() -> None:
    """Two runs of one schedule are compared event by event."""

    async def body(ctx) -> None:
        await trio.sleep(1)
        raise OSError

    async def program(source=None) -> None:
        tree = Supervisor("t", [Worker("w", body, restart=RestartPolicy(jitter=0.5))])
        with trio.move_on_after(10):
            await supervisor.serve(tree, log=False, random=source)

    check_determinism(program)
    with pytest.raises(Nondeterminism, match="restarts in"):
        check_determinism(lambda: program(random.SystemRandom()))


def test_sometimes_remembers_what_never_held() -> None:
    """A condition that held once is content; one that never did is named."""
    try:
        for value in range(3):
            sometimes("kit: it is two", value == 2)
            sometimes("kit: it is nine", value == 9)
        assert [n for n in never_held() if n.startswith("kit: ")] == ["kit: it is nine"]
    finally:
        forget_sometimes("kit: it is two", "kit: it is nine")


def test_an_invariant_of_ones_own_is_asked_too() -> None:
    """A user's oracle is a function of a tree's trace and a moment."""

    def never_twice(tree, at) -> None:
        if sum(isinstance(e, Started) and e.path == "t/a/0" for e in tree.events) > 1:
            raise InvariantViolation("never_twice", "it ran twice")

    with Sim(invariants=[never_twice]) as sim:
        pool = sim.supervise(faulty(TREE, {"t/a": Plan((Life("crashes", 1),))}))
        sim.judge()
        sim.advance(3)
        with pytest.raises(InvariantViolation, match="never_twice"):
            sim.judge()
        assert pool.info("a").run == 2


async def crash_once_and_again(ctx):
    """Both replicas crash at once, and the second one again after the restart."""
    await trio.sleep(1 if ctx.run <= 1 + ctx.replica else math.inf)
    raise ConnectionError


def test_a_crash_while_the_group_restarts_counts_as_nothing():
    """Under one for all, two crashes in one instant are one restart: the other child's own count stays as it was."""
    children = [Worker("a", crash_once_and_again, replicas=2, restart=EXACT), Worker("b", idle)]
    tree = Supervisor("t", children, strategy="one_for_all")
    with Sim() as sim:
        sim.supervise(tree)
        for _ in range(8):
            sim.advance_to_next()
            sim.judge()
    decisions = [e for e in sim.trace.trees[0].events if isinstance(e, RestartScheduled)]
    assert [(e.path, e.attempt) for e in decisions] == [("t/a/0", 1), ("t/a/1", 1)]


def test_what_was_declared_then_judges_what_happened_then() -> None:
    """A child that was removed and comes again under its name with another policy is judged by its own, each time."""
    patient, quick = (attrs.evolve(EXACT, max_restarts=n, initial_backoff=n) for n in (5, 1))
    with Sim() as sim:
        pool = sim.supervise(faulty(Supervisor("t", [Worker("a", idle)], auto_shutdown="never")))
        for policy in (quick, patient, quick):
            worker = faulty(Worker("x", idle, restart=policy, on_failed="hold"))
            sim.run(pool.start_child, "t", worker)
            sim.grips["t/x/0"].crash()
            sim.advance(5)
            if policy is quick:
                sim.grips["t/x/0"].crash()  # uses up its limit
                sim.settle()
            else:
                sim.run(pool.stop, "t/x/0")
            sim.run(pool.remove, "t/x")
        sim.judge()

    limits = [event.limit for event in sim.trace.of(RestartScheduled)]
    assert limits == [1, 5, 1]
