"""What goes wrong, and when: a schedule made from a seed.

It counts requests and messages, not seconds, and it lives outside the workers: a restart does not start it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain, count, repeat
from random import Random

__all__ = ["Chaos", "Fault", "Stumbled"]


class Fault(StrEnum):
    """What the receiver does to a request instead of answering it well."""

    REFUSE = "answers 503"
    CRASH = "crashes before it records the order"
    LOSE_ANSWER = "records the order, then crashes"
    HANG = "records the order, then hangs"


class Stumbled(Exception):
    """A made-up bug."""


class Chaos:
    """The faults of one demonstration.

    Args:
        seed: the same seed gives the same schedule.
        every: about how many requests there are to one fault of the receiver; 0 for none of any kind.
    """

    def __init__(self, seed: int, *, every: int) -> None:
        self.dealt: Counter[str] = Counter()
        self._seed = seed
        self._every = every
        self._faults = self._schedule() if every else repeat(None)
        self._stumbles: dict[str, Iterator[bool]] = {}

    def fault(self) -> Fault | None:
        """What to do to the next request."""
        fault = next(self._faults)
        if fault is not None:
            self.dealt[f"receiver {fault}"] += 1
        return fault

    def stumble(self, who: str) -> None:
        """Raise `Stumbled` now and then."""
        if not self._every:
            return
        if who not in self._stumbles:
            self._stumbles[who] = self._steps(who)
        if next(self._stumbles[who]):
            self.dealt[f"{who} stumbles"] += 1
            raise Stumbled(f"{who} tripped over a bug")

    def _schedule(self) -> Iterator[Fault | None]:
        """Every kind comes once in four faults, in an order of its own."""
        random = Random(f"receiver {self._seed}")
        for _ in count():
            for fault in random.sample(list(Fault), k=len(Fault)):
                calm = random.randint(self._every // 2, self._every * 3 // 2)
                yield from chain(repeat(None, calm), (fault,))

    def _steps(self, who: str) -> Iterator[bool]:
        random = Random(f"{who} {self._seed}")
        for _ in count():
            yield from chain(repeat(False, random.randint(self._every, self._every * 5)), (True,))
