"""Never run, only checked by the type checkers: the public API as users write it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from actors import Actor, ActorRef, Context, Event, MailboxSpec, Ref, Router, Subscription
from actors.resilience import (
    Answer,
    Backoff,
    BreakerPolicy,
    Bulkhead,
    Bulkheads,
    CircuitBreaker,
    Dependency,
    RetryPolicy,
    VegasLimit,
    deadline,
    degrade,
    retry,
)
from supervision import (
    Health,
    Pool,
    RestartPolicy,
    Snapshot,
    State,
    StopReport,
    Supervisor,
    Worker,
    WorkerInfo,
    supervisor,
)


async def relay(ctx: Context) -> None:
    ctx.started()
    ctx.heartbeat()
    with ctx.busy():
        slept: bool = await ctx.sleep(1.5)
    message: object = await ctx.mailbox.receive()
    async for order in ctx.mailbox:
        ctx.logger.info("%d", order.number)
    ctx.logger.info("got %r, slept %s", message, slept)


class Orders(Actor):
    async def started(self, ctx: Context) -> None:
        ctx.every(10.0, "tick")

    async def handle(self, message: object) -> object:
        return message

    async def stopped(self, ctx: Context) -> None:
        await trio.lowlevel.checkpoint()


class Stock(Actor):
    async def handle(self, message: str | tuple[str, int]) -> int | None:
        return len(message) if isinstance(message, str) else None


tree: Supervisor = Supervisor(
    "shop",
    [
        Worker("relay", relay, restart=RestartPolicy(max_restarts=0)),
        Worker("orders", Orders, replicas=4, mailbox=MailboxSpec(capacity=10)),
        Supervisor("sessions"),
    ],
    intensity=3,
    period=5,
)


async def use() -> None:
    async with supervisor.running(tree) as pool:
        handle: Pool = pool
        ref: Ref = handle.ref("orders")
        await ref.tell("x")
        ref.tell_nowait("x")
        answer: int = await ref.ask("x", timeout=1.0)
        router: Router = handle.router("orders", "by_key", key=str)
        count: int = router.broadcast_nowait(answer)
        workers: list[WorkerInfo] = handle.workers()
        snapshot: Snapshot = handle.snapshot()
        health: Health = handle.health()
        events: Subscription = handle.events()
        async for event in events:
            what: Event = event
            del what
        await handle.wait_state("relay", State.RUNNING, "ready")
        await handle.start_child("sessions", Worker("one", relay))
        report: StopReport = await handle.shutdown()
        del count, workers, snapshot, health, report


async def embed(nursery: trio.Nursery) -> None:
    pool: Pool = await nursery.start(supervisor.serve, tree)
    first = pool.ref("shop/orders/0")
    assert isinstance(first, ActorRef)


async def price(order: int) -> float:
    return order * 1.5


async def armour() -> None:
    policy = RetryPolicy(on=(ConnectionError,), backoff=Backoff(initial=0.1))
    stripe = Dependency("stripe", timeout=10, limit=10, retry=policy, breaker=BreakerPolicy())
    total: float = await stripe.call(price, 3)
    again: float = await retry(price, 3, policy=policy)
    breaker = CircuitBreaker("db")
    guarded: Callable[[int], Awaitable[float]] = breaker(price)
    with deadline(5, reserve=1):
        async with Bulkhead("db", 3):
            total += await guarded(1)
    law = VegasLimit(maximum=50, on=TimeoutError, fails=lambda status: status == 429)
    found = Bulkhead("search", law, max_waiting=5)
    found.resize(4)
    found.resize(law)
    limit: int = found.limit
    rule: VegasLimit | None = found.adaptive
    alone: float | None = found.statistics().alone
    total += await Bulkheads("search", law).call("tenant", price, 3)
    total += await Dependency("search", timeout=1, limit=law).call(price, 3)
    del limit, rule, alone
    answer: Answer[float] = await degrade("prices", default=0.0).call(price, 1)
    del again, answer
