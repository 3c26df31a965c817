"""A shop to look at: workers, actors, jobs, a guarded dependency; its troubles are files that a test makes.

`treewarden serve tests.browser.shop:tree` runs it. While the folder that SHOP_TROUBLES names holds a file of that name:

* `fetch`: one of the fetchers fails.   * `smtp`: the mail worker fails until its limit is used up.
* `payments`: the payment service is down.   * `slow`: the stores are slow, and what is sent to them piles up.
* `bounces`: reminders need a person.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from random import Random

import trio

from actors import Actor, MailboxFull, MailboxSpec
from actors.jobs import IncidentError, JobWorker, MemoryEngine, NewJob
from actors.resilience import BreakerPolicy, Dependency, RetryPolicy
from supervision import RestartPolicy, Supervisor, Worker

TROUBLES = Path(os.environ.get("SHOP_TROUBLES", "/nonexistent"))
CHANCE = Random(3)


def trouble(name: str) -> bool:
    """Whether there is such a trouble now."""
    return (TROUBLES / name).exists()


class PaymentsDown(Exception):
    """503: it may work in a moment."""


payments = Dependency(
    "payments",
    timeout=5,
    limit=4,
    max_waiting=8,
    retry=RetryPolicy(on=PaymentsDown, attempts=1),
    breaker=BreakerPolicy(on=PaymentsDown, failures=5, open_for=20),
)
stock = Dependency("stock", timeout=2, limit=4, max_waiting=8, breaker=BreakerPolicy())
engine = MemoryEngine()


async def pay(*, idempotency_key: str) -> None:
    """Stands for the payment service."""
    await trio.sleep(0.02)
    if trouble("payments"):
        raise PaymentsDown("503 from payments")


class Fetch(Actor):
    """Takes an order in and passes it on."""

    async def handle(self, message: int) -> None:
        """One order."""
        await trio.sleep(CHANCE.uniform(0.005, 0.03))
        if self.ctx.replica == 3 and trouble("fetch"):
            raise ValueError(f"bad payload in order {message}")
        await stock.call(trio.sleep, 0.001)
        await self.ctx.find("store").tell(message)


class Store(Actor):
    """Keeps orders; slow on a bad day."""

    async def handle(self, message: int) -> None:
        """One order."""
        await trio.sleep(0.9 if trouble("slow") else CHANCE.uniform(0.002, 0.01))


async def feed(ctx) -> None:
    """Orders come in, in waves."""
    order = 0
    orders = ctx.find("fetch")
    while await ctx.sleep(CHANCE.choice([0.005, 0.01, 0.02, 0.05])):
        order += 1
        with suppress(MailboxFull):  # who cannot take it now is asked again soon
            orders.tell_nowait(order)
        if order % 10 == 0:
            await engine.enqueue(NewJob("invoice" if order % 20 else "reminder", {"order": order}))


async def invoice(job, ctx) -> None:
    """Charge one order."""
    await trio.sleep(0.05)
    await payments.call(pay, idempotency_key=job.key)


async def remind(job, ctx) -> None:
    """Remind of one order."""
    await trio.sleep(0.03)
    if trouble("bounces"):
        raise IncidentError(f"the address of order {job.variables['order']} bounces")


async def smtp(ctx) -> None:
    """Stands for a connection that is lost."""
    ctx.started()
    while await ctx.sleep(0.05):
        if trouble("smtp"):
            raise ConnectionRefusedError("mail.example.org:25 refused the connection")


async def idle(ctx) -> None:
    """Waits to be asked."""
    while await ctx.sleep(60):
        pass


async def prune(ctx) -> None:
    """Tidies up once."""


QUICK = RestartPolicy(max_restarts=3, initial_backoff=0.05, max_backoff=0.1, jitter=0)
PATIENT = RestartPolicy(max_restarts=20, initial_backoff=2.0, max_backoff=6.0)

tree = Supervisor(
    "shop",
    [
        Worker("store", Store, replicas=3, mailbox=MailboxSpec(capacity=16)),
        Worker("fetch", Fetch, replicas=4, restart=PATIENT, mailbox=MailboxSpec(capacity=16)),
        Worker("feed", feed),
        Supervisor(
            "billing",
            [
                Worker("invoices", JobWorker("invoice", invoice, engine=engine), replicas=2),
                Worker("reminders", JobWorker("reminder", remind, engine=engine)),
                Worker("ledger", idle),
            ],
        ),
        Supervisor(
            "mail",
            [
                Worker("smtp", smtp, restart=QUICK, on_failed="hold", ready="signal"),
                Worker("templates", idle),
            ],
        ),
        Worker("prune", prune),
    ],
)


async def crowd(ctx) -> None:
    """One of very many."""
    while await ctx.sleep(3600):
        pass


def crowded() -> Supervisor:
    """Five thousand replicas."""
    return Supervisor("crowd", [Worker(f"walkers{n}", crowd, replicas=500) for n in range(10)])
