"""BACKPRESSURE and DLQ, as far as they concern mailboxes: small ones, cancelled receives, and poison."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, MailboxFull
from supervision import MailboxSpec, Supervisor, TreeFailed, Worker
from tests.cases.kit import at, policy, turns, under_test


class SlowStart(Actor):
    """Needs 1 s to become ready."""

    log: list

    async def started(self, ctx):
        await trio.sleep(1)
        ctx.after(0, "tick")

    async def handle(self, message):
        self.log.append((message, trio.current_time()))


@pytest.mark.parametrize("capacity", [0, 1])
async def test_b083_small_mailbox_filled_before_the_start(autojump_clock, capacity):
    """B083, tqwewe/kameo#84: the library's own messages do not share the user's limit, so a full mailbox blocks no start."""
    kind = type("Slow", (SlowStart,), {"log": []})
    sent = []

    async def tell(ref, message):
        await ref.tell(message)
        sent.append((message, trio.current_time()))

    worker = Worker("w", kind, mailbox=MailboxSpec(capacity=capacity))
    async with under_test(Supervisor("app", [worker])) as trial, trio.open_nursery() as nursery:
        ref = trial.pool.ref("w")
        for message in ("m1", "m2", "m3"):
            nursery.start_soon(tell, ref, message)
            await turns(3)
        await at(0.5)
        assert ref.mailbox.statistics().waiting == 3 - capacity
        await at(1)
        await turns(20)
        assert trio.current_time() == 1
        assert trial.pool.info("w").phase == "ready"
        assert ref.mailbox.statistics().waiting == 0

    assert [entry for entry in kind.log if entry[0] != "tick"] == [("m1", 1), ("m2", 1), ("m3", 1)]
    assert ("tick", 1) in kind.log
    assert sorted(sent) == [(f"m{n}", 0 if n <= capacity else 1) for n in (1, 2, 3)]


@pytest.mark.parametrize("overflow", ["reject", "drop_oldest", "drop_newest"])
async def test_b083_a_full_mailbox_delivers_timers(autojump_clock, overflow):
    """B083, tqwewe/kameo#84: a timer's message arrives although the mailbox is full, and displaces none of the user's."""
    handled = []

    class Slow(Actor):
        async def started(self, ctx):
            ctx.after(1, "tick")

        async def handle(self, message):
            handled.append(message)
            if message == "m1":
                await trio.sleep(2)

    worker = Worker("w", Slow, mailbox=MailboxSpec(capacity=1, overflow=overflow))
    async with under_test(Supervisor("app", [worker])) as trial:
        ref = trial.pool.ref("w")
        await ref.tell("m1")
        await turns(5)
        await ref.tell("m2")
        await at(1.5)
        if overflow == "reject":
            with pytest.raises(MailboxFull):
                await ref.tell("m3")
        else:
            await ref.tell("m3")
        await at(3)
        stats = ref.mailbox.statistics()

    kept = "m3" if overflow == "drop_oldest" else "m2"
    assert sorted(handled) == sorted(["m1", kept, "tick"])
    assert (stats.queued, stats.rejected + stats.dropped) == (0, 1)


@pytest.mark.parametrize("capacity", [0, 1, 5])
@pytest.mark.parametrize("limit", [0.1, 0.2, 0.4])
async def test_b085_cancelled_receive_takes_nothing(autojump_clock, capacity, limit):
    """B085, agronholm/anyio#146: cancelling a receive never consumes an item, also in the instant it arrives."""
    received = []

    async def consume(ctx):
        while len(received) < 10:
            with trio.move_on_after(limit):
                received.append(await ctx.mailbox.receive())

    worker = Worker("w", consume, mailbox=MailboxSpec(capacity=capacity))
    async with under_test(Supervisor("app", [worker])) as trial:
        ref = trial.pool.ref("w")
        for n in range(10):
            await at(0.2 * n)
            await ref.tell(n)
        with trio.fail_after(5):
            await trial.pool.wait_stopped()

    assert received == list(range(10))
    assert ref.mailbox.statistics().handled == 10


@pytest.mark.parametrize("capacity", [0, 1])
async def test_b085_cancelled_send_has_not_sent(autojump_clock, capacity):
    """B085, agronholm/anyio#146: a send that was cancelled while it waited delivered nothing; one that returned did."""
    received, sent = [], []

    async def consume(ctx):
        while True:
            await trio.sleep(0.3)
            with trio.move_on_after(0.1):
                received.append(await ctx.mailbox.receive())

    worker = Worker("w", consume, mailbox=MailboxSpec(capacity=capacity))
    async with under_test(Supervisor("app", [worker])) as trial:
        ref = trial.pool.ref("w")
        for n in range(30):
            with trio.move_on_after(0.1) as scope:
                await ref.tell(n)
            if not scope.cancelled_caught:
                sent.append(n)
        await trio.sleep(20)

    assert received == sent
    assert 0 < len(sent) < 30


async def test_b085_a_handover_ends_when_it_is_taken(autojump_clock):
    """B085, agronholm/anyio#146: with limit 0 a send returns when the reader has taken the message, not before."""

    class Slow(Actor):
        async def handle(self, message):
            await trio.sleep(1)

    returned = []
    worker = Worker("w", Slow, mailbox=MailboxSpec(capacity=0))
    async with under_test(Supervisor("app", [worker])) as trial, trio.open_nursery() as nursery:

        async def tell(message):
            await trial.pool.ref("w").tell(message)
            returned.append((message, trio.current_time()))

        for message in (1, 2, 3):
            nursery.start_soon(tell, message)
            await turns(3)

    assert returned == [(1, 0), (2, 1), (3, 2)]


class Poisoned(Actor):
    """Always fails on "p"."""

    log: list

    async def handle(self, message):
        self.log.append((message, self.ctx.run, trio.current_time()))
        if message == "p":
            raise ValueError("p")


async def test_b107_poison_is_set_aside_before_the_limit(autojump_clock):
    """B107, kquick/Thespian#21 and commanded/commanded#192: the poison limit is reached before the restart limit."""
    kind = type("Poisoned", (Poisoned,), {"log": []})
    # Three deliveries: the first, and two more.
    worker = Worker("w", kind, restart=policy(1), mailbox=MailboxSpec(redeliver=2))
    tree = Supervisor("app", [worker], intensity=5, period=60)
    async with under_test(tree) as trial:
        await trial.pool.ref("w").tell("p")
        await trial.pool.ref("w").tell("m2")
        await at(4)
        assert (trial.pool.info("w").state, trial.pool.info("w").restarts) == ("running", 3)
        assert trial.pool.info("app").state == "running"
        letters = list(trial.pool.dead_letters)

    assert kind.log == [("p", 1, 0), ("p", 2, 1), ("p", 3, 2), ("m2", 4, 3)]
    assert [(letter.message, letter.reason, letter.deliveries) for letter in letters] == [
        ("p", "poison", 3)
    ]
    assert letters[0].run == 3
    assert str(letters[0].error) == "p"


async def test_b107_each_message_has_its_own_count(autojump_clock):
    """B107, kquick/Thespian#21: deliveries are counted by message; a stop that interrupts one costs it none."""
    seen = []

    class Picky(Actor):
        async def handle(self, message):
            seen.append(message)
            if message in ("p", "q") or seen.count(message) == 1:
                raise ValueError(message)

    worker = Worker("w", Picky, restart=policy(), mailbox=MailboxSpec(redeliver=1))
    async with under_test(Supervisor("app", [worker])) as trial:
        for message in ("p", "m", "q", "n"):
            await trial.pool.ref("w").tell(message)
        await at(1)
        dead = [letter.message for letter in trial.pool.dead_letters]
        assert trial.pool.ref("w").mailbox.statistics().handled == 2

    assert seen == ["p", "p", "m", "m", "q", "q", "n", "n"]
    assert dead == ["p", "q"]


async def test_b107_poison_ask_is_answered(autojump_clock):
    """B107, kquick/Thespian#21: whoever asked with a poisonous message is told at its first failure; it is not given again."""
    kind = type("Poisoned", (Poisoned,), {"log": []})
    worker = Worker("w", kind, restart=policy(1), mailbox=MailboxSpec(redeliver=2))
    async with under_test(Supervisor("app", [worker])) as trial:
        with pytest.raises(Exception, match="p") as failed:
            await trial.pool.ref("w").ask("p")
        assert isinstance(failed.value.__cause__, ValueError)
        assert trio.current_time() == 0
        await at(5)
        assert trial.pool.info("w").run == 2

    assert kind.log == [("p", 1, 0)]


async def test_b107_without_redelivery_no_message_comes_twice(autojump_clock):
    """B107, commanded/commanded#192: by default a message in hand at a failure is not given again, whatever it does."""
    kind = type("Poisoned", (Poisoned,), {"log": []})
    worker = Worker("w", kind, restart=policy(1, max_restarts=5))
    async with under_test(Supervisor("app", [worker])) as trial:
        for _ in range(6):
            await trial.pool.ref("w").tell("p")
        await trial.pool.wait_stopped()

    assert isinstance(trial.error, TreeFailed)
    assert [when for _, _, when in kind.log] == [0, 1, 2, 3, 4, 5]
