"""Messages in hard times: none is lost without a trace, and everybody who waits is told."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import ClassVar

import pytest
import trio

from actors import Actor, ActorStopped, AskTimeout, HandlerFailed, MailboxSpec
from supervision import RestartPolicy, Supervisor, Worker
from tests.adversity.helpers import account, idle, running

FOR_EVER = RestartPolicy(max_restarts=0, initial_backoff=0)


class Fragile(Actor):
    """Fails at some messages, once or always."""

    seen: ClassVar[Counter[int]] = Counter()

    async def handle(self, message) -> object:
        number, fails = message
        self.seen[number] += 1
        if fails == "always" or (fails == "once" and self.seen[number] == 1):
            raise OSError(number)
        return number


@pytest.mark.slow
@pytest.mark.parametrize("redeliver", [0, 2])
@pytest.mark.parametrize("capacity", [16, 1024])
async def test_a_hundred_thousand_messages_to_a_crashing_actor(
    redeliver, capacity, autojump_clock
) -> None:
    """Each of 100,000 messages is handled, or is a dead letter with its error; each delivery is counted."""
    total = 100_000
    random = Random(1)
    fates = [random.choices(["", "once", "always"], [9990, 7, 3])[0] for _ in range(total)]
    Fragile.seen = seen = Counter()
    worker = Worker(
        "w",
        Fragile,
        restart=FOR_EVER,
        mailbox=MailboxSpec(capacity=capacity, redeliver=redeliver),
    )
    async with running(Supervisor("t", [worker, Worker("idle", idle)])) as pool:
        ref = pool.ref("w")
        for number, fails in enumerate(fates):
            await ref.tell((number, fails))
        while ref.mailbox.statistics().queued or ref.mailbox.statistics().in_hand:
            await trio.sleep(1)
        mail = ref.mailbox.statistics()
        letters = pool.dead_letters.statistics().by_reason

    always, once = fates.count("always"), fates.count("once")
    dead = always if redeliver else always + once
    assert (mail.sent, mail.handled, mail.dead_lettered) == (total, total - dead, dead)
    assert mail.dropped == mail.rejected == 0
    assert letters == {"poison" if redeliver else "failed": dead}
    for number, fails in enumerate(fates):
        again = {"": 0, "once": min(1, redeliver), "always": redeliver}[fails]
        assert seen[number] == 1 + again


class Moody(Actor):
    """Takes its time, then does as told."""

    async def handle(self, message) -> object:
        await trio.sleep(1)
        if message == "crash":
            raise OSError
        return message


@pytest.mark.parametrize("end", ["crash", "restart", "stop", "shutdown", "cancel", "disable"])
@pytest.mark.parametrize("capacity", [0, 1, 8])
async def test_every_ask_ends(end, capacity, autojump_clock) -> None:
    """Asks in hand, in the queue and waiting for room all end, with an answer or with the reason, without a timeout."""
    answers: list[object] = []

    async def ask(ref, message) -> None:
        try:
            answers.append(await ref.ask(message, timeout=1000))
        except (HandlerFailed, ActorStopped) as error:
            answers.append(error)

    worker = Worker("w", Moody, restart=FOR_EVER, mailbox=MailboxSpec(capacity=capacity))
    async with running(Supervisor("t", [worker, Worker("idle", idle)])) as pool:
        ref = pool.ref("w")
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(ask, ref, "crash" if end == "crash" and number < 2 else number)
            await trio.sleep(0.5)
            if end in ("restart", "stop", "disable"):
                await getattr(pool, end)("w")
            elif end == "shutdown":
                await pool.shutdown()
            elif end == "cancel":
                pool.cancel()

    assert len(answers) == 5
    assert trio.current_time() <= 5
    good = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(good) == {"crash": 3, "restart": 5, "cancel": 0}.get(end, 1)
    sent, found = account(ref)
    assert sent == found == 5


async def test_asks_end_at_their_timeout_while_nobody_runs(autojump_clock) -> None:
    """An ask that waits through a long backoff times out as asked, and is then skipped by the next run."""
    handled: list[object] = []

    class Late(Actor):
        async def handle(self, message) -> None:
            handled.append(message)
            if message == "crash":
                raise OSError

    restart = RestartPolicy(initial_backoff=30, jitter=0)
    async with running(Supervisor("t", [Worker("w", Late, restart=restart)])) as pool:
        ref = pool.ref("w")
        await ref.tell("crash")
        await trio.sleep(1)
        with pytest.raises(AskTimeout):
            await ref.ask("late", timeout=5)
        assert trio.current_time() == 6
        await ref.tell("last")
        await trio.sleep(30)

        assert handled == ["crash", "last"]
        assert ref.mailbox.statistics().skipped == 1
        assert account(ref) == (3, 3)


@pytest.mark.parametrize("kind", ["transient", "permanent", "temporary"])
async def test_a_worker_returns_while_senders_wait(kind, autojump_clock) -> None:
    """Senders that wait for room when a worker returns are sent back at once, unless another run will read."""
    outcomes: list[object] = []
    taken: list[object] = []

    async def takes_two(ctx) -> None:
        await trio.sleep(1)
        taken.append(await ctx.mailbox.receive())
        taken.append(await ctx.mailbox.receive())

    async def sender(ref, number) -> None:
        try:
            await ref.tell(number)
        except ActorStopped as error:
            outcomes.append(error.message)

    worker = Worker(
        "w",
        takes_two,
        restart=RestartPolicy(type=kind, max_restarts=0, initial_backoff=1, jitter=0),
        mailbox=MailboxSpec(capacity=2),
    )
    async with running(Supervisor("t", [worker, Worker("idle", idle)])) as pool:
        ref = pool.ref("w")
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(sender, ref, number)
        mail = ref.mailbox.statistics()

    assert mail.waiting == 0
    assert account(ref)[0] == account(ref)[1] == 10
    if kind == "permanent":
        assert outcomes == []
    else:
        assert len(outcomes) == 6
        assert not {*taken} & {*outcomes}
        assert trio.current_time() == 1


async def test_a_message_that_cannot_be_compared_harms_nobody(autojump_clock) -> None:
    """A message whose comparison raises, as an array's does, may lie in a queue that timers look through."""
    got: list[object] = []

    class Hostile:
        __hash__ = None

        def __eq__(self, other) -> bool:
            raise ValueError("ambiguous")

        def __bool__(self) -> bool:
            raise ValueError("ambiguous")

    class Busy(Actor):
        async def started(self, ctx) -> None:
            ctx.every(1, "tick")

        async def handle(self, message) -> None:
            got.append(type(message))
            await trio.sleep(10)

    async with running(Supervisor("t", [Worker("w", Busy)])) as pool:
        ref = pool.ref("w")
        for _ in range(3):
            await ref.tell(Hostile())
        await trio.sleep(45)
        assert got.count(Hostile) == 3
        assert got.count(str) >= 1
        await pool.stop("w")
    assert account(ref)[0] == account(ref)[1]


async def test_a_function_that_returns_owes_its_asker_an_answer(autojump_clock) -> None:
    """An ask in the hand of a function that returns is answered with None, as by a handler that returns nothing."""

    async def takes(ctx) -> None:
        await ctx.mailbox.receive()

    async with running(Supervisor("t", [Worker("w", takes), Worker("idle", idle)])) as pool:
        assert await pool.ref("w").ask("?", timeout=1000) is None

    assert trio.current_time() == 0


async def test_what_a_function_has_finished_is_not_interrupted(autojump_clock) -> None:
    """A function that was stopped while it waited for its next message has handled the one before."""

    async def works(ctx) -> None:
        async for _ in ctx.mailbox:
            with ctx.busy():
                await trio.sleep(2)

    async with running(Supervisor("t", [Worker("w", works)])) as pool:
        ref = pool.ref("w")
        await ref.tell("m")
        await trio.sleep(1)
    mail = ref.mailbox.statistics()

    assert trio.current_time() == 2
    assert (mail.sent, mail.handled, mail.dead_lettered) == (1, 1, 0)
