"""Calls that must not happen twice: what has to carry an idempotency key before it may be retried."""

from __future__ import annotations

from functools import partial

import pytest

from actors.errors import MissingIdempotencyKey
from actors.resilience import CircuitBreaker, Dependency, deadline, degrade, non_idempotent, retry
from tests.resilience.kit import Down, policy


class Bank:
    """Something with a method that moves money."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    @non_idempotent
    async def pay(self, amount: int, *, idempotency_key: str | None = None) -> int:
        self.calls.append(idempotency_key)
        if len(self.calls) == 1:
            raise Down
        return amount


async def call(fn, *args, **kwargs):
    return await retry(fn, *args, policy=policy(), **kwargs)


async def through_dependency(fn, *args, **kwargs):
    return await Dependency("bank", timeout=5, retry=policy()).call(fn, *args, **kwargs)


async def decorated(fn, *args, **kwargs):
    return await policy()(fn)(*args, **kwargs)


async def marked_above(fn, *args, **kwargs):
    async def plain(*args, **kwargs):
        return await fn(*args, **kwargs)

    return await non_idempotent(policy()(plain))(*args, **kwargs)


async def marked_far_above(fn, *args, **kwargs):
    async def plain(*args, **kwargs):
        return await fn(*args, **kwargs)

    bound = deadline(60)(CircuitBreaker("bank")(policy()(plain)))
    return await non_idempotent(bound)(*args, **kwargs)


async def marked_above_a_dependency(fn, *args, **kwargs):
    async def plain(*args, **kwargs):
        return await fn(*args, **kwargs)

    dependency = Dependency("bank", timeout=5, retry=policy())
    return await non_idempotent(degrade("x", on=OSError)(dependency(plain)))(*args, **kwargs)


async def marked_above_a_method(fn, *args, **kwargs):
    class Client:
        @policy()
        async def pay(self, *args, **kwargs):
            return await fn(*args, **kwargs)

    return await non_idempotent(deadline(60)(Client().pay))(*args, **kwargs)


async def guarded(fn, *args, **kwargs):
    return await Dependency("bank", timeout=5, retry=policy())(fn)(*args, **kwargs)


SHAPES = pytest.mark.parametrize(
    "shape",
    [
        call,
        through_dependency,
        decorated,
        marked_above,
        marked_far_above,
        marked_above_a_dependency,
        marked_above_a_method,
        guarded,
    ],
)


@SHAPES
@pytest.mark.parametrize("key", [{}, {"idempotency_key": None}, {"idempotency_key": ""}], ids=str)
async def test_no_key_no_call(autojump_clock, shape, key):
    """Without a key (an empty one is none) a marked call that would be retried is not even made once."""
    bank = Bank()

    with pytest.raises(MissingIdempotencyKey, match=r"3 attempts.*idempotency_key="):
        await shape(bank.pay, 5, **key)
    assert bank.calls == []


@SHAPES
async def test_each_attempt_carries_the_same_key(autojump_clock, shape):
    """With a key it is retried, and each attempt passes the key on."""
    bank = Bank()

    assert await shape(bank.pay, 5, idempotency_key="k1") == 5
    assert bank.calls == ["k1", "k1"]


async def test_a_partial_is_what_it_is_a_partial_of(autojump_clock):
    """`functools.partial` neither hides the mark nor the key that it binds."""
    bank = Bank()

    with pytest.raises(MissingIdempotencyKey):
        await call(partial(partial(bank.pay, 5)))
    assert await call(partial(partial(bank.pay, 5, idempotency_key="k1"))) == 5
    assert bank.calls == ["k1", "k1"]


async def test_a_partial_may_carry_the_mark_itself(autojump_clock):
    """A mark on a `functools.partial` holds like one on the function within."""

    async def pay(amount: int) -> int:
        raise AssertionError("called without a key")

    with pytest.raises(MissingIdempotencyKey):
        await call(partial(non_idempotent(partial(pay, 5))))


async def test_one_attempt_needs_no_key(autojump_clock):
    """A call that is not repeated needs no key."""
    bank = Bank()

    with pytest.raises(Down):
        await retry(bank.pay, 5, policy=policy(attempts=1))
    assert await Dependency("bank", timeout=5).call(bank.pay, 5) == 5


async def test_a_dependency_can_say_it_for_all_its_calls(autojump_clock):
    """`idempotent=False` asks every call for a key, marked or not."""
    bank = Dependency("bank", timeout=5, retry=policy(), idempotent=False)

    async def pay(**kwargs):
        return kwargs

    with pytest.raises(MissingIdempotencyKey, match="a call to bank"):
        await bank.call(pay)
    assert await bank.call(pay, idempotency_key="k") == {"idempotency_key": "k"}


@pytest.mark.parametrize("key", [None, "", "k"])
async def test_a_decorated_function_gets_the_key_that_it_is_given(autojump_clock, key):
    """What a decorated function is called with it gets, a key of None among it."""

    @Dependency("bank", timeout=5)
    async def pay(amount, *, idempotency_key):
        return amount, idempotency_key

    assert await pay(5, idempotency_key=key) == (5, key)


async def test_unlimited_attempts_are_said_to_be_so(autojump_clock):
    """The error says how often the call would have been made."""
    with pytest.raises(MissingIdempotencyKey, match="unlimited attempts"):
        await retry(Bank().pay, 5, policy=policy(attempts=None))
