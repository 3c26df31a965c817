"""Doubles of what workers talk to, and the plans that make workers fail."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, MailboxSpec
from supervision import OnFailed, RestartPolicy, Supervisor, Worker
from supervision.testing import (
    Command,
    FakeNetwork,
    InjectedFault,
    Life,
    Line,
    Plan,
    Sim,
    faulty,
    idle,
    memory_streams,
    operate,
)

EXACT = RestartPolicy(jitter=0, initial_backoff=1, max_restarts=5)


async def echo(stream) -> None:
    async for data in stream:
        await stream.send_all(data)


def test_a_worker_talks_to_a_server_in_memory() -> None:
    """Connections are made, data crosses with the line's lag, and a line that is down fails."""

    async def ask(network, text) -> bytes:
        async with await network.connect("db") as stream:
            await stream.send_all(text)
            return await stream.receive_some(100)

    with Sim() as sim:
        network = FakeNetwork(sim.nursery)
        network.listen("db", echo)
        assert sim.run(ask, network, b"hello") == b"hello"
        network.line("db").lag = 2
        assert sim.run(ask, network, b"slow", within=10) == b"slow"
        assert sim.now == 6
        network.line("db").down = True
        with pytest.raises(InjectedFault):
            sim.run(ask, network, b"x")
        with pytest.raises(OSError, match="nobody listens"):
            sim.run(network.connect, "elsewhere")


def test_what_a_line_holds_arrives_late() -> None:
    """What is sent while a line holds is neither lost nor refused: it arrives when the line is let go."""
    with Sim() as sim:
        line, arrived = Line(), []

        async def send(what) -> None:
            await line.cross()
            arrived.append((what, sim.now))

        line.held = True
        sim.start(send, "early")
        sim.advance(5)
        assert arrived == []
        line.held = False
        sim.run(send, "later")

    assert line.held is False
    assert arrived == [("early", 5), ("later", 5)]


def test_a_silent_line_runs_into_the_callers_timeout() -> None:
    """Nothing arrives, nobody is told, and time decides."""

    async def ask(line) -> None:
        ours, _theirs = memory_streams(line)
        with trio.fail_after(5):
            await ours.send_all(b"x")

    line = Line()
    line.silent = True
    with Sim() as sim:
        with pytest.raises(trio.TooSlowError):
            sim.run(ask, line, within=10)
        assert sim.now == 5


@pytest.mark.parametrize(
    ("life", "state", "at"),
    [
        (Life("returns", 2), "stopped", 2),
        (Life("crashes", 2), "restarting", 2),
        (Life("cancels", 2), "stopped", 2),
        (Life("hangs", 2), "running", 0),
        (Life("slow", 2), "running", 0),
        (Life("runs"), "running", 0),
    ],
)
def test_a_life_ends_as_it_says(life, state, at) -> None:
    """A planned run ends in that way, at that time."""
    with Sim() as sim:
        pool = sim.supervise(
            faulty(
                Supervisor("t", [Worker("w", idle, restart=EXACT), Worker("x", idle)]),
                {"t/w": Plan((life,))},
            )
        )
        sim.advance(2.5)
        info = pool.info("w")
        assert (info.state, info.since) == (state, at)


@pytest.mark.parametrize(("life", "ends"), [(Life("stubborn", 3), 4), (Life("unclean", 2), 3)])
def test_a_life_can_resist_its_stop(life, ends) -> None:
    """A stubborn run goes on after it was cancelled; an unclean one raises when it ends."""
    with Sim() as sim:
        pool = sim.supervise(
            faulty(Supervisor("t", [Worker("w", idle)]), {"t/w": Plan((life,))}), stop_timeout=60
        )
        sim.advance(1)
        sim.start(pool.shutdown)
        sim.advance(10)
        ended = next(e for e in sim.trace.events if e.path == "t/w/0" and e.kind == "Ended")
        assert ended.time == ends
        assert (ended.error is not None) == (life.kind == "unclean")


class Counter(Actor):
    """Counts what it handled, in all runs."""

    handled: list[object] = []  # noqa: RUF012 - one list for all instances on purpose

    async def handle(self, message) -> None:
        await trio.sleep(1)
        self.handled.append(message)


def test_an_actor_fails_with_the_message_in_hand() -> None:
    """A grip's crash hits the handler; the message is redelivered, then set aside, as the mailbox says."""
    worker = Worker(
        "w", Counter, restart=EXACT, mailbox=MailboxSpec(redeliver=1), on_failed=OnFailed.HOLD
    )
    Counter.handled.clear()
    message = "twice"
    with Sim() as sim:
        pool = sim.supervise(faulty(Supervisor("t", [worker])))
        sim.grips.spoil(message, times=2)
        sim.run(operate, pool, [Command(0, "tell", "w", message=7)])
        sim.advance(0.5)
        sim.grips["t/w/0"].crash()
        sim.settle()
        assert Counter.handled == []
        sim.advance(2)
        assert Counter.handled == [7]
        sim.run(pool.ref("w").tell, message)
        sim.advance(10)
        assert [letter.message for letter in pool.dead_letters] == [message]
        sim.judge()


def test_a_wrong_plan_is_refused() -> None:
    """Plans by path are for whole trees."""
    with pytest.raises(TypeError, match="for a Supervisor"):
        faulty(Worker("w", idle), {"t/w": Plan()})
