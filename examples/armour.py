"""A till whose payment service goes down and comes back: retries, a breaker that opens, trials, recovery.

The service is a real HTTP server on this machine, in the same tree. It answers by a script, so every run tells the same story.
`--fast` makes the waits short.
"""

from __future__ import annotations

import logging
import sys

import trio

from actors import Context
from actors.resilience import Backoff, BreakerPolicy, Dependency, Rejected, RetryPolicy
from examples.outbox import http
from supervision import AutoShutdown, Supervisor, Worker, supervisor

PAUSE = 0.1 if "--fast" in sys.argv else 1.0
ANSWERS = [200, 503, 200, 503, 503, 503, 503, 503, 503]  # and 200 from then on


class Unavailable(Exception):
    """The service cannot answer now. Worth another attempt, unlike a charge that it declines."""


TRANSIENT = (Unavailable, ConnectionError, trio.TooSlowError)

payments = Dependency(
    "payments",
    timeout=5,
    limit=10,
    max_waiting=50,
    retry=RetryPolicy(on=TRANSIENT, attempts=3, backoff=Backoff(initial=PAUSE / 10, jitter=0)),
    breaker=BreakerPolicy(on=TRANSIENT, failures=5, open_for=PAUSE),
)


class Service:
    """The other side. It books an order once, however often it is asked."""

    def __init__(self) -> None:
        self.port = 0
        self.requests = 0
        self.booked: set[bytes] = set()

    async def run(self, ctx: Context) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        ctx.started()
        await http.serve(self.answer, listeners)

    async def answer(self, request: http.Request) -> http.Response:
        status = ANSWERS[self.requests] if self.requests < len(ANSWERS) else 200
        self.requests += 1
        if status == 200:
            self.booked.add(request.headers["idempotency-key"].encode())
        return http.Response(status)


service = Service()


async def charge(order: int, *, idempotency_key: str) -> None:
    """One request. What the answer means is said here, once: the guards go by the error."""
    headers = {"Idempotency-Key": idempotency_key}
    answer = await http.post(service.port, "/charges", str(order).encode(), **headers)
    if answer.status == 503:
        raise Unavailable(answer.status)


async def till(ctx: Context) -> None:
    for order in range(1, 7):
        done = False
        while not done:
            try:
                await payments.call(charge, order, idempotency_key=f"order {order}")
            except Rejected as refusal:
                print(f"order {order}: not sent, again in {refusal.retry_after:.1f} s")
                await ctx.sleep(refusal.retry_after)
            except Unavailable:
                print(f"order {order}: not charged, put back")
            else:
                print(f"order {order}: charged")
                done = True


tree = Supervisor(
    "shop",
    [
        Worker("service", service.run, ready="signal"),
        Worker("till", till, significant=True),
    ],
    auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
)


async def main() -> None:
    await supervisor.serve(tree)
    print(f"{service.requests} requests, {len(service.booked)} orders booked")


if __name__ == "__main__":
    logging.basicConfig(level="INFO", stream=sys.stdout, format="    %(message)s")
    trio.run(main)
