"""PROBE and CLOCK: health follows work, a new run starts with a clean count, and silence is measured by one clock."""

from __future__ import annotations

import datetime as dt
import time

import pytest
import trio

from actors import Actor
from supervision import MailboxSpec, Supervisor, WatchdogExpired, Worker
from tests.cases.kit import at, fails_after, fails_at, forever, policy, under_test


async def test_b127_health_follows_work(autojump_clock):
    """B127, onyx-dot-app/onyx#12274: a consumer that stops taking messages turns unhealthy, and healthy when it works again."""
    handled = []

    class Consumer(Actor):
        async def handle(self, message):
            if message == "hangs":
                await trio.sleep_forever()
            handled.append(message)

    # A watchdog is what says so now: a message in hand for 60 s without a sign of progress.
    worker = Worker("w", Consumer, restart=policy(10), watchdog=60)
    async with under_test(Supervisor("app", [worker])) as trial:
        await trial.pool.ref("w").tell("hangs")
        for n in range(10):
            await trial.pool.ref("w").tell(n)
        await at(59)
        assert trial.pool.health().ready
        await at(61)
        assert not trial.pool.health().ready
        assert trial.pool.health().waiting_for == ("app/w/0",)
        await at(71)
        assert trial.pool.health().ready
        await at(1000)  # nothing to do is no stall
        assert trial.pool.info("w").run == 2

    assert handled == list(range(10))
    (failed,) = [e for e in trial.seen if e.kind == "Failed"]
    assert isinstance(failed.error, WatchdogExpired)


@pytest.mark.parametrize("beats", [True, False])
async def test_b127_long_work_that_shows_progress(autojump_clock, beats):
    """B127, onyx-dot-app/onyx#12274: a message of 500 s in hand is healthy as long as its handler shows progress."""

    class Consumer(Actor):
        async def handle(self, message):
            for _ in range(10):
                await trio.sleep(50)
                if beats:
                    self.ctx.heartbeat()

    worker = Worker("w", Consumer, restart=policy(100), watchdog=60)
    async with under_test(Supervisor("app", [worker])) as trial:
        for n in range(2):
            await trial.pool.ref("w").tell(n)
        answers = []
        for when in (1, 59, 61, 499):
            await at(when)
            answers.append(trial.pool.health().ready)

    assert answers == ([True] * 4 if beats else [True, True, False, True])


async def test_b127_every_message_is_progress(autojump_clock):
    """B127, onyx-dot-app/onyx#12274: an actor that goes from message to message owes no other sign of life."""

    class Steady(Actor):
        async def handle(self, message):
            await trio.sleep(40)

    worker = Worker("w", Steady, watchdog=60, mailbox=MailboxSpec(capacity=100))
    async with under_test(Supervisor("app", [worker])) as trial:
        for n in range(20):
            await trial.pool.ref("w").tell(n)
        await at(1000)
        assert (trial.pool.info("w").run, trial.pool.info("w").mailbox.handled) == (1, 20)


async def test_b129_a_new_run_starts_with_a_clean_count(autojump_clock):
    """B129, kubernetes/kubernetes#53530: what the old run owed is not held against the new one while it starts."""

    async def run(ctx):
        if ctx.run > 1:
            await trio.sleep(15)  # longer than the watchdog of 10 s allows once it is ready
        ctx.started()
        for _ in range(2 if ctx.run == 1 else 1000):
            await trio.sleep(10 - 1e-3)
            ctx.heartbeat()
        await trio.sleep_forever()

    worker = Worker("w", run, ready="signal", restart=policy(), watchdog=10)
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(100)
        assert (trial.pool.info("w").restarts, trial.pool.info("w").run) == (1, 2)

    assert trial.times("Failed", "app/w/0") == pytest.approx([30], abs=0.01)


@pytest.mark.parametrize("slow", [1, 2])
async def test_b129_start_timeout_is_anew_for_each_run(autojump_clock, slow):
    """B129, kubernetes/kubernetes#53530: each run has its whole start_timeout, whatever the one before used up."""

    async def run(ctx):
        await trio.sleep(20 if ctx.run <= slow else 4)
        ctx.started()
        await trio.sleep_forever()

    worker = Worker("w", run, ready="signal", restart=policy(), start_timeout=5)
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(100)
        assert trial.pool.info("w").restarts == slow

    assert trial.times("Ready", "app/w/0") == [5 * slow + 4]


async def test_b132_a_hung_run_is_no_healthy_one(autojump_clock):
    """B132, dexidp/dex#4985: what hangs does not keep its last good result; at most one run is in flight."""
    live, most = set(), []

    async def check(ctx):
        live.add(ctx.run)
        most.append(len(live))
        try:
            while True:
                ctx.heartbeat()
                if trio.current_time() >= 10:
                    await trio.sleep_forever()
                await trio.sleep(10)
        finally:
            live.discard(ctx.run)

    worker = Worker("w", check, restart=policy(1000), watchdog=12)
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(11)
        assert trial.pool.health().ready
        await at(23)
        assert not trial.pool.health().ready
        assert "no heartbeat for 12 s" in str(trial.pool.info("w").error)
        await at(100)
        assert not trial.pool.health().ready

    assert max(most) == 1


async def test_b132_a_check_that_cannot_be_cancelled(autojump_clock):
    """B132, dexidp/dex#4985: a run that hangs beyond its cancellation is not reported as ready either."""

    async def deaf(ctx):
        with trio.CancelScope(shield=True):
            await trio.sleep(50)

    worker = Worker("w", deaf, restart=policy(), watchdog=10)
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(9)
        assert trial.pool.health().ready
        await at(11)
        assert not trial.pool.health().ready
        await at(20)
        assert trial.pool.info("w").run == 1

    assert trial.times("Stuck", "app/w/0")[0] == 15


@pytest.fixture
def wall_clock(monkeypatch):
    """Lets a test move the wall clock: `jump(seconds)`."""
    offset = [0.0]
    real = time.time

    class Moved(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(real() + offset[0], tz)

    monkeypatch.setattr(time, "time", lambda: real() + offset[0])
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + offset[0]) * 1e9))
    monkeypatch.setattr(dt, "datetime", Moved)

    def jump(seconds: float) -> None:
        offset[0] += seconds

    return jump


@pytest.mark.parametrize("jump", [43_200, -43_200])
async def test_b093_a_clock_jump_is_no_silence(autojump_clock, wall_clock, jump):
    """B093, oxidezap/whatsapp-rust#1379: silence and good running are measured by the monotonic clock."""

    async def beats(ctx):
        await at(4)
        while True:
            ctx.heartbeat()
            await trio.sleep(10)

    tree = Supervisor(
        "app",
        [
            Worker("w", beats, watchdog=20),
            # Each run lasts 10 s, so the failure after the jump is the second in a row, not again the first.
            Worker("f", fails_after(10), restart=policy(1, 2, 60, reset_after=60)),
            Worker("waiting", fails_at(3), restart=policy(30)),
            Worker("idle", forever),
        ],
        intensity=100,
        period=1000,
    )
    async with under_test(tree) as trial:
        ask = trial.pool.ref("idle")
        with trio.move_on_after(5):
            await ask.ask("question", timeout=100)
        wall_clock(jump)
        await at(30)
        assert (trial.pool.info("w").run, trial.pool.info("w").state) == (1, "running")
        assert trial.pool.info("f").failures == 2
        assert trial.pool.info("waiting").next_restart == 33
        assert trial.pool.info("app").budget_used == 3

    assert trial.starts("app/f/0") == [0, 11, 23]
    assert trial.times("Failed", "app/w/0") == []
