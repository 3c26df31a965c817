"""The run that plain code steps: instants, time, ends, and what it refuses."""

from __future__ import annotations

import threading

import pytest
import trio

from supervision import RestartPolicy, Supervisor, Worker, supervisor
from supervision.testing import (
    InjectedFault,
    Life,
    Livelock,
    RealWorld,
    Schedule,
    Sim,
    Survivors,
    TooLong,
    fault_point,
    faulty,
    idle,
    replay,
)
from supervision.testing.simulate import simulate
from supervision.testing.trace import Trace

EXACT = RestartPolicy(jitter=0, initial_backoff=1, max_restarts=3)


async def dies(ctx) -> None:
    await trio.sleep(2)
    raise OSError


TREE = Supervisor("t", [Worker("a", dies, restart=EXACT), Worker("b", idle, replicas=2)])


@pytest.mark.parametrize("backend", ["loop", "guest"])
def test_time_moves_only_when_told(backend) -> None:
    """Nothing passes by itself, and each timer fires at its very time."""
    with Sim(backend=backend) as sim:
        pool = sim.supervise(TREE)
        assert (sim.now, pool.info("a").state) == (0, "running")
        sim.advance(1.5)
        assert pool.info("a").run == 1
        sim.advance_to_next()
        assert (sim.now, pool.info("a").state) == (2, "restarting")
        sim.advance_to_next()
        assert (sim.now, pool.info("a").run) == (3, 2)
        sim.judge()


def test_both_backends_give_the_same_trace() -> None:
    """What happens does not depend on how the loop is stepped."""

    def trace(backend, text) -> list[str]:
        with Sim(backend=backend, schedule=replay(text)) as sim:
            sim.supervise(TREE)
            sim.advance(20)
        return sim.trace.lines()

    for text in ("fifo", "fifo except 0:1, 1:2, 2:1, 5:1"):
        assert trace("loop", text) == trace("guest", text)
    assert len(trace("loop", "fifo")) > 20


def test_what_is_started_happens_at_the_next_settling() -> None:
    """Several calls can be put into one instant."""
    seen = []

    async def note(what) -> str:
        seen.append(what)
        return what.upper()

    with Sim() as sim:
        first, second = sim.start(note, "a"), sim.start(note, "b")
        assert seen == []
        assert not first.done
        sim.settle()
        assert seen == ["a", "b"]
        assert (first.value(), second.value()) == ("A", "B")


def test_run_gives_a_call_the_time_it_is_allowed() -> None:
    """`run` advances as far as needed and no further, and refuses what takes longer."""

    async def nap(seconds) -> float:
        await trio.sleep(seconds)
        return trio.current_time()

    with Sim() as sim:
        assert sim.run(nap, 3, within=5) == 3
        assert sim.now == 3
        with pytest.raises(TooLong, match="within 1 virtual seconds"):
            sim.run(nap, 3, within=1)
        assert sim.now == 4


def test_an_error_of_a_call_is_its_own() -> None:
    """What a call raises comes out of `value` and `run`, and disturbs nobody else."""

    async def fail() -> None:
        raise KeyError("x")

    with Sim() as sim:
        pool = sim.supervise(TREE)
        with pytest.raises(KeyError):
            sim.run(fail)
        call = sim.start(fail)
        sim.settle()
        assert isinstance(call.error, KeyError)
        assert pool.health().live


def test_a_livelock_is_found() -> None:
    """Tasks that never wait end the test instead of hanging it."""

    async def spin() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    sim = Sim()
    sim.start(spin)
    with pytest.raises(Livelock):
        sim.settle()
    sim.close()


def test_tasks_that_survive_are_reported() -> None:
    """Closing a sim raises if something in it cannot be cancelled, and the next sim opens all the same."""

    async def undead() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

    sim = Sim()
    sim.start(undead)
    sim.settle()
    with pytest.raises(Survivors, match="undead"):
        sim.close()
    with Sim() as after:
        assert after.now == 0


def test_clean_up_may_take_virtual_time() -> None:
    """A stubborn run ends in its own time when the sim is closed."""
    ended = []

    async def stubborn(ctx) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(7)
            ended.append(trio.current_time())

    with Sim() as sim:
        sim.supervise(Supervisor("t", [Worker("w", stubborn)]))
        sim.advance(1)
    assert ended == [8]


def test_a_thread_in_virtual_time_is_refused() -> None:
    """A test whose timeouts would mean nothing says so, unless it opts in."""
    gate = threading.Event()
    with Sim() as sim:
        sim.start(trio.to_thread.run_sync, gate.wait)
        with pytest.raises(RealWorld, match=r"(?s)a thread.*\n  run_sync: "):
            sim.settle()
        gate.set()
    with Sim(real=True) as sim:
        assert sim.run(trio.to_thread.run_sync, lambda: 7) == 7


def test_a_socket_in_virtual_time_is_refused() -> None:
    """Waiting for a real socket is an error that names the double, and who waits."""

    async def listen() -> None:
        ours, theirs = trio.socket.socketpair()
        with ours, theirs:
            await ours.recv(1)

    with Sim() as sim:
        sim.start(listen)
        with pytest.raises(
            RealWorld, match=r"(?s)memory_streams.*listen.*ours\.recv\(1\)"
        ) as caught:
            sim.settle()
    assert "sleep_forever" not in str(caught.value)


def test_trees_of_the_tested_code_are_recorded_from_their_first_event() -> None:
    """A tree that is started deep inside a program is traced and judged like any other."""
    trace = Trace()

    async def program() -> int:
        async with supervisor.running(TREE, log=False) as pool:
            await trio.sleep(3.5)
            return pool.info("a").run

    assert simulate(program, trace=trace) == 2
    assert trace.lines()[0] == "0 t started (run 1)"
    assert [tree.root for tree in trace.trees] == [TREE]


def test_jitter_is_the_same_in_every_run() -> None:
    """A tree that was given no source of randomness gets one that repeats."""
    jittery = Supervisor("t", [Worker("a", dies, restart=RestartPolicy(jitter=0.5))])

    def waits() -> list[str]:
        with Sim() as sim:
            sim.supervise(jittery)
            sim.advance(30)
        return sim.trace.lines()

    assert waits() == waits()


def test_a_fault_point_does_nothing_until_it_is_armed() -> None:
    """Passages fail, wait or hang as armed, one life each, and nothing happens in production."""

    async def step() -> float:
        await fault_point("insert")
        return trio.current_time()

    async def outside() -> int:
        await fault_point("insert")
        return 1

    assert trio.run(outside) == 1
    with Sim() as sim:
        sim.arm("insert", Life("crashes"), Life("slow", 2))
        with pytest.raises(InjectedFault, match="insert"):
            sim.run(step)
        assert sim.run(step, within=2) == 2
        assert sim.run(step) == 2


def test_a_faulty_run_is_moved_by_its_grip() -> None:
    """A grip lets a live run of the user's own worker fail, end, hang or stop."""
    with Sim() as sim:
        pool = sim.supervise(faulty(Supervisor("t", [Worker("w", idle, restart=EXACT)])))
        sim.grips["t/w/0"].crash()
        sim.settle()
        assert isinstance(pool.info("w").error, InjectedFault)
        assert sim.grips == {}
        sim.advance(1)
        sim.grips["t/w/0"].finish()
        sim.settle()
        assert pool.info("w").state == "stopped"


def test_an_override_replaces_every_schedule(monkeypatch) -> None:
    """The command line's schedule wins over the test's own."""
    monkeypatch.setattr(Sim, "override", "fifo except 0:1")
    seen = []

    async def note(what) -> None:
        seen.append(what)

    with Sim(schedule=Schedule()) as sim:
        seen.clear()
        sim.start(note, "a")
        sim.start(note, "b")
    assert sorted(seen) == ["a", "b"]
    assert "fifo except 0:1" in str(sim.schedule)
