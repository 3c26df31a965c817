"""The provider: a payment service in a process of its own, over HTTP, which fails as such services do.

`python -m examples.payments.provider`, started and restarted by `demo.py`. It keeps its word on one thing: a key that it has
answered before gets the same answer again, and charges nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain, count, repeat
from random import Random

import attrs
import trio

from actors import Context
from examples.payments import parent
from examples.payments.ledger import Ledger
from examples.payments.settings import Settings
from examples.payments.wire import Answer, HangUp, Request, serve
from supervision import Supervisor, Worker

__all__ = ["Fault", "Provider"]


class Fault(StrEnum):
    """What it does to a charge instead of answering it well."""

    BUSY = "answers 503 for a while, with Retry-After"
    RESET = "resets the connection before it charges"
    LOSE = "charges, then resets the connection"
    SLOW = "charges, then answers too late"
    DIE = "charges, then its process dies"


@attrs.define
class Provider:
    """One life of the service."""

    settings: Settings
    ledger: Ledger
    faults: Iterator[Fault | None]
    busy_until: float = 0.0

    async def run(self, ctx: Context) -> None:
        """Listen, say where, answer until a stop."""
        port = int(os.environ.get("PORT", "0"))
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        ctx.started()
        await parent.tell(port=listeners[0].socket.getsockname()[1])
        await serve(listeners, self.answer)

    async def answer(self, request: Request) -> Answer:
        """One request."""
        path, _, query = request.target.partition("?")
        if (request.method, path) == ("GET", "/charges"):
            return Answer(200, await self.ledger.charges(int(query.removeprefix("after=")), 500))
        key = request.headers.get("idempotency-key")
        if (request.method, path) != ("POST", "/charges") or not key:
            return Answer(400, {"error": "POST /charges, with an Idempotency-Key"})
        return await self._charge(key, json.loads(request.body))

    async def _charge(self, key: str, order: dict[str, object]) -> Answer:
        fault = None if trio.current_time() < self.busy_until else next(self.faults)
        if fault is not None:
            await self.ledger.count_fault(fault)
        if fault is Fault.BUSY:
            self.busy_until = trio.current_time() + 2 * self.settings.timeout
        if trio.current_time() < self.busy_until:
            return Answer(503, {"error": "busy"}, {"Retry-After": f"{self.settings.timeout / 2:g}"})
        if fault is Fault.RESET:
            raise HangUp
        await trio.sleep(self.settings.latency)
        answer = await self.ledger.charge(key, order)
        if fault is Fault.LOSE:
            raise HangUp
        if fault is Fault.SLOW:
            await trio.sleep(2 * self.settings.timeout)
        if fault is Fault.DIE:
            os._exit(70)  # no clean-up, no goodbye: as if the machine had gone
        return answer


def schedule(settings: Settings, life: int) -> Iterator[Fault | None]:
    """The faults of one life: a seed gives the same ones again."""
    if not settings.chaos:
        return repeat(None)
    return _faults(Random(f"provider {settings.seed} {life}"), settings)


def _faults(random: Random, settings: Settings) -> Iterator[Fault | None]:
    calm = settings.calm
    left = random.randint(settings.lives // 2, settings.lives * 3 // 2)
    for _ in count():
        for fault in random.sample([kind for kind in Fault if kind is not Fault.DIE], k=4):
            pause = random.randint(calm // 2, calm * 3 // 2)
            if left <= pause:
                yield from chain(repeat(None, left), (Fault.DIE,))
            left -= pause
            yield from chain(repeat(None, pause), (fault,))


async def main(settings: Settings) -> None:
    """The process."""
    ledger = Ledger(settings.ledger)
    try:
        life = await ledger.count_fault("lives")
        provider = Provider(settings, ledger, schedule(settings, life))
        desk = Worker("desk", provider.run, ready="signal", shutdown=1)
        await parent.serve(Supervisor("provider", [desk]))
    finally:
        ledger.close()


if __name__ == "__main__":
    trio.run(main, Settings.received())
