"""ACTOR, continued: every ask ends, and late answers are seen."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, ActorStopped, AskTimeout, HandlerFailed
from supervision import MailboxSpec, Supervisor, Worker
from tests.cases.kit import asked, at, policy, turns, under_test


class Failing(Actor):
    """Fails after 2 s on "bad", answers the rest."""

    async def handle(self, message):
        if message == "bad":
            await trio.sleep(2)
            raise ValueError("bad")
        return (message, self.ctx.run)


@pytest.mark.parametrize("kind", ["permanent", "transient", "temporary", "used up", "held"])
async def test_b050_every_ask_ends(autojump_clock, kind):
    """B050, actor-framework/actor-framework#1466: every ask ends, with a reply or an error, soon after the target's end."""
    used_up = {"on": (KeyError,)} if kind in ("used up", "held") else {}
    restart = policy(1, type="transient" if used_up else kind, **used_up)
    worker = Worker(
        "w", Failing, restart=restart, on_failed="hold" if kind == "held" else "escalate"
    )
    out = {}
    async with under_test(Supervisor("app", [worker])) as trial, trio.open_nursery() as nursery:
        ref = trial.pool.ref("w")
        nursery.start_soon(asked, out, ref, "bad")
        await turns(3)
        nursery.start_soon(asked, out, ref, "next")

    assert out["bad"][0] == 2
    assert isinstance(out["bad"][1], HandlerFailed)
    assert isinstance(out["bad"][1].__cause__, ValueError)
    if kind in ("permanent", "transient"):
        assert out["next"] == (3, ("next", 2))
    else:
        assert out["next"][0] == 2
        assert isinstance(out["next"][1], ActorStopped)


@pytest.mark.parametrize("full", [False, True])
async def test_b050_target_forgotten_with_its_supervisor(autojump_clock, full):
    """B050, actor-framework/actor-framework#1466: asks and tells that wait for a child which nobody starts again end too."""
    out = {}

    async def crash(ctx):
        await trio.sleep(1)
        raise KeyError("crash")

    dynamic = Supervisor("s", restart=policy(1), intensity=0)
    async with (
        under_test(Supervisor("app", [dynamic])) as trial,
        trio.open_nursery() as nursery,
    ):
        spec = Worker("w", Failing, shutdown=0, mailbox=MailboxSpec(capacity=1 if full else 9))
        ref = await trial.pool.start_child("s", spec)
        await trial.pool.start_child("s", Worker("c", crash, restart=policy()))
        for message in ("bad", "one", "two", "three"):
            nursery.start_soon(asked, out, ref, message)
            await turns(3)
        await at(1.5)
        with pytest.raises(ActorStopped):
            ref.tell_nowait("late")

    assert {message: when for message, (when, _) in out.items()} == dict.fromkeys(
        ("bad", "one", "two", "three"), 1
    )
    assert all(isinstance(answer, ActorStopped) for _, answer in out.values())


async def test_b050_sibling_slow_to_stop_delays_no_answer(autojump_clock):
    """B050, actor-framework/actor-framework#1466: when the tree gives up because of the target, its askers hear at once."""

    async def slow(ctx):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)

    worker = Worker("w", Failing, restart=policy(on=(KeyError,)))
    out = {}
    tree = Supervisor("app", [worker, Worker("slow", slow)])
    async with under_test(tree) as trial, trio.open_nursery() as nursery:
        ref = trial.pool.ref("w")
        nursery.start_soon(asked, out, ref, "bad")
        await turns(3)
        nursery.start_soon(asked, out, ref, "next")

    assert trial.ended_at == 12
    assert out["next"][0] == 2
    assert isinstance(out["next"][1], ActorStopped)


class Busy(Actor):
    """Works for ever on whatever it gets."""

    async def handle(self, message):
        await trio.sleep_forever()


@pytest.mark.parametrize("how", ["shutdown", "cancel", "stop", "cancelled outside"])
@pytest.mark.parametrize("capacity", [1, 9])
async def test_b051_stopping_answers_everybody(autojump_clock, how, capacity):
    """B051, cloudmark/cats-actors#36: stopping the system answers everybody who waits on it."""
    worker = Worker("w", Busy, shutdown=0, mailbox=MailboxSpec(capacity=capacity))
    out = {}
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as outer:
            async with under_test(Supervisor("app", [worker])) as trial:
                ref = trial.pool.ref("w")
                for message in ("one", "two", "three"):
                    nursery.start_soon(asked, out, ref, message)
                    await turns(3)
                await at(1)
                if how == "cancelled outside":
                    outer.cancel()
                elif how == "stop":
                    await trial.pool.stop("w")
                else:
                    getattr(trial.pool, how)() if how == "cancel" else await trial.pool.shutdown()

    assert {message: when for message, (when, _) in out.items()} == {"one": 1, "two": 1, "three": 1}
    assert all(isinstance(answer, ActorStopped) for _, answer in out.values())
    assert "stopped" in str(out["three"][1])
    assert trio.current_time() == 1


async def test_b054_late_replies_are_seen(autojump_clock):
    """B054, akkadotnet/akka.net#5221: nothing the library discards is invisible."""

    class Late(Actor):
        async def handle(self, message):
            answer = self.ctx.answer_later()
            self.ctx.after(2, answer)
            self.ctx.after(3, answer)

        async def answer(self, answer):
            answer.send("too late")

    async def handle(self, message):
        await (self.answer(message) if hasattr(message, "send") else ask(self, message))

    ask, Late.handle = Late.handle, handle
    async with under_test(Supervisor("app", [Worker("w", Late)])) as trial:
        timers = trial.pool._tree.timers
        with pytest.raises(AskTimeout):
            await trial.pool.ref("w").ask("question", timeout=1)
        assert trio.current_time() == 1
        assert timers.statistics().active == 2  # the actor's own two; none of the ask
        await at(4)

    assert trial.times("LateReply", "app/w/0") == [2, 3]
    assert trial.error is None


async def test_b054_a_second_answer_is_seen(autojump_clock):
    """B054, akkadotnet/akka.net#5221: the second answer to an ask is reported and disturbs nobody."""

    class Twice(Actor):
        async def handle(self, message):
            answer = self.ctx.answer_later()
            answer.send("first")
            answer.send("second")
            answer.fail(ValueError("third"))

    async with under_test(Supervisor("app", [Worker("w", Twice)])) as trial:
        assert await trial.pool.ref("w").ask("question") == "first"
        await turns(5)

    assert trial.times("LateReply", "app/w/0") == [0, 0]


@pytest.mark.parametrize("end", ["next message", "return", "stop"])
async def test_b050_asking_a_function_worker(autojump_clock, end):
    """B050, actor-framework/actor-framework#1466: an ask that an async function handled without an answer gets None, at once."""

    async def consume(ctx):
        async for message in ctx.mailbox:
            if message == "later":
                answers.append(ctx.answer_later())
            await trio.sleep(1)
            if end == "return" and message == "next":
                return
            for answer in answers:
                answer.send("at last")
            answers.clear()

    out, answers = {}, []
    async with (
        under_test(Supervisor("app", [Worker("w", consume, shutdown=0)])) as trial,
        trio.open_nursery() as nursery,
    ):
        for message in ("first", "later", "next"):
            nursery.start_soon(asked, out, trial.pool.ref("w"), message)
            await turns(3)
        if end == "stop":
            await at(2.5)
            await trial.pool.stop("w")

    assert (out["first"], out["later"]) == ((1, None), (2, "at last"))
    if end == "stop":
        assert out["next"][0] == 2.5
        assert isinstance(out["next"][1], ActorStopped)
    else:
        assert out["next"] == (3, None)
