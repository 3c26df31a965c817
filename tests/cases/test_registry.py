"""REGISTRY: names and timers live as long as their owner, and not longer."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, NameTaken, NoSuchActor
from supervision import MailboxSpec, Supervisor, Worker
from tests.cases.kit import at, leaves, policy, turns, under_test


async def named(ctx):
    """Registers "user", and runs."""
    ctx.register("user")
    ctx.join("users")
    await trio.sleep_forever()


@pytest.mark.parametrize("repeats", [1, 1000])
async def test_b055_name_is_free_when_stop_returns(autojump_clock, repeats):
    """B055, tqwewe/kameo#252: when stop returns, the name is free."""
    async with under_test(Supervisor("app", [Supervisor("users")])) as trial:
        pool = trial.pool
        await at(1)
        await pool.start_child("users", Worker("u0", named))
        for n in range(1, repeats + 1):
            await turns(1)
            await pool.stop(f"u{n - 1}")
            with pytest.raises(NoSuchActor):
                pool.ref("user")
            await pool.start_child("users", Worker(f"u{n}", named))
            await turns(1)
            assert pool.ref("user").path == f"app/users/u{n}/0"
        stats = pool.registry.statistics()
        assert (stats.names, stats.groups, stats.memberships) == (1, 1, 1)
        assert trio.current_time() == 1


@pytest.mark.parametrize("end", ["return", "fail", "cancel", "restart", "stop"])
async def test_b055_name_is_free_before_down_is_announced(autojump_clock, end):
    """B055, tqwewe/kameo#252: whoever is told that an actor is down finds its name free, however it ended."""
    free = []

    class Watcher(Actor):
        async def started(self, ctx):
            ctx.watch(ctx.find("w"))

        async def handle(self, message):
            free.append((pools[0].registry.whereis("user"), message.reason))

    async def run(ctx):
        if ctx.run > 1:
            await trio.sleep_forever()
        ctx.register("user")
        await trio.sleep(1 if end in ("return", "fail") else 1000)
        if end == "fail":
            raise OSError("down")

    pools = []
    tree = Supervisor(
        "app", [Worker("w", run, restart=policy(type="temporary")), Worker("watcher", Watcher)]
    )
    async with under_test(tree) as trial:
        pools.append(trial.pool)
        await at(1)
        if end in ("restart", "stop"):
            await getattr(trial.pool, end)("w")
        elif end == "cancel":
            trial.pool._tree.root.slots["w"].members[0].force("in a test")
        await turns(5)

    reason = {"return": "returned", "fail": "failed"}.get(end, "stopped")
    assert free == [(None, reason)]


async def test_b057_owner_end_removes_the_name(autojump_clock):
    """B057, amazon-mq/rabbitmq-stream-s3#222: the owner's end removes the name, not the owner's code."""
    completed = []

    async def reader(ctx):
        ctx.register("reader")
        try:
            await trio.sleep_forever()
        finally:
            await trio.sleep(1)  # a clean-up of its own that the cancellation cuts off
            completed.append(ctx.run)

    worker = Worker("w", reader, restart=policy(), watchdog=1)
    tree = Supervisor("app", [worker], intensity=3, period=60)
    async with under_test(tree) as trial:
        await at(1.5)
        assert trial.pool.ref("reader").path == "app/w/0"
        info = trial.pool.info("w")
        assert (info.run, info.restarts) == (2, 1)

    assert completed == []
    assert trial.starts("app/w/0")[:2] == [0, 1]
    assert not [e for e in trial.seen if isinstance(getattr(e, "error", None), NameTaken)]


class Ticking(Actor):
    """Has a timer of 1 s, and ends in some way at 5.5 s."""

    log: list
    how: str

    async def started(self, ctx):
        ctx.every(1, "tick")
        if self.how == "failure":
            ctx.after(5.5, "fail")
        elif self.how == "own stop":
            ctx.after(5.5, "stop")

    async def handle(self, message):
        self.log.append((message, trio.current_time()))
        if message == "fail":
            raise OSError("down")
        if message == "stop":
            self.ctx.stop()


@pytest.mark.parametrize("how", ["return", "failure", "stop", "own stop", "forced stop"])
async def test_b060_timers_end_with_their_owner(autojump_clock, how):
    """B060, akka/akka-core#26285: a timer lives inside the scope of its owner."""
    log = []

    async def returning(ctx):
        ctx.every(1, "tick")
        with trio.move_on_after(5.5):
            async for message in ctx.mailbox:
                log.append((message, trio.current_time()))

    kind = type("Ticker", (Ticking,), {"log": log, "how": how})
    run = returning if how == "return" else kind
    restart = policy(type="temporary")
    worker = Worker("w", run, restart=restart, shutdown=0 if how == "forced stop" else 15)
    async with under_test(Supervisor("app", [worker], auto_shutdown="never")) as trial:
        await at(5.5)
        if "stop" in how:
            await trial.pool.stop("w")
        await turns(5)
        assert trial.pool._tree.timers.statistics().active == 0
        await at(100)
        box = trial.pool.info("w").mailbox
        assert trial.pool.dead_letters.statistics().total == 0

    ticks = [when for message, when in log if message == "tick"]
    assert ticks == [1, 2, 3, 4, 5]
    assert (box.queued, box.in_hand) == (0, 0)


class Setter(Actor):
    """Its first run sets a timer for t=10."""

    log: list
    fails_at: float

    async def started(self, ctx):
        if ctx.run == 1:
            ctx.after(10, "tick")
            ctx.every(10, "again")
            await ctx.ref.tell("work")

    async def handle(self, message):
        self.log.append((message, self.ctx.run, trio.current_time()))
        if message == "work" and self.ctx.run == 1:
            await at(self.fails_at)
            raise OSError("down")


@pytest.mark.parametrize("fails", [8, 10, 10.5])
@pytest.mark.parametrize("redeliver", [0, 1])
@pytest.mark.parametrize("wait", [0, 1])
async def test_b061_no_timer_of_the_previous_run(autojump_clock, fails, redeliver, wait):
    """B061, akkadotnet/akka.net#3313: internal messages carry their incarnation; old ones are dropped."""
    kind = type("S", (Setter,), {"log": [], "fails_at": fails})
    worker = Worker("w", kind, restart=policy(wait), mailbox=MailboxSpec(redeliver=redeliver))
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(30)
        box = trial.pool.info("w").mailbox

    again = [("work", 2, fails + wait)] if redeliver else []
    assert kind.log == [("work", 1, 0), *again]
    assert (box.queued, box.sent) == (0, box.handled + box.dropped + box.dead_lettered)


async def test_b061_a_tick_in_hand_is_not_given_again(autojump_clock):
    """B061, akkadotnet/akka.net#3313: a tick whose handler fails is neither redelivered nor a dead letter."""
    log = []

    class Fails(Actor):
        async def started(self, ctx):
            if ctx.run == 1:
                ctx.after(1, "tick")

        async def handle(self, message):
            log.append(message)
            raise OSError(message)

    worker = Worker("w", Fails, restart=policy(), mailbox=MailboxSpec(redeliver=3))
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(5)
        assert trial.pool.dead_letters.statistics().total == 0

    assert log == ["tick"]


@pytest.mark.parametrize("when", ["started", "handle"])
async def test_b062_clean_up_error_hides_nothing(autojump_clock, when):
    """B062, elixir-lang/elixir#10326: a failure in clean-up adds to the first error, never replaces it."""

    class Broken(Actor):
        async def started(self, ctx):
            if when == "started":
                raise ValueError("boom")

        async def handle(self, message):
            raise ValueError("boom")

        async def stopped(self, ctx):
            raise KeyError("in the clean-up")

    worker = Worker("w", Broken, restart=policy(type="temporary"))
    async with under_test(Supervisor("app", [worker], auto_shutdown="never")) as trial:
        if when == "handle":
            await trial.pool.ref("w").tell("go")
        await at(1)

    (failed,) = [e for e in trial.seen if e.kind == "Failed"]
    first = leaves(failed.error)[0]
    assert (type(first), str(first)) == (ValueError, "boom")
    # The second is kept as a note: a group would change what the error is, and so how it is classified.
    assert any("KeyError('in the clean-up')" in note for note in first.__notes__)


@pytest.mark.parametrize("fatal", [False, True])
async def test_b062_classification_uses_the_first_error(autojump_clock, fatal):
    """B062, elixir-lang/elixir#10326: whether a restart may cure a failure is decided by it, not by its clean-up's."""

    class Broken(Actor):
        async def started(self, ctx):
            if ctx.run == 1:
                raise (KeyError if fatal else ValueError)("boom")

        async def stopped(self, ctx):
            if ctx.run == 1:
                raise (ValueError if fatal else KeyError)("in the clean-up")

    worker = Worker("w", Broken, restart=policy(on=(ValueError,)), on_failed="hold")
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(1)
        assert trial.pool.info("w").state == ("failed" if fatal else "running")


async def test_b062_clean_up_error_alone_is_a_failure(autojump_clock):
    """B062, elixir-lang/elixir#10326: an error of the clean-up is reported even if a stop was asked for."""

    class Broken(Actor):
        async def stopped(self, ctx):
            raise KeyError("in the clean-up")

    async with under_test(Supervisor("app", [Worker("w", Broken)])) as trial:
        await turns(5)
        await trial.pool.stop("w")
        assert trial.pool.info("w").state == "stopped"

    (ended,) = [e for e in trial.seen if e.kind == "Ended" and e.path == "app/w/0"]
    assert isinstance(ended.error, KeyError)
