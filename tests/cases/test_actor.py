"""ACTOR: messages survive restarts, every ask ends, and nothing vanishes without a trace."""

from __future__ import annotations

from math import inf

import pytest
import trio

from actors import Actor, ActorStopped, AskCycle, AskTimeout, HandlerFailed, WouldWaitForItself
from supervision import MailboxSpec, Supervisor, Worker
from tests.cases.kit import at, policy, turns, under_test


def conserved(box) -> bool:
    """Whether the books of a mailbox balance."""
    gone = box.handled + box.rejected + box.dropped + box.dead_lettered
    return box.sent == gone + box.queued + box.in_hand


class Fragile(Actor):
    """Fails on `bad` messages; notes what it handled, when and in which run."""

    bad: tuple = ()
    log: list

    async def handle(self, message):
        if message in self.bad:
            raise ValueError(message)
        self.log.append((message, self.ctx.run, trio.current_time()))


def fragile(*bad) -> type[Fragile]:
    """A class of its own for one test."""
    return type("Fragile", (Fragile,), {"bad": bad, "log": []})


@pytest.mark.parametrize("capacity", [0, 1, 3, 1024])
async def test_b047_restart_loses_the_message_in_hand_only(autojump_clock, capacity):
    """B047, tqwewe/kameo#335: a restart loses at most the message in hand, and says so."""
    kind = fragile("m3")
    worker = Worker("w", kind, restart=policy(1), mailbox=MailboxSpec(capacity=capacity))
    async with under_test(Supervisor("app", [worker])) as trial:
        for n in range(1, 11):
            await trial.pool.ref("w").tell(f"m{n}")
        await at(2)
        stats = trial.pool.ref("w").mailbox.statistics()
        letters = list(trial.pool.dead_letters)

    handled = [f"m{n}" for n in range(1, 11) if n != 3]
    assert [message for message, _, _ in kind.log] == handled
    assert [(run, when) for _, run, when in kind.log] == [(1, 0)] * 2 + [(2, 1)] * 7
    assert (stats.handled, stats.queued) == (9, 0)
    assert [(letter.message, letter.reason, letter.run) for letter in letters] == [
        ("m3", "failed", 1)
    ]
    assert conserved(stats)


@pytest.mark.parametrize("how", ["restart", "watchdog", "group", "supervisor"])
async def test_b047_other_kinds_of_restart(autojump_clock, how):
    """B047, tqwewe/kameo#335: the mailbox also survives a restart by hand, of the group, or of the supervisor."""
    handled = []

    class Slow(Actor):
        async def handle(self, message):
            if how == "watchdog" and message == "m1":
                await trio.sleep_forever()
            await trio.sleep(1)
            if how == "supervisor" and message == "m1":
                raise OSError(message)
            handled.append(message)

    async def neighbour(ctx):
        await trio.sleep(1.5 if ctx.run == 1 else inf)
        raise OSError("down")

    restart = policy(max_restarts=0 if how != "supervisor" else 1, on=(KeyError,))
    worker = Worker(
        "w",
        Slow,
        restart=restart if how == "supervisor" else policy(),
        watchdog=1.5 if how == "watchdog" else None,
    )
    children = [worker]
    if how == "group":
        children.append(Worker("n", neighbour, restart=policy()))
    inner = Supervisor("s", children, strategy="one_for_all", restart=policy())
    async with under_test(Supervisor("app", [inner])) as trial:
        for n in range(1, 6):
            await trial.pool.ref("w").tell(f"m{n}")
        if how == "restart":
            await at(1.5)
            await trial.pool.restart("w")
        await at(20)
        stats = trial.pool.ref("w").mailbox.statistics()
        lost = [letter.message for letter in trial.pool.dead_letters]
        assert trial.pool.info("w").run == 2

    # What was in hand when the run ended of itself is lost; a stop lets it finish.
    assert lost == (["m1"] if how in ("watchdog", "supervisor") else [])
    assert handled == [f"m{n}" for n in range(1, 6) if f"m{n}" not in lost]
    assert conserved(stats)


async def test_b049_restarted_actor_goes_on_receiving(autojump_clock):
    """B049, akkadotnet/akka.net#2241: running means receiving, after any number of failures."""
    handled = []
    wrong = []

    class Odd(Actor):
        async def handle(self, message):
            await trio.sleep(1)
            if message % 2:
                raise ValueError(message)
            handled.append(message)

    worker = Worker("w", Odd, restart=policy(1))
    async with under_test(Supervisor("app", [worker])) as trial:
        for n in range(1, 201):
            await trial.pool.ref("w").tell(n)
        while trial.pool.ref("w").mailbox.statistics().queued:
            await trio.sleep(0.25)
            info = trial.pool.info("w")
            if info.phase == "ready" and info.mailbox.queued and not info.mailbox.in_hand:
                await turns(3)  # it may be just about to take it
                info = trial.pool.info("w")
                if info.phase == "ready" and not info.mailbox.in_hand:
                    wrong.append(trio.current_time())
        await trio.sleep(2)
        await trial.pool.ref("w").tell(202)
        await trio.sleep(2)

    assert handled == [*range(2, 201, 2), 202]
    assert wrong == []
    assert trial.pool.info("w").restarts == 100


class Failing(Actor):
    """Fails after 2 s on "bad", answers the rest."""

    async def handle(self, message):
        if message == "bad":
            await trio.sleep(2)
            raise ValueError("bad")
        return (message, self.ctx.run)


async def asked(out: dict, ref, message: str, timeout: float = inf) -> None:
    """Note when and how an ask ended."""
    try:
        out[message] = (trio.current_time(), await ref.ask(message, timeout=timeout))
    except Exception as error:
        out[message] = (trio.current_time(), error)
    else:
        out[message] = (trio.current_time(), out[message][1])


@pytest.mark.parametrize("kind", ["permanent", "transient", "temporary", "used up", "held"])
async def test_b050_every_ask_ends(autojump_clock, kind):
    """B050, actor-framework/actor-framework#1466: every ask ends, with a reply or an error, soon after the target's end."""
    used_up = {"on": (KeyError,)} if kind in ("used up", "held") else {}
    restart = policy(1, type="transient" if used_up else kind, **used_up)
    worker = Worker("w", Failing, restart=restart, on_failed="hold" if kind == "held" else "escalate")
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


@pytest.mark.parametrize("verb", ["stop", "restart", "disable", "shutdown", "stop the supervisor"])
@pytest.mark.parametrize("where", ["started", "handle"])
async def test_b053_actor_waits_for_its_own_stop(autojump_clock, verb, where):
    """B053, jodal/pykka#76: a wait that can never end is refused at once."""
    errors = []

    async def stop_myself(ctx):
        pool = pools[0]
        try:
            if verb == "shutdown":
                await pool.shutdown()
            elif verb == "stop the supervisor":
                await pool.stop("inner")
            else:
                await getattr(pool, verb)(ctx.path)
        except WouldWaitForItself as error:
            errors.append((trio.current_time(), error.path))

    class Selfish(Actor):
        async def started(self, ctx):
            if where == "started":
                await turns(9)
                await stop_myself(ctx)

        async def handle(self, message):
            await stop_myself(self.ctx)

    pools = []
    tree = Supervisor("app", [Supervisor("inner", [Worker("w", Selfish)])])
    async with under_test(tree) as trial:
        pools.append(trial.pool)
        await turns(2)
        if where == "handle":
            await trial.pool.ref("w").tell("go")
        await at(1)
        assert trial.pool.info("w").state == "running"

    assert errors == [(0, "app/inner/w/0")]


async def test_b053_actor_stops_itself_without_waiting(autojump_clock):
    """B053, jodal/pykka#76: an actor may ask for its own stop from its start hook, and ends normally."""

    class Brief(Actor):
        async def started(self, ctx):
            ctx.stop()

    async with under_test(Supervisor("app", [Worker("w", Brief, restart=policy())])) as trial:
        await trial.pool.wait_state("w", "stopped")
        assert trio.current_time() == 0

    assert trial.starts("app/w/0") == [0]
    assert "Failed" not in trial.kinds()


@pytest.mark.parametrize("length", [1, 2, 3])
async def test_b053_ask_in_a_circle(autojump_clock, length):
    """B053, akkadotnet/akka.net#123: an actor that asks itself, directly or through others, hears so at once."""

    class Link(Actor):
        async def handle(self, message):
            following = f"a{(int(self.ctx.name[1:]) + 1) % length}"
            return await self.ctx.find(following).ask("next", timeout=inf)

    out = {}
    tree = Supervisor("app", [Worker(f"a{n}", Link) for n in range(length)])
    async with under_test(tree) as trial:
        await asked(out, trial.pool.ref("a0"), "go")

    when, error = out["go"]
    assert when == 0
    for _ in range(length):
        assert isinstance(error, HandlerFailed)
        error = error.__cause__
    assert isinstance(error, AskCycle)
    assert "would wait for itself" in str(error)


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
        under_test(Supervisor("app", [Worker("w", consume)])) as trial,
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
