"""Errors that defend themselves: whose text raises, that are false, that refuse notes; and errors of the library itself."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, ActorStopped, HandlerFailed
from supervision import RestartPolicy, Supervisor, TreeFailed, Worker
from supervision.child import Replica
from supervision.events import Failed
from tests.adversity.helpers import idle, kinds, running, serve


class Mute(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Empty(Exception):
    """Is false, as an error that is a collection of nothing would be."""

    def __len__(self) -> int:
        return 0


class Undecided(Exception):
    """Is neither true nor false."""

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")


class Smooth(Exception):
    """No note sticks to it."""

    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes")

    def add_note(self, note: str) -> None:
        raise RuntimeError("no notes")


class Alone(Exception):
    """Compares with nothing, and is no key."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")


NASTY = [Mute, Empty, Undecided, Smooth, Alone]
TWICE = RestartPolicy(max_restarts=1, initial_backoff=1, jitter=0, on=(Exception, OSError))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("where", ["started", "handle", "stopped"])
@pytest.mark.parametrize("kind", NASTY)
async def test_an_error_that_defends_itself_is_a_failure(kind, where, log, autojump_clock) -> None:
    """Whatever an error does when it is looked at, the run has failed, is restarted, and its asker is told."""
    events = []

    class Nasty(Actor):
        async def started(self, ctx) -> None:
            if where == "started":
                raise kind

        async def handle(self, message) -> None:
            raise kind if where == "handle" else ValueError(message)

        async def stopped(self, ctx) -> None:
            if where == "stopped":
                raise kind

    told = 0
    with pytest.raises(TreeFailed) as failed:
        tree = Supervisor("t", [Worker("w", Nasty, restart=TWICE)])
        async with running(tree, log=log, listeners=[events.append]) as pool:
            for _ in range(2):
                try:
                    await pool.ref("w").ask("?")
                except (HandlerFailed, ActorStopped) as error:
                    told += bool(str(error))
                assert pool.snapshot().to_dict()
                assert str(pool.health())
            await trio.sleep(10)

    assert told == 2
    assert [event.path for event in kinds(events, Failed)] == ["t/w/0", "t/w/0", "t"]
    assert all(event.sentence() and event.to_dict() for event in events)
    assert str(failed.value)


@pytest.mark.parametrize("kind", [Empty, Undecided])
async def test_a_message_that_met_a_false_error_has_failed(kind, autojump_clock) -> None:
    """An error that is false as a truth value is an error: its message has failed and is redelivered, its record is kept."""

    class Nasty(Actor):
        async def handle(self, message) -> None:
            raise kind

    keep = RestartPolicy(max_restarts=0, initial_backoff=0)
    tree = Supervisor("t", [Worker("w", Nasty, restart=keep)])
    async with running(tree) as pool:
        await pool.ref("w").tell("m")
        await trio.sleep(1)
        (letter,) = pool.dead_letters
        assert (letter.reason, type(letter.error)) == ("failed", kind)
        assert type(pool.info("w").error) is kind


async def test_a_fault_of_the_library_ends_the_tree(autojump_clock, monkeypatch) -> None:
    """If the library fails itself, its error comes out of `serve`: no replica stays behind without a task."""

    async def fails(ctx) -> None:
        await trio.sleep(1)
        raise OSError("its own")

    def broken(self, *_: object) -> None:
        raise AssertionError("the library's")

    monkeypatch.setattr(Replica, "_ended", broken)
    with trio.fail_after(60), pytest.RaisesGroup(AssertionError, flatten_subgroups=True):
        await serve(Supervisor("t", [Worker("w", fails), Worker("idle", idle)]))
    assert trio.current_time() == 1
