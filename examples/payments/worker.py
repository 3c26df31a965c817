"""The payment worker: what becomes of one order.

| what comes | what it does | what becomes of the job |
|---|---|---|
| a line that cannot be understood | raises `PoisonMessage` | an incident, set aside in `poison_jobs` with its reason |
| an amount above the limit | raises `IncidentError` | waits for a person |
| a fraud score that is not to be had | goes on without | |
| a provider that is slow, busy or gone | `Dependency` tries again, then stops calling it | put off; no jobs are taken meanwhile |
| a card that is declined | raises `BpmnError` with the provider's code | ends, for the process to route |
| a good answer | books it and completes the job in one transaction | completed |
| a crash, anywhere | | handed out again when its lease has run out |
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from actors import ActorError, Context
from actors.jobs import BpmnError, IncidentError, Job, PoisonMessage
from actors.resilience import (
    Backoff,
    BreakerPolicy,
    Dependency,
    RetryPolicy,
    degrade,
)
from examples.payments.books import Books
from examples.payments.client import TRANSIENT, Declined, Provider
from examples.payments.settings import Settings

__all__ = ["FETCH", "Charging", "Order", "dependency"]

DIGITS: Final = {"EUR": 2, "USD": 2, "GBP": 2, "CHF": 2, "JPY": 0}
"""The currencies taken, and what each has behind the point."""
LIMITS: Final = {"EUR": 5000_00, "USD": 5500_00, "GBP": 4500_00, "CHF": 5000_00, "JPY": 800_000}
"""In the smallest unit: more needs a person."""
FETCH: Final = ("line", "raw", "order", "card", "amount", "currency")
"""What is read of a job's variables. Names, addresses and gift messages stay where they are."""


def dependency(settings: Settings) -> Dependency:
    """How the provider is called. Breaker, places and budget are shared by all that call it in one process."""
    timeout = settings.timeout
    return Dependency(
        "provider",
        timeout=timeout,
        total=4 * timeout,
        limit=16,
        max_waiting=16,
        retry=RetryPolicy(on=TRANSIENT, attempts=3, backoff=Backoff(initial=0.1, maximum=timeout)),
        breaker=BreakerPolicy(on=TRANSIENT, failures=8, open_for=timeout, open_max=2 * timeout),
    )


@attrs.frozen
class Order:
    """What is charged. The amount is in the smallest unit of its currency."""

    order: str
    card: str
    amount: int
    currency: str

    @classmethod
    def of(cls, found: dict[str, Any]) -> Order:
        """Understand the variables of a job.

        Raises:
            PoisonMessage: nobody can, however often it is tried.
        """
        where = f"line {found['line']}"
        if "raw" in found:
            raise PoisonMessage(f"{where} is cut off, or no UTF-8: {found['raw'][:40]!r}")
        for name in ("order", "card"):
            if not found[name]:
                raise PoisonMessage(f"{where} has no {name}")
        digits = DIGITS.get(found["currency"])
        if digits is None:
            raise PoisonMessage(f"{where}: no currency is called {found['currency']!r}")
        point = rf"\.\d{{{digits}}}" if digits else ""
        good = re.fullmatch(rf"\d{{1,9}}{point}", found["amount"], re.ASCII)
        amount = int(found["amount"].replace(".", "")) if good else 0
        if not amount:
            raise PoisonMessage(f"{where}: {found['amount']!r} is no amount in {found['currency']}")
        return cls(found["order"], found["card"], amount, found["currency"])


@attrs.frozen
class Charging:
    """The handler of `charge` jobs."""

    provider: Provider
    armoured: Dependency
    books: Books

    async def __call__(self, job: Job, ctx: Context) -> None:
        """One job; it may be another's second try, after whatever happened to the first."""
        found = job.variables
        order = Order.of(found)
        if order.amount > LIMITS[order.currency]:
            raise IncidentError(
                f"order {order.order} over {found['amount']} {order.currency} needs a person's approval"
            )
        score: int | None = None
        with degrade("fraud score", on=ActorError):
            score = await ctx.find("scores").ask(order.card, timeout=0.5)
        try:
            charge = await self.armoured.call(
                self.provider.charge, attrs.asdict(order), idempotency_key=job.idempotency_key
            )
        except Declined as no:
            raise BpmnError(no.code, f"order {order.order} was declined") from no
        # Charged, and not yet booked: if everything ends here, the next try gets the same charge for the same key.
        await job.transaction(
            self.books.book, order.order, charge, order.amount, order.currency, score
        )
