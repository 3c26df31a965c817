"""Little room and much to do: mailboxes of one message or none beside timers, replicas that share the work."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, ActorStopped, HandlerFailed, MailboxFull, MailboxSpec
from supervision import Supervisor, Worker
from tests.adversity.helpers import AT_ONCE, account, idle, running


class Ticking(Actor):
    """Works for a second on each message, and is reminded more often than that."""

    async def started(self, ctx) -> None:
        ctx.every(0.3, "tick")

    async def handle(self, message) -> object:
        await trio.sleep(1)
        return message


async def ticking(ctx) -> None:
    """The same as a function."""
    ctx.every(0.3, "tick")
    async for message in ctx.mailbox:
        with ctx.busy():
            await trio.sleep(1)
            if message != "tick":
                ctx.answer_later().send(message)


@pytest.mark.parametrize("run", [Ticking, ticking])
@pytest.mark.parametrize("capacity", [0, 1, 2])
async def test_timers_do_not_keep_senders_out(run, capacity, autojump_clock) -> None:
    """However small its mailbox, an actor that always has a tick queued takes a message at least every second turn."""
    answers: list[tuple[object, float]] = []

    async def one(ref, number: int) -> None:
        answers.append((await ref.ask(number, timeout=20), trio.current_time()))

    async with running(
        Supervisor("t", [Worker("w", run, mailbox=MailboxSpec(capacity=capacity))])
    ) as pool:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(one, pool.ref("w"), number)
        sent, accounted = account(pool.ref("w"))

    assert sorted(number for number, _ in answers) == list(range(5))
    assert all(when <= 2 * place + 2 for place, (_, when) in enumerate(answers))
    assert sent == accounted


async def test_ticks_take_no_room_from_a_sender(autojump_clock) -> None:
    """A sender that waits has room as soon as a message is taken, whatever ticks are queued, and nobody overtakes it."""
    seen: list[object] = []
    admitted: list[float] = []

    class Slow(Actor):
        async def started(self, ctx) -> None:
            for number in range(3):
                ctx.after(0.5, f"tick {number}")

        async def handle(self, message) -> None:
            seen.append(message)
            await trio.sleep(1)

    async def wait_for_room(ref) -> None:
        await ref.tell("third")
        admitted.append(trio.current_time())

    tree = Supervisor("t", [Worker("w", Slow, mailbox=MailboxSpec(capacity=1))])
    async with running(tree) as pool, trio.open_nursery() as nursery:
        ref = pool.ref("w")
        await ref.tell("first")
        await trio.sleep(0.1)
        await ref.tell("second")
        await trio.sleep(0.5)  # the ticks are queued behind it
        nursery.start_soon(wait_for_room, ref)
        await trio.sleep(0.9)
        with pytest.raises(MailboxFull):
            ref.tell_nowait("pushed in")
        await trio.sleep(5)

    assert admitted == [1.0]
    assert seen == ["first", "second", "tick 0", "tick 1", "tick 2", "third"]


async def test_replicas_share_what_is_sent_to_their_name(autojump_clock) -> None:
    """Who looks the name up for each message sends to all replicas in turn, not to the first again and again."""

    class Numbered(Actor):
        async def handle(self, message) -> int:
            return self.ctx.replica

    async def asks(ctx) -> None:
        for _ in range(3):
            answers.append(await ctx.find("w").ask("who?"))

    answers: list[object] = []
    tree = Supervisor("t", [Worker("w", Numbered, replicas=3), Worker("asks", asks)])
    async with running(tree) as pool:
        await pool.wait_state("asks", "stopped")
        answers += [await pool.ref(name).ask("who?") for name in ("w", "t/w", "w")]
        assert pool.ref("w") is pool.ref("t/w")
        await pool.scale("w", 4)
        four = {await pool.ref("w").ask("who?") for _ in range(4)}

    assert answers == [0, 1, 2, 0, 1, 2]
    assert four == {0, 1, 2, 3}


async def test_an_ask_cut_short_says_that_it_had_begun(autojump_clock) -> None:
    """Who asks is told apart whether its message was never read or was interrupted in the middle."""
    told: dict[str, ActorStopped] = {}

    class Slow(Actor):
        async def handle(self, message) -> None:
            await trio.sleep(10)

    async def one(ref, message: str) -> None:
        try:
            await ref.ask(message, timeout=60)
        except ActorStopped as error:
            told[message] = error

    tree = Supervisor("t", [Worker("w", Slow, shutdown=1)])
    async with running(tree) as pool, trio.open_nursery() as nursery:
        for message in ("begun", "queued"):
            nursery.start_soon(one, pool.ref("w"), message)
            await trio.sleep(0.1)
        await pool.stop("w")

    assert (told["begun"].why, told["queued"].why) == ("interrupted", "stopped")
    assert "some of it may have been done" in str(told["begun"])
    assert "was not delivered" in str(told["queued"])


@pytest.mark.parametrize("drain", [False, True])
async def test_what_a_handler_raises_during_a_stop_is_its_answer(drain, autojump_clock) -> None:
    """A handler that finishes in time by raising has failed: the asker gets its error, a told message keeps it."""
    errors: list[BaseException | None] = []

    class Slow(Actor):
        async def handle(self, message) -> None:
            await trio.sleep(1)
            raise OSError(message)

    async def asks(ref) -> None:
        with pytest.raises(HandlerFailed) as told:
            await ref.ask("asked")
        errors.append(told.value.error)

    box = MailboxSpec(drain=drain)
    tree = Supervisor("t", [Worker("a", Slow, mailbox=box), Worker("b", Slow, mailbox=box)])
    async with running(tree) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(asks, pool.ref("a"))
        pool.ref("b").tell_nowait("told")
        await trio.sleep(0.5)
        pool.request_stop()
        await pool.wait_stopped()
        (letter,) = pool.dead_letters
        errors.append(letter.error)

    assert letter.reason == "failed"
    assert [str(error) for error in errors] in (["asked", "told"], ["told", "asked"])


async def test_a_name_used_again_after_a_restart_counts_anew(autojump_clock) -> None:
    """A supervisor that was restarted ends with its children, also if one of them has the name of one that is gone."""

    async def short(ctx) -> None:
        await trio.sleep(1)

    inner = Supervisor("in", [Worker("a", short)])
    async with running(Supervisor("t", [inner, Worker("idle", idle)])) as pool:
        await pool.start_child("in", Worker("b", idle))
        await trio.sleep(2)  # `a` has ended; what the supervisor waits for is `b`
        await pool.restart("in")
        await pool.start_child("in", Worker("b", short, restart=AT_ONCE))
        with trio.fail_after(2):
            await pool.wait_state("in", "stopped")


async def test_all_replicas_are_there_at_once(autojump_clock) -> None:
    """Waiting for the state of several replicas goes on while one has left it before the last came."""

    async def turns(ctx) -> None:
        if ctx.replica == 0 and ctx.run == 1:
            ctx.started()
            await trio.sleep(1)  # ends before its sibling is ready
            raise OSError
        await trio.sleep(3 - ctx.replica)
        ctx.started()
        await trio.sleep_forever()

    worker = Worker("w", turns, replicas=2, ready="signal", restart=AT_ONCE)
    async with running(Supervisor("t", [worker]), wait_ready=False) as pool:
        await pool.wait_state("w", "ready")
        assert trio.current_time() == 4
        assert {info.phase for info in pool.workers()} == {"ready"}
