"""The other side: a small HTTP service that books orders, as one supervised worker.

It plays a partner's server, so it shares nothing with the shop but the wire. An order may come more than once, because an
answer can get lost: it counts every delivery and books the first.
"""

from __future__ import annotations

import json

import trio

from actors import Context
from examples.outbox import http
from examples.outbox.chaos import Chaos, Fault
from examples.outbox.store import Ledger

__all__ = ["Crashed", "Receiver"]


class Crashed(Exception):
    """The receiver went down."""


class Receiver:
    """The service; `run` is one life of it.

    Args:
        ledger: where it books.
        chaos: what goes wrong.
        heartbeat: seconds between two signs of life.
        latency: seconds that a request takes.
    """

    def __init__(self, ledger: Ledger, chaos: Chaos, *, heartbeat: float, latency: float) -> None:
        self.ledger = ledger
        self.chaos = chaos
        self.heartbeat = heartbeat
        self.latency = latency
        self.port = 0
        """Where it listens; after a crash the old number, where nobody answers, until it is up again."""

    async def run(self, ctx: Context) -> None:
        """Listen, say so, answer. The spec says `ready="signal"`: who starts after it finds it listening."""
        desk = trio.Lock()  # one order at a time; also what hangs, when it hangs

        async def handle(request: http.Request) -> http.Response:
            # A stop lets an order in hand be answered; connections that only wait are closed.
            with ctx.busy():
                return await self._book(request, desk)

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(http.serve, handle, listeners)
            ctx.started()
            while True:
                # Show that orders can be booked, not only that this loop turns.
                async with desk:
                    ctx.heartbeat()
                await trio.sleep(self.heartbeat)

    async def _book(self, request: http.Request, desk: trio.Lock) -> http.Response:
        try:
            order = json.loads(request.body)
            number, cents = int(order["number"]), int(order["cents"])
        except (ValueError, KeyError, TypeError):
            return http.Response(400, b"an order has a number and an amount in cents")
        fault = self.chaos.fault()
        if fault is Fault.REFUSE:
            return http.Response(503, b"busy", {"Retry-After": "0.4"})
        if fault is Fault.CRASH:
            raise Crashed(f"before order {number} was recorded")
        async with desk:
            await trio.sleep(self.latency)
            times = await self.ledger.record(number, cents)
            if fault is Fault.LOSE_ANSWER:
                raise Crashed(f"order {number} was recorded, not answered")
            if fault is Fault.HANG:
                await trio.sleep_forever()
        return http.Response(200, json.dumps({"number": number, "delivery": times}).encode())
