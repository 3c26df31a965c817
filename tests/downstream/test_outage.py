"""A downstream that goes away and comes back: what is still sent, what is refused, and how it recovers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import httpx
import pytest
import trio

from actors import Actor, Context, Gap, Subscription
from actors.resilience import (
    BreakerChanged,
    BreakerOpen,
    BreakerPolicy,
    Dependency,
    Rejected,
    RetryPolicy,
)
from supervision import Supervisor, Worker, supervisor
from tests.downstream.client import QUICK, Till, breaker_of, dependency, transient
from tests.downstream.server import Downstream, busy, hang, slow, well

NO_RETRY = RetryPolicy(on=transient, attempts=1)
Changes = list[BreakerChanged]


async def caller(ctx: Context, stripe: Dependency, till: Till, told: list[Exception]) -> None:
    """Call without end; hardly wait after a refusal, as badly as a consumer can behave."""
    while not ctx.stopping:
        try:
            await stripe.call(till.charge, 100)
        except Exception as error:
            told.append(error)
            await trio.sleep(0.005 if isinstance(error, Rejected) else 0)


def callers(stripe: Dependency, till: Till, told: list[Exception], replicas: int) -> Supervisor:
    run = partial(caller, stripe=stripe, till=till, told=told)
    return Supervisor("shop", [Worker("callers", run, replicas=replicas)])


async def watch(events: Subscription, until: Callable[[Changes], bool]) -> Changes:
    """Collect the changes of breakers that were not seen yet, until enough are there."""
    seen: Changes = []
    async for event in events:
        assert not isinstance(event, Gap)
        if isinstance(event, BreakerChanged):
            seen.append(event)
            if until(seen):
                break
    return seen


def states(changes: Changes) -> list[str]:
    return [change.new for change in changes]


async def test_the_breaker_opens_and_nothing_more_is_sent(
    downstream: Downstream, till: Till
) -> None:
    """After five failed calls the sixth and all after it are refused without a request."""
    downstream.mood = busy()
    stripe = dependency(
        retry=NO_RETRY, breaker=BreakerPolicy(failures=5, open_for=600, open_max=600)
    )
    told: list[Exception] = []
    for _ in range(100):
        try:
            await stripe.call(till.charge, 100)
        except Exception as error:
            told.append(error)

    assert downstream.seen.value == till.attempts == 5
    refused = [error for error in told if isinstance(error, BreakerOpen)]
    assert len(refused) == 95
    assert breaker_of(stripe).rejected == 95
    assert refused[-1].retry_after > 0
    assert not stripe.available


async def test_the_breaker_waits_as_long_as_the_downstream_asks(
    downstream: Downstream, till: Till
) -> None:
    """The Retry-After of the failure that opens the breaker decides how long it stays open, if it is longer."""
    downstream.mood = busy("200")
    stripe = dependency(breaker=BreakerPolicy(on=transient, failures=1, open_for=5))
    with pytest.raises(Exception, match="503"):
        await stripe.call(till.charge, 100)
    with pytest.raises(BreakerOpen) as caught:
        await stripe.call(till.charge, 100)

    assert downstream.seen.value == 1
    assert caught.value.retry_after > 100


async def test_an_outage_costs_a_bounded_number_of_requests(
    downstream: Downstream, till: Till
) -> None:
    """Four replicas in a tight loop send a sick downstream five requests, those under way, and one for each trial."""
    downstream.mood = busy()
    stripe = dependency(retry=NO_RETRY)
    told: list[Exception] = []
    async with supervisor.running(callers(stripe, till, told, 4), log=False) as pool:
        events = pool.events(size=100_000)
        # `open` the sixth time: the first and five trials that failed.
        changes = await watch(events, lambda seen: states(seen).count("open") == 6)
        sent = downstream.seen.value

    trials = states(changes).count("half_open")
    assert trials == 5
    assert 5 + trials <= sent <= 5 + 3 + trials
    assert any(isinstance(error, BreakerOpen) for error in told)


async def test_the_waits_grow_while_trials_fail(downstream: Downstream, till: Till) -> None:
    """Each failed trial doubles the time that the breaker stays open, up to its limit."""
    downstream.mood = busy()
    stripe = dependency(retry=NO_RETRY)
    async with supervisor.running(callers(stripe, till, [], 2), log=False) as pool:
        events = pool.events(size=100_000)
        changes = await watch(events, lambda seen: states(seen).count("open") == 5)

    waits = [change.why for change in changes if change.new == "half_open"]
    assert waits == [f"it was open for {seconds} s" for seconds in ("0.05", "0.1", "0.2", "0.4")]
    assert all(change.decision for change in changes)


async def test_it_dies_and_comes_back(downstream: Downstream, till: Till) -> None:
    """When the process behind the port dies and returns, the first trial after that closes the breaker and calls flow."""
    stripe = dependency()
    told: list[Exception] = []
    async with supervisor.running(callers(stripe, till, told, 3), log=False) as pool:
        events = pool.events(size=100_000)
        await downstream.seen.wait_value(lambda seen: seen >= 10)
        assert told == []

        async with trio.open_nursery() as nursery:
            nursery.start_soon(downstream.die)
            outage = await watch(events, lambda seen: states(seen).count("open") == 3)
        assert states(outage) == ["open", "half_open"] * 2 + ["open"]

        # It is open now, so no trial is under way that would still find nobody.
        before = downstream.seen.value
        await downstream.rise()
        recovery = await watch(events, lambda seen: seen[-1].new == "closed")
        assert states(recovery) == ["half_open", "closed"]
        failures = len(told)
        await downstream.seen.wait_value(lambda seen: seen >= before + 20)
        real = [error for error in told[failures:] if not isinstance(error, Rejected)]
        assert real == []


async def test_one_trial_at_a_time(downstream: Downstream, till: Till) -> None:
    """While one replica tries whether the downstream is back, all others are refused, and one answer lets them all in."""
    downstream.mood = busy()
    # The lease is longer than any machine is slow: the gate alone decides when the trial ends.
    policy = BreakerPolicy(on=transient, failures=5, open_for=0.05, lease=50.0)
    stripe = dependency(retry=NO_RETRY, breaker=policy)
    told: list[Exception] = []

    async def open_it(ctx: Context) -> None:
        for _ in range(5):
            with pytest.raises(httpx.HTTPStatusError):
                await stripe.call(till.charge, 100)
        downstream.mood = slow
        ctx.started()

    crowd = Worker("callers", partial(caller, stripe=stripe, till=till, told=told), replicas=8)
    tree = Supervisor("shop", [Worker("first", open_it, ready="signal"), crowd])
    async with supervisor.running(tree, log=False, wait_ready=False) as pool:
        events = pool.events(size=100_000)
        await watch(events, lambda seen: seen[-1].new == "half_open")
        await downstream.under_way.wait_value(1)
        refused = len(told)
        while len(told) < refused + 50:
            await trio.sleep(0.001)
        assert downstream.under_way.value == 1
        late = told[refused:]
        assert all(isinstance(error, BreakerOpen) and error.trying for error in late)

        downstream.mood = well
        before = downstream.seen.value
        downstream.gate.set()
        await downstream.seen.wait_value(lambda seen: seen >= before + 20)


async def test_a_hung_trial_does_not_wedge(downstream: Downstream, till: Till) -> None:
    """A trial that hangs for ever loses its place after its lease, and another one closes the breaker."""
    # The first request opens it, and by then no other is under way; so what hangs is the trial.
    downstream.script.extend([busy(), hang])
    policy = BreakerPolicy(on=transient, failures=1, open_for=0.05)
    stripe = dependency(retry=NO_RETRY, breaker=policy, timeout=50.0)

    async def open_it(ctx: Context) -> None:
        with pytest.raises(httpx.HTTPStatusError):
            await stripe.call(till.charge, 100)
        ctx.started()

    crowd = Worker("callers", partial(caller, stripe=stripe, till=till, told=[]), replicas=2)
    tree = Supervisor("shop", [Worker("first", open_it, ready="signal"), crowd])
    async with supervisor.running(tree, log=False, wait_ready=False) as pool:
        changes = await watch(pool.events(size=100_000), lambda seen: seen[-1].new == "closed")

        assert states(changes) == ["open", "half_open", "closed"]
        assert downstream.under_way.value >= 1
        assert downstream.given_up.value == 0


class Desk(Actor):
    """Charges when asked to; says what it was told."""

    def __init__(self, stripe: Dependency, till: Till) -> None:
        self.stripe = stripe
        self.till = till

    async def handle(self, message: object) -> str:
        try:
            return str(await self.stripe.call(self.till.charge, 100))
        except Exception as error:
            return type(error).__name__


async def test_replicas_share_a_breaker_and_trees_do_not(
    downstream: Downstream, till: Till
) -> None:
    """Failures that five replicas saw once each open the breaker for all of them, and for no other tree."""
    downstream.mood = busy()
    stripe = dependency(
        retry=NO_RETRY, breaker=BreakerPolicy(failures=5, open_for=600, open_max=600)
    )
    desks = Supervisor("shop", [Worker("desk", lambda: Desk(stripe, till), replicas=5)])
    async with (
        supervisor.running(desks, log=False) as pool,
        supervisor.running(desks, log=False) as other,
    ):
        answers = [await pool.ref(f"shop/desk/{n}").ask("charge") for n in range(5)]
        assert answers == ["HTTPStatusError"] * 5
        assert [await pool.ref(f"shop/desk/{n}").ask("charge") for n in range(5)] == [
            "BreakerOpen"
        ] * 5
        assert downstream.seen.value == 5

        downstream.mood = well
        assert await other.ref("shop/desk/0").ask("charge") == "1"
        assert await pool.ref("shop/desk/0").ask("charge") == "BreakerOpen"


async def test_changes_are_in_the_stream_of_the_calling_tree(
    downstream: Downstream, till: Till
) -> None:
    """A change of the breaker is an event of the tree whose replica called, with its path, the reason and the wait."""
    downstream.mood = busy()
    policy = BreakerPolicy(failures=5, open_for=600, open_max=600)
    stripe = dependency(retry=RetryPolicy(on=transient, attempts=9, backoff=QUICK), breaker=policy)
    heard: list[object] = []
    desks = Supervisor("shop", [Worker("desk", lambda: Desk(stripe, till))])
    async with (
        supervisor.running(desks, log=False) as other,
        supervisor.running(desks, log=False, listeners=[heard.append]) as pool,
    ):
        elsewhere = other.events()
        assert await pool.ref("desk").ask("charge") == "BreakerOpen"
        while (event := elsewhere.receive_nowait()) is not None:
            assert not isinstance(event, BreakerChanged)

    (change,) = [event for event in heard if isinstance(event, BreakerChanged)]
    assert (change.path, change.run, change.breaker) == ("shop/desk/0", 1, "till")
    assert (change.old, change.new) == ("closed", "open")
    assert change.why == "5 consecutive calls failed"
