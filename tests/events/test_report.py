"""The report: what the tree looks like now, frozen, exportable, and always true."""

from __future__ import annotations

import json

import attrs
import pytest
import trio

from actors import Actor, MailboxSpec
from supervision import RestartPolicy, Supervisor, Worker, supervisor
from supervision.states import State


class Echo(Actor):
    """Answers with what it gets; fails when told to."""

    async def handle(self, message):
        if message == "fail":
            raise ValueError(message)
        return message


async def forever(ctx):
    """A worker that does nothing."""
    await trio.sleep_forever()


POLICY = RestartPolicy(initial_backoff=4, max_backoff=4, jitter=0)


def tree():
    """A tree with something of everything."""
    return Supervisor(
        "app",
        [
            Worker("echo", Echo, replicas=2, restart=POLICY, mailbox=MailboxSpec(capacity=7)),
            Supervisor("inner", [Worker("idle", forever)], intensity=3, period=60),
            Worker("off", forever, enabled=False),
        ],
        strategy="one_for_one",
    )


async def test_one_record_a_replica(autojump_clock):
    """Workers come in start order, each with its place, state, run and mailbox."""
    async with supervisor.running(tree(), log=False) as pool:
        infos = pool.workers()

    assert [(i.path, i.name, i.replica, i.state, i.phase, i.run) for i in infos] == [
        ("app/echo/0", "echo", 0, "running", "ready", 1),
        ("app/echo/1", "echo", 1, "running", "ready", 1),
        ("app/inner/idle/0", "idle", 0, "running", "ready", 1),
        ("app/off/0", "off", 0, "disabled", None, 0),
    ]
    assert infos[0].mailbox.capacity == 7
    assert infos[0].error is None
    assert infos[0].next_restart is None


async def test_a_record_tells_a_failure_and_what_comes(autojump_clock):
    """A replica that waits for its restart shows its error, the time of the next run and its counts."""
    async with supervisor.running(tree(), log=False) as pool:
        await trio.sleep(10)
        pool.ref("app/echo/1").tell_nowait("fail")
        await trio.sleep(1)
        waiting = pool.info("app/echo/1")
        await trio.sleep(5)
        back = pool.info("app/echo/1")

    assert (waiting.state, waiting.phase, waiting.run) == ("restarting", None, 1)
    assert str(waiting.error) == "fail"
    assert waiting.since == 10
    assert waiting.next_restart == 14
    assert (back.state, back.run, back.restarts, back.failures) == ("running", 2, 1, 1)
    assert back.since == 14
    assert back.next_restart is None
    assert str(back.error) == "fail"


async def test_supervisors_have_records_too(autojump_clock):
    """Supervisors come parents first, with strategy, budget and number of direct children."""
    async with supervisor.running(tree(), log=False) as pool:
        app, inner = pool.supervisors()
        assert pool.info("inner") == inner

    assert (app.path, app.strategy, app.state, app.children) == (
        "app",
        "one_for_one",
        "running",
        4,
    )
    assert (inner.path, inner.intensity, inner.period, inner.budget_used) == (
        "app/inner",
        3,
        60,
        0,
    )


async def test_counts_in_otp_terms(autojump_clock):
    """Specs, active children, supervisors and workers are counted for direct children only."""
    async with supervisor.running(tree(), log=False) as pool:
        counts = pool.counts()
        inner = pool.counts("inner")

    assert (counts.specs, counts.active, counts.supervisors, counts.workers) == (3, 3, 1, 3)
    assert (inner.specs, inner.active, inner.supervisors, inner.workers) == (1, 1, 0, 1)


async def test_a_snapshot_is_the_whole_tree(autojump_clock):
    """A snapshot has every replica and supervisor, the counts by state, and the age of the tree."""
    async with supervisor.running(tree(), log=False) as pool:
        await trio.sleep(3)
        snapshot = pool.snapshot()
        assert list(snapshot.workers) == pool.workers()
        assert list(snapshot.supervisors) == pool.supervisors()

    assert snapshot.tree == "app"
    assert (snapshot.time, snapshot.uptime) == (3, 3)
    assert snapshot.counts == {str(s): 0 for s in State} | {"running": 3, "disabled": 1}
    assert snapshot.dead_letters == 0


async def test_a_snapshot_can_be_exported(autojump_clock):
    """`to_dict` is plain JSON, whatever is in the tree: errors, unlimited mailboxes, nothing."""

    class Weird(Exception):
        def __repr__(self):
            raise RuntimeError

    async def weird(ctx):
        raise Weird

    odd = Worker("odd", weird, restart=POLICY, mailbox=MailboxSpec(capacity=float("inf")))
    async with supervisor.running(Supervisor("app", [odd]), log=False) as pool:
        plain = pool.snapshot().to_dict()

    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    [worker] = plain["workers"]
    assert "Weird" in worker["error"]
    assert worker["state"] == "restarting"
    assert worker["mailbox"]["capacity"] is None


@pytest.mark.parametrize("listen", [True, False])
async def test_the_number_of_a_snapshot_grows_with_every_change(autojump_clock, listen):
    """Two snapshots have the same number only if nothing happened between them, listened to or not."""
    listeners = [lambda event: None] if listen else []
    async with supervisor.running(tree(), log=False, listeners=listeners) as pool:
        numbers = [pool.snapshot().seq]
        await trio.sleep(1)
        assert pool.snapshot().seq == numbers[0]
        for change in (
            lambda: pool.stop("idle"),
            lambda: pool.start("idle"),
            lambda: pool.restart("idle"),
            lambda: pool.enable("off"),
            lambda: pool.disable("off"),
            lambda: pool.scale("echo", 1),
            lambda: pool.start_child("app", Worker("extra", forever)),
        ):
            await change()
            numbers.append(pool.snapshot().seq)
        pool.ref("echo").tell_nowait("fail")
        await trio.sleep(1)
        numbers.append(pool.snapshot().seq)

    assert numbers == sorted(set(numbers))


async def test_the_number_is_the_last_event_s(autojump_clock):
    """A reader that starts with a snapshot goes on with the next event, without a hole or a repetition."""
    async with supervisor.running(tree(), log=False) as pool:
        events, number = pool.events(), pool.snapshot().seq
        await pool.restart("idle")
        assert events.receive_nowait().seq == number + 1


async def test_records_are_frozen(autojump_clock):
    """What was looked at does not change any more, neither by the reader nor with the tree."""
    async with supervisor.running(tree(), log=False) as pool:
        snapshot = pool.snapshot()
        before = json.dumps(snapshot.to_dict())
        for record in (snapshot, snapshot.workers[0], snapshot.supervisors[0], pool.counts()):
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                record.path = "elsewhere"
        await pool.restart("echo")
        await pool.stop("idle")

    assert json.dumps(snapshot.to_dict()) == before


async def test_looking_goes_on_after_the_end(autojump_clock):
    """A pool of a tree that has ended still tells how everything ended."""
    async with supervisor.running(tree(), log=False) as pool:
        pass
    snapshot = pool.snapshot()

    assert snapshot.counts["stopped"] == 3
    assert snapshot.counts["disabled"] == 1
    assert pool.stop_report is not None
    assert len(pool.stop_report.orderly) == 3
    assert not pool.health().ready
