"""Messages are known by number: what the counts of a mailbox do not show."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import trio

from actors import Actor, MailboxSpec, Overflow
from supervision import RestartPolicy, Supervisor, Worker
from supervision.testing import InvariantViolation, Sim, every_message_accounted, faulty

SAME = "the same object, again and again"
ORDER = ("first", "second", "third")


class Slow(Actor):
    """Takes a second for each message."""

    async def handle(self, message) -> None:
        await trio.sleep(1)


def tree(**mailbox) -> Supervisor:
    restart = RestartPolicy(initial_backoff=1, jitter=0)
    return Supervisor("t", [Worker("w", Slow, mailbox=MailboxSpec(**mailbox), restart=restart)])


@pytest.mark.parametrize("overflow", list(Overflow))
@pytest.mark.parametrize("capacity", [0, 1, 3])
def test_what_mailboxes_do_is_in_order(overflow, capacity) -> None:
    """Waiting, dropping, rejecting, delivering again, asking too briefly and stopping leave each message one end."""
    with Sim() as sim:
        pool = sim.supervise(faulty(tree(capacity=capacity, overflow=overflow, redeliver=1)))
        ref = pool.ref("w")
        for _ in range(3):
            for _ in range(4):
                sim.start(ref.tell, SAME)
            sim.start(ref.ask, SAME, 0.5)
            sim.advance(0.25)
            sim.grips["t/w/0"].crash()
            sim.advance(3.5)
            sim.judge()
        sim.start(ref.tell, SAME)
        pool.request_stop("enough")
        sim.advance(20)
        sim.judge()
        (book,) = sim.trace.trees[0].postbooks.values()

    assert book.faults == []


def full(sim):
    """The mailbox of an actor that has one message in hand and three that wait."""
    pool = sim.supervise(faulty(tree(capacity=3, redeliver=1)))
    for message in ("now", *ORDER):
        sim.run(pool.ref("w").tell, message)
    return pool.ref("w").mailbox


def test_a_message_that_is_lost_is_found_though_the_counts_agree() -> None:
    """What was taken out of the queue has to become something."""
    with Sim(invariants=[every_message_accounted]) as sim:
        box = full(sim)
        sim.judge()
        box.queue.popleft()
        box.sent -= 1
        with pytest.raises(
            InvariantViolation, match=r"number 2 \('first'\) was taken out, and nothing"
        ):
            sim.judge()


def test_a_message_that_comes_out_of_turn_is_found(monkeypatch) -> None:
    """One that is put back behind others is not at its place."""
    with Sim(invariants=[every_message_accounted]) as sim:
        box = full(sim)
        monkeypatch.setattr(type(box.queue), "appendleft", type(box.queue).append)
        sim.grips["t/w/0"].crash()
        sim.advance(5)
        with pytest.raises(InvariantViolation, match=r"number 1, which is older"):
            sim.judge()


class LastInFirstServed(OrderedDict):
    """A line that is served from its end."""

    def popitem(self, last=True):
        return super().popitem(last=True)


def test_a_sender_that_is_let_in_out_of_turn_is_found() -> None:
    """Room goes to whoever has waited for it longest."""
    with Sim(invariants=[every_message_accounted]) as sim:
        box = full(sim)
        for message in ("fourth", "fifth"):
            sim.start(box.put, message)
        sim.settle()
        box.waiters = LastInFirstServed(box.waiters)
        sim.advance(1)
        with pytest.raises(InvariantViolation, match=r"'fifth'\) overtakes 'fourth', which waits"):
            sim.judge()


def test_a_sender_that_gives_up_waiting_holds_up_nobody() -> None:
    """The one behind it is not out of turn."""
    with Sim(invariants=[every_message_accounted]) as sim:
        box = full(sim)
        impatient = sim.start(box.put, "fourth")
        sim.start(box.put, "fifth")
        sim.settle()
        impatient.cancel()
        sim.advance(20)
        sim.judge()
        assert box.handled == 5


@pytest.mark.parametrize("capacity", [0, 1, 2])
def test_who_waits_before_the_first_run_is_in_line_too(capacity) -> None:
    """A mailbox without room takes messages for a child that has not been started yet."""
    with Sim(invariants=[every_message_accounted]) as sim:
        late = Worker("w", Slow, mailbox=MailboxSpec(capacity=capacity))
        first = Worker("first", Slow, ready="signal")
        pool = sim.supervise(faulty(Supervisor("t", [first, late])), wait_ready=False)
        for message in ORDER:
            sim.start(pool.ref("w").tell, message)
        sim.settle()
        assert pool.ref("w").mailbox.statistics().waiting == 3 - capacity
        sim.grips["t/first/0"].ctx.started()
        sim.advance(5)
        sim.judge()
        assert pool.ref("w").mailbox.handled == 3
