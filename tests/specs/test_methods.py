"""Actors whose methods no run could await, and those that only look so."""

from __future__ import annotations

import functools

import pytest

from actors import Actor
from supervision import SpecError, Worker


class SyncHandle(Actor):
    def handle(self, message):
        return message


class Yields(Actor):
    async def handle(self, message):
        yield message


class NoMessage(Actor):
    async def handle(self):
        return None


class SyncStart(Actor):
    def started(self, ctx): ...


class NoContext(Actor):
    async def started(self): ...


class SyncStop(Actor):
    def stopped(self, ctx): ...


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (SyncHandle, "SyncHandle.handle is no async function; write 'async def handle(self, message)'"),
        (Yields, "Yields.handle is no async function"),
        (NoMessage, "NoMessage.handle does not take one argument, the message"),
        (SyncStart, "SyncStart.started is no async function; write 'async def started(self, ctx)'"),
        (NoContext, "NoContext.started does not take one argument, the ctx"),
        (SyncStop, "SyncStop.stopped is no async function"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.__name__,
)  # fmt: skip
def test_an_actor_that_cannot_be_awaited_is_refused(made, says: str) -> None:
    """A method that each message would fail at is refused at once, with how to write it."""
    with pytest.raises(SpecError) as caught:
        Worker("a", made)

    assert str(caught.value).startswith("worker 'a': ")
    assert says in str(caught.value)
    assert caught.value.option == "run"


def test_an_actor_may_hand_on_its_messages() -> None:
    """A decorated method, a partial one, and one that chooses by the type of the message pass."""

    def decorated(fn):
        @functools.wraps(fn)
        def call(self, message):
            return fn(self, message)

        return call

    class Decorated(Actor):
        @decorated
        async def handle(self, message): ...

    class Chooses(Actor):
        @functools.singledispatchmethod
        async def handle(self, message): ...

    class Partial(Actor):
        async def both(self, how, message): ...

        handle = functools.partialmethod(both, "how")

    for kind in (Decorated, Chooses, Partial):
        assert Worker("a", kind).run is kind
