"""Optional steps: what is hidden, what never is, and what stands in."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio

from actors.errors import BreakerOpen, PoisonMessage
from actors.resilience import Answer, degrade
from tests.resilience.kit import Down, Script


class Abrupt(BaseException):
    """No Exception."""


@pytest.mark.parametrize(
    "error",
    [
        Down(),
        TypeError(),
        BreakerOpen("x", retry_after=1, trying=False, why="it failed"),
        ExceptionGroup("two", [Down(), ValueError()]),
    ],
    ids=repr,
)
async def test_what_fails_is_hidden(autojump_clock, error):
    """Any Exception, refusals and groups among them, becomes the default, with the error on the answer."""
    answer = await degrade("x", default=7).call(Script(error))

    assert answer == Answer(value=7, degraded=True, error=error)


@pytest.mark.parametrize(
    "error", [PoisonMessage(), ExceptionGroup("two", [Down(), PoisonMessage()]), Abrupt()], ids=repr
)
async def test_what_is_never_hidden(autojump_clock, error):
    """Poison is for a person to see, and what is no Exception for its owner; in a block as in a call."""
    with pytest.raises(type(error)):
        await degrade("x").call(Script(error))
    with pytest.raises(type(error)), degrade("x"):
        raise error


@pytest.mark.parametrize("how", ["not async", "wrong arguments"])
async def test_a_call_that_cannot_be_made_is_a_mistake(autojump_clock, how):
    """A function that is not async, or is called with other arguments than it takes, is told of and never degrades."""

    async def one(x):
        raise AssertionError

    feature = degrade("x", default=7)
    call = feature(len) if how == "not async" else feature(one)
    with pytest.raises(TypeError, match=r"await|argument"):
        await call([]) if how == "not async" else await call()
    assert not feature.state.degraded


async def test_a_cancellation_is_never_hidden(autojump_clock):
    """A cancelled step is cancelled, and the feature is not degraded."""
    feature = degrade("x")
    with trio.move_on_after(1) as scope:
        await feature.call(trio.sleep, 5)
    with trio.move_on_after(1) as other, feature:
        await trio.sleep(5)

    assert scope.cancelled_caught
    assert other.cancelled_caught
    assert not feature.state.degraded


@pytest.mark.parametrize("on", [Down, (Down,), [Down, OSError], lambda e: isinstance(e, Down)])
async def test_only_what_is_named_degrades(autojump_clock, on):
    """`on` takes a class, several, or a function; other errors pass, and a group passes if one of its errors does."""
    feature = degrade("x", on=on)

    assert (await feature.call(Script(Down))).degraded
    for error in (ValueError(), ExceptionGroup("two", [Down(), ValueError()])):
        with pytest.raises(type(error)):
            await feature.call(Script(error))


async def test_a_default_can_be_made(autojump_clock):
    """A default that is a function is called each time, so that no two callers share a list."""

    @degrade("x", default=list)
    async def recommend():
        raise Down

    one, other = await recommend(), await recommend()
    assert one == other == []
    assert one is not other


async def test_a_default_that_cannot_be_made_is_no_answer(autojump_clock):
    """A default that raises ends the call with its own error, in the context of the step's, and counts as no degraded answer."""
    feature = degrade("x", default=lambda: {}["no default"])

    with pytest.raises(KeyError, match="no default") as caught:
        await feature.call(Script(Down))
    assert isinstance(caught.value.__context__, Down)
    assert (feature.state.degraded, feature.state.answers) == (False, 0)


async def test_a_stale_result_is_of_the_same_arguments(autojump_clock):
    """One user's last result never stands in for another's."""

    @degrade("recommendations", default="nothing", stale_for=60)
    async def recommend(user, *, kind="books"):
        if trio.current_time() > 0:
            raise Down
        return f"{kind} for {user}"

    assert await recommend("ann") == "books for ann"
    assert await recommend("bob", kind="films") == "films for bob"
    await trio.sleep(60)
    assert await recommend("ann") == "books for ann"
    assert await recommend("bob", kind="films") == "films for bob"
    assert await recommend("bob") == "nothing"
    await trio.sleep(0.1)
    assert await recommend("ann") == "nothing"


async def test_a_stale_result_is_of_the_same_function(autojump_clock):
    """Functions that share a feature never serve each other's results, and nor do closures or clients of two users."""

    class Client:
        def __init__(self, user):
            self.user = user
            self.down = False

        async def fetch(self, suffix=""):
            if self.down:
                raise Down
            return self.user + suffix

        async def other(self):
            raise Down

    ann, bob = Client("ann"), Client("bob")
    feature = degrade("x", default="nothing", stale_for=60)

    async def value(fn, *args):
        return (await feature.call(fn, *args)).value

    for wrap in (lambda user: user.fetch, lambda user: partial(user.fetch, "!"), fresh_lambda):
        ann.down, bob.down = False, True
        good = await value(wrap(ann))
        assert good.startswith("ann")
        assert await value(wrap(bob)) == "nothing"
        assert await value(ann.other) == "nothing"
        ann.down = True
        assert await value(wrap(ann)) == ("nothing" if wrap is fresh_lambda else good)


def fresh_lambda(user):
    return lambda: user.fetch("?")


async def test_arguments_that_cannot_be_compared_keep_nothing(autojump_clock):
    """With arguments that are not hashable no result is kept: the default is served."""
    feature = degrade("x", default="nothing", stale_for=60)

    script = Script("fresh", Down)

    assert (await feature.call(script, {"user": 1})).value == "fresh"
    assert (await feature.call(script, {"user": 1})).value == "nothing"
    assert (await feature.call(script, user=[1])).value == "nothing"


async def test_what_is_kept_is_bounded(autojump_clock):
    """A thousand results are kept, the latest ones."""
    feature = degrade("x", default=None, stale_for=60)
    script = Script(*map(str, range(2500)), Down)
    for n in range(2500):
        await feature.call(script, n)

    assert len(feature.state.kept) == 1000
    assert (await feature.call(script, 2499)).value == "2499"
    with pytest.raises(Down):
        await feature.call(script, 0)


async def test_a_block_leaves_what_is_kept_alone(autojump_clock):
    """A block has no result, so its success replaces none."""
    feature = degrade("x", stale_for=60)
    script = Script("fresh", Down)
    await feature.call(script)
    with feature:
        pass

    assert (await feature.call(script)).value == "fresh"


async def test_an_error_that_cannot_be_shown_is_hidden_too(autojump_clock):
    """An error whose repr raises degrades like any other."""

    class Mute(Exception):
        def __repr__(self):
            raise RuntimeError("no words")

    assert (await degrade("x", default=1).call(Script(Mute))).value == 1


async def test_logging_that_fails_costs_no_answer(autojump_clock, monkeypatch):
    """A handler or filter of the program's logging that raises leaves the default where it is."""

    def broken(record):
        raise OSError("no room on the disk")

    monkeypatch.setattr(logging.getLogger("actors.resilience"), "filters", [broken])
    answer = await degrade("x", default=7).call(Script(Down()))

    assert (answer.value, answer.degraded) == (7, True)


async def test_a_result_can_be_a_failure(autojump_clock):
    """`fails` says which results are failures, and the answer's error tells so."""
    answer = await degrade("x", default=0, fails=lambda r: r == "5xx").call(Script("5xx"))

    assert answer.value == 0
    assert str(answer.error) == "'5xx' is a failure"
