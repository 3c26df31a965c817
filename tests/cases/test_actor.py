"""ACTOR: messages survive restarts, running means receiving, and no actor waits for itself."""

from __future__ import annotations

from math import inf

import pytest
import trio

from actors import Actor, AskCycle, HandlerFailed, WouldWaitForItself
from supervision import MailboxSpec, Supervisor, Worker
from tests.cases.kit import asked, at, policy, turns, under_test


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
