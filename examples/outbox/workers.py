"""The shop's workers: intake, relay, pricing, audit.

None of them handles a failure it cannot cure. They fail, and start again from what is in the database.
"""

from __future__ import annotations

import json
from random import Random

import attrs
import trio

from actors import Actor, Context
from examples.outbox import http
from examples.outbox.chaos import Chaos
from examples.outbox.orders import Order, make_order
from examples.outbox.receiver import Receiver
from examples.outbox.store import Ledger, Outbox

__all__ = ["Audit", "Intake", "Pricing", "Relay", "Unexpected"]


class Unexpected(Exception):
    """An answer, or a booking, that should not be."""


class Pricing(Actor):
    """Answers what an order costs. One instance a run, one order at a time."""

    def __init__(self, chaos: Chaos) -> None:
        self.chaos = chaos

    async def handle(self, message: object) -> int:
        """An `Order` in, cents out: a dozen is ten percent off."""
        assert isinstance(message, Order)
        self.chaos.stumble("pricing")
        return message.cents * 9 // 10 if message.quantity >= 12 else message.cents


@attrs.frozen(kw_only=True)
class Intake:
    """Writes `orders` orders into the outbox, about one every `interval` seconds."""

    outbox: Outbox
    seed: int
    orders: int
    interval: float

    async def __call__(self, ctx: Context) -> None:
        """Go on after the last order that was stored; return when all are: then it is done for good."""
        random = Random(self.seed)
        pricing = ctx.find("pricing")
        for number in range(await self.outbox.last_number() + 1, self.orders + 1):
            # Customers do not come evenly. The sleep ends early when a stop is asked for.
            if not await ctx.sleep(random.expovariate(1 / self.interval)):
                return
            order = make_order(self.seed, number)
            with ctx.busy():  # an order that has come in is priced and stored before a stop
                cents = await pricing.ask(order)
                assert isinstance(cents, int)
                await self.outbox.add(attrs.evolve(order, cents=cents))


@attrs.frozen(kw_only=True)
class Relay:
    """Sends what is in the outbox, at least once: an order counts as sent when the receiver has confirmed it."""

    outbox: Outbox
    receiver: Receiver
    timeout: float

    async def __call__(self, ctx: Context) -> None:
        """Claim, publish, mark; until a stop."""
        # A replica never has two runs at a time: what is claimed in its name was left by a run that failed.
        await self.outbox.release(ctx.path)
        audit = ctx.find("audit")
        while True:
            wait = 0.0
            # From claim to mark is one piece of work: a stop lets it finish.
            with ctx.busy():
                order = await self.outbox.claim(ctx.path)
                if order is not None:
                    wait = await self._publish(order)
                    if not wait:
                        await audit.tell(order)
                        await self.outbox.mark_sent(order.number)
                    else:
                        await self.outbox.release(ctx.path)
            if not await ctx.sleep(wait if order is not None else 0.1):
                return

    async def _publish(self, order: Order) -> float:
        """Send one order; returns 0, or the seconds after which the receiver wants to be asked again.

        No answer, no connection, nonsense: those are raised, and the supervisor restarts this relay after a backoff.
        """
        body = json.dumps(attrs.asdict(order)).encode()
        try:
            with trio.fail_after(self.timeout):
                answer = await http.post(self.receiver.port, "/orders", body)
        except trio.TooSlowError:
            raise TimeoutError(
                f"no answer for order {order.number} in {self.timeout:g} s"
            ) from None
        if answer.status == 503:
            return float(answer.headers.get("retry-after", "1"))
        if answer.status != 200:
            raise Unexpected(f"order {order.number} was answered {answer.status}: {answer.body!r}")
        return 0.0


class Audit(Actor):
    """Looks up every order that was sent in the receiver's books.

    Its mailbox outlives its runs: the message in hand at a failure is given to the next run (`redeliver`), and a running
    one empties its queue before it stops (`drain`). What must outlive a run is kept outside: `audited`.
    """

    def __init__(self, ledger: Ledger, chaos: Chaos, audited: set[int]) -> None:
        self.ledger = ledger
        self.chaos = chaos
        self.audited = audited

    async def handle(self, message: object) -> None:
        """An `Order` that was sent: exactly one booking, of the right amount."""
        assert isinstance(message, Order)
        self.chaos.stumble("audit")
        booked = await self.ledger.booked(message.number)
        if booked != [message.cents]:
            raise Unexpected(f"order {message.number} over {message.cents} is booked as {booked}")
        self.audited.add(message.number)
