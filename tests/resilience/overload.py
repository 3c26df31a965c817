"""An overload in virtual time: callers in a loop, a service with so many slots, and what comes of each limit.

`python -m tests.resilience.overload` prints the table that docs/how-to/bulkhead shows.
"""

from __future__ import annotations

import sys
from random import Random

import attrs
import trio
from trio.testing import MockClock

from actors.errors import DeadlineExceeded
from actors.resilience import Dependency, VegasLimit
from supervision.testing.internals import ordered

CALLERS = 60
TIMEOUT = 1.0
SECONDS = 0.1
"""What a call takes, on the average, if it need not queue."""
SLOTS = (10, 3, 10)
"""Of one phase after the other."""


@attrs.define
class Phase:
    """What came of the calls that ended in one phase, once it had settled."""

    slots: int
    seconds: float
    done: int = 0
    late: int = 0
    took: float = 0.0

    @property
    def share(self) -> float:
        """Of what the service can do."""
        return self.done / self.seconds / (self.slots / SECONDS)

    @property
    def timeouts(self) -> float:
        """For each second."""
        return self.late / self.seconds

    @property
    def mean(self) -> float:
        """Seconds until an answer came, without the wait in our own line."""
        return self.took / self.done if self.done else TIMEOUT


class Service:
    """Does so many things at once, in the order in which they came. What nobody waits for any more it does not begin."""

    def __init__(self, random: Random, scatter: float) -> None:
        self.slots = trio.CapacityLimiter(SLOTS[0])
        self.random, self.scatter = random, scatter

    async def answer(self) -> float:
        came = trio.current_time()
        async with self.slots:
            await trio.sleep(SECONDS * self.random.uniform(1 - self.scatter, 1 + self.scatter))
        return trio.current_time() - came


class _Orders:
    """Tasks that are ready at one moment run in an order that the seed decides, not Trio's own dice."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def arrange(self, batch: list[trio.lowlevel.Task]) -> list[trio.lowlevel.Task]:
        return self.random.sample(batch, len(batch))


def overload(
    limit: int | VegasLimit | None,
    *,
    seed: int,
    scatter: float = 0.5,
    seconds: float = 20.0,
    settling: float = 10.0,
) -> list[Phase]:
    """What comes of a limit: phases of `settling` seconds, which do not count, and `seconds` that do."""
    phases = [Phase(slots, seconds) for slots in SLOTS]

    async def main() -> None:
        service = Service(Random(seed), scatter)
        waiting = 0 if limit is None else CALLERS
        called = Dependency(
            "x", timeout=TIMEOUT, limit=limit, max_waiting=waiting, random=Random(seed)
        )
        now: list[Phase | None] = [None]

        async def caller() -> None:
            while True:
                try:
                    took = await called.call(service.answer)
                except DeadlineExceeded:
                    if now[0] is not None:
                        now[0].late += 1
                else:
                    if now[0] is not None:
                        now[0].done += 1
                        now[0].took += took

        async with trio.open_nursery() as nursery:
            for _ in range(CALLERS):
                nursery.start_soon(caller)
            for phase in phases:
                service.slots.total_tokens = phase.slots
                await trio.sleep(settling)
                now[0] = phase
                await trio.sleep(seconds)
                now[0] = None
            nursery.cancel_scope.cancel()

    with ordered(_Orders(Random(seed))):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    return phases


def main() -> None:
    """Print the table."""
    limits = {"none": None, "40": 40, "20": 20, "10": 10, "VegasLimit()": VegasLimit()}
    for name, limit in limits.items():
        for scatter in (0.0, 0.5):
            cells = []
            runs = [overload(limit, seed=seed, scatter=scatter) for seed in range(5)]
            for slots in zip(*runs, strict=True):
                cells.append(
                    f"{100 * min(one.share for one in slots):.0f} %,"
                    f" {max(one.timeouts for one in slots):.1f}/s,"
                    f" {1000 * sum(one.mean for one in slots) / len(slots):.0f} ms"
                )
            sys.stdout.write(f"| {name} | ±{scatter:.0%} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
