"""The records: every event class is readable, exportable, and every decision says when, about whom and about which run."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from enum import IntEnum
from itertools import pairwise
from math import inf

import attrs
import pytest
import trio

import actors
import supervision
from actors import Actor, Event, MailboxSpec
from supervision import RestartPolicy, StopReport, Supervisor, TreeFailed, Worker, supervisor


class Weird(Exception):
    """An error that cannot even be shown."""

    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


class Level(IntEnum):
    """A number with a name."""

    HIGH = 2


def event_classes():
    """Every event class of the two packages."""
    for package in (actors, supervision):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                try:
                    importlib.import_module(module.name)
                except ImportError:  # needs an extra that is not installed
                    continue
    found, todo = [], [Event]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        # attrs replaces a class by one with slots; the first one may still be about, but has no name.
        if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind:
            found.append(kind)
    ours = [
        kind for kind in found if kind.__module__.partition(".")[0] in ("actors", "supervision")
    ]
    return sorted(ours, key=lambda kind: kind.__name__)


# By annotation: an ordinary value, and one as odd as it can be.
SAMPLES = {
    "int": (3, 10**30),
    "float": (1.5, inf),
    "str": ("some words", "ünïcode\n\x00"),
    "bool": (True, False),
    "float | None": (2.0, None),
    "str | None": ("words", None),
    "int | None": (1, None),
    "BaseException | None": (ValueError("bad"), Weird()),
    "Exception | None": (ValueError("bad"), Weird()),
    "Exception": (ValueError("bad"), Weird()),
    "BaseException": (ValueError("bad"), Weird()),
    "tuple[str, ...]": (("a", "b"), ()),
    "tuple[Exception, ...]": ((ValueError("one"), KeyError("two")), (Weird(),)),
    "StopReport": (StopReport(orderly=("app/a/0",), seconds=0.5), StopReport(overrun=inf)),
    "object": (object(), Weird),
}


def make(kind, which):
    """An event of that class with a value in every field."""
    values = {}
    for field in attrs.fields(kind):
        annotation = field.type if isinstance(field.type, str) else field.type.__name__
        values[field.name] = SAMPLES.get(annotation, (Level.HIGH, Level.HIGH))[which]
    return kind(**values)


@pytest.mark.parametrize("which", [0, 1], ids=["ordinary", "odd"])
@pytest.mark.parametrize("kind", event_classes(), ids=lambda kind: kind.__name__)
def test_every_event_can_be_read_and_exported(kind, which):
    """Every event class makes one sentence and plain JSON of any values, also of errors that cannot be shown."""
    event = make(kind, which)
    plain = event.to_dict()

    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["kind"] == event.kind == kind.__name__
    assert set(plain) == {"kind", *(field.name for field in attrs.fields(kind))}
    sentence = event.sentence()
    assert len(sentence.split()) > 1
    assert "object at 0x" not in sentence


@pytest.mark.parametrize("kind", event_classes(), ids=lambda kind: kind.__name__)
def test_every_event_says_what_it_is(kind):
    """Every event class has its own documentation and a level that logs know, and is frozen."""
    assert kind.__doc__
    assert kind.level in ("debug", "info", "warning", "error")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        make(kind, 0).seq = 0


def own_sentence(kind):
    """Whether it has a sentence of its own."""
    return kind.sentence is not Event.sentence


def test_every_event_has_its_own_sentence():
    """No event class leaves its sentence to the base class."""
    assert [k.__name__ for k in event_classes() if k is not Event and not own_sentence(k)] == []


# -- decisions ---------------------------------------------------------------------------------


async def forever(ctx):
    """A worker that does nothing."""
    await trio.sleep_forever()


def exactly(**more):
    """Restarts one second after a failure."""
    return RestartPolicy(initial_backoff=1, factor=2, jitter=0, **more)


async def trace(tree, *, for_=100.0, act=None, **options):
    """Everything that `tree` reports until it ends, or is stopped after `for_` seconds."""
    seen = []
    try:
        async with supervisor.running(tree, log=False, listeners=[seen.append], **options) as pool:
            if act is not None:
                await act(pool)
            with trio.move_on_after(for_):
                await pool.wait_stopped()
    except TreeFailed:
        pass
    return seen


def of(seen, kind):
    """The events of one kind."""
    return [event for event in seen if event.kind == kind]


async def test_a_restart_is_announced_when_it_is_decided(autojump_clock):
    """RestartScheduled carries the wait, the number of the restart and its limit, at the time of the failure."""

    async def flaky(ctx):
        await trio.sleep(10)
        raise ValueError(ctx.run)

    tree = Supervisor("app", [Worker("flaky", flaky, restart=exactly(max_restarts=2))])
    seen = await trace(tree)

    decided = of(seen, "RestartScheduled")
    assert [(e.time, e.path, e.run, e.delay, e.attempt, e.limit) for e in decided] == [
        (10, "app/flaky/0", 1, 1, 1, 2),
        (21, "app/flaky/0", 2, 2, 2, 2),
    ]
    assert decided[0].sentence() == "app/flaky/0 restarts in 1 s (1 of 2 consecutive)"
    [gave_up] = of(seen, "GaveUp")
    assert (gave_up.time, gave_up.path, gave_up.child) == (33, "app", "app/flaky/0")
    assert "max_restarts=2" in gave_up.why
    assert [error.args[0] for error in gave_up.failures] == [1, 2, 3]
    assert "flaky" in gave_up.sentence()
    assert [type(e.error) for e in of(seen, "Failed") if e.path != "app"] == [ValueError] * 3


async def test_a_group_restart_names_the_group(autojump_clock):
    """Under one_for_all, RestartScheduled says who is restarted with the failed one."""

    async def flaky(ctx):
        if ctx.run == 1:
            raise ValueError
        await trio.sleep_forever()

    tree = Supervisor(
        "app",
        [Worker("a", forever), Worker("b", forever), Worker("flaky", flaky, restart=exactly())],
        strategy="one_for_all",
    )
    [decided] = of(await trace(tree, for_=10), "RestartScheduled")
    assert decided.group == ("a", "b")
    assert "together with a, b" in decided.sentence()


async def test_a_good_end_is_a_decision(autojump_clock):
    """Rested says that a worker has ended for good, with its path and run."""

    async def once(ctx):
        await trio.sleep(3)

    seen = await trace(Supervisor("app", [Worker("once", once)]))
    [rested] = of(seen, "Rested")
    assert (rested.time, rested.path, rested.run) == (3, "app/once/0", 1)
    assert rested.decision


async def test_holding_a_failed_one_is_a_decision(autojump_clock):
    """FailedForGood carries why and the last errors."""

    async def bad(ctx):
        raise ValueError(ctx.run)

    worker = Worker("bad", bad, restart=exactly(max_restarts=1), on_failed="hold")
    seen = await trace(Supervisor("app", [worker, Worker("good", forever)]), for_=10)
    [failed] = of(seen, "FailedForGood")
    assert (failed.time, failed.path, failed.run) == (1, "app/bad/0", 2)
    assert [error.args[0] for error in failed.failures] == [1, 2]
    assert "stays failed" in failed.sentence()


async def test_a_stop_says_who_why_and_until_when(autojump_clock):
    """StopRequested carries the reason and, for a replica, the deadline."""
    seen = await trace(
        Supervisor("app", [Worker("a", forever, shutdown=7)]),
        act=lambda pool: trio.sleep(5),
        for_=0,
    )
    asked = {event.path: event for event in of(seen, "StopRequested")}
    assert set(asked) == {"app", "app/a/0"}
    assert asked["app/a/0"].deadline == 12
    assert asked["app"].deadline is None
    assert "the block has ended" in asked["app/a/0"].why
    assert asked["app/a/0"].run == 1
    assert {event.time for event in asked.values()} == {5}


async def test_a_forced_end_and_a_stuck_run_are_reported(autojump_clock):
    """Forced says that a deadline has passed; Stuck says where a run is that does not end, again and again."""

    async def stubborn(ctx):
        with ctx.busy(), trio.CancelScope(shield=True):
            await trio.sleep(30)

    tree = Supervisor("app", [Worker("stubborn", stubborn, shutdown=2)])
    seen = await trace(tree, for_=1)

    [forced] = of(seen, "Forced")
    assert (forced.time, forced.path, forced.run, forced.decision) == (3, "app/stubborn/0", 1, True)
    stuck = of(seen, "Stuck")
    assert len(stuck) > 2
    assert {round(b.time - a.time) for a, b in pairwise(stuck)} == {5}
    assert any("stubborn" in line and "trio.sleep(30)" in line for line in stuck[0].stack)
    assert not stuck[0].thread
    report = of(seen, "TreeStopped")[0].report
    assert report.forced == ("app/stubborn/0",)
    assert report.orderly == ()
    assert report.overrun == pytest.approx(27)


async def test_what_an_operator_does_is_reported(autojump_clock):
    """Adding, scaling, disabling, enabling and removing are decisions with the path they are about."""

    async def act(pool):
        await pool.start_child("app", Worker("extra", forever))
        await pool.scale("a", 2)
        await pool.disable("extra")
        await pool.enable("extra")
        await pool.stop("extra")
        await pool.remove("extra")

    seen = await trace(Supervisor("app", [Worker("a", forever)]), act=act, for_=0)
    changed = [(e.path, e.what) for e in of(seen, "Changed")]
    assert [path for path, _ in changed] == ["app/extra", "app/a", *["app/extra/0"] * 3]
    assert [what for _, what in changed] == [
        "was added",
        "was scaled to 2",
        "was disabled",
        "was enabled",
        "was removed",
    ]


async def test_lost_messages_and_late_answers_are_reported(autojump_clock):
    """A message that fails its handler, and an answer to a caller who has gone, are events about that actor."""

    class Slow(Actor):
        async def handle(self, message):
            if message == "fail":
                raise ValueError("handler")
            await trio.sleep(2)

    async def act(pool):
        with trio.move_on_after(1):
            await pool.ref("slow").ask("late", timeout=9)
        await trio.sleep(5)
        pool.ref("slow").tell_nowait("fail")
        await trio.sleep(5)

    worker = Worker("slow", Slow, restart=exactly(), mailbox=MailboxSpec())
    seen = await trace(Supervisor("app", [worker]), act=act, for_=0)
    [late] = of(seen, "LateReply")
    assert (late.time, late.path) == (2, "app/slow/0")
    [dead] = of(seen, "DeadLettered")
    assert (dead.time, dead.path, dead.run, dead.reason) == (6, "app/slow/0", 1, "failed")
    assert str(dead.error) == "handler"


async def test_every_decision_has_time_path_and_order(autojump_clock):
    """Over a busy life every event has its number, never goes back in time and says whom it is about."""

    async def flaky(ctx):
        await trio.sleep(1)
        raise ValueError

    inner = Supervisor("inner", [Worker("flaky", flaky, restart=exactly(max_restarts=1))])
    seen = await trace(Supervisor("app", [inner, Worker("a", forever)], restart=exactly()))

    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert all(event.path.startswith("app") for event in seen)
    assert all(event.run >= 1 for event in seen if event.path.endswith("/0"))
    times = [event.time for event in seen]
    assert times == sorted(times)
    assert any(event.decision for event in seen)


async def test_an_error_without_repr_ends_a_tree_in_order(autojump_clock):
    """A worker whose errors cannot be shown is restarted and given up like any other, and TreeFailed can be read."""

    async def weird(ctx):
        raise Weird

    tree = Supervisor("app", [Worker("weird", weird, restart=exactly(max_restarts=1))])
    with pytest.raises(TreeFailed) as info:
        await supervisor.serve(tree, log=True, signals=False)
    assert "Weird" in str(info.value)
