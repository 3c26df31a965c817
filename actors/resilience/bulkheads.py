"""Bulkheads: one for each key, such as a tenant, so that none takes the places of another.

Floor: above bulkhead. Theory: a bulkhead in use is held by whoever uses it, so the book of all keys only needs to know it weakly;
the last ones used are held here too, so that a busy key keeps its counts. So the number of idle ones is bounded, and nobody can
ever meet two bulkheads of one key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from math import inf
from random import Random
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from actors.options import OptionError
from actors.records import Record, record
from actors.resilience.bulkhead import Bulkhead
from actors.resilience.vegas import VegasLimit

__all__ = ["Bulkheads", "BulkheadsStatistics"]

T = TypeVar("T")


@record
class BulkheadsStatistics(Record):
    """One look at the bulkheads of all keys."""

    name: str
    limit: int | None
    """Places of each key; None if each key's limit finds itself."""
    keys: int
    """Keys that are known now."""
    running: int
    """Places taken, of all keys together."""
    waiting: int


class Bulkheads:
    """Places for each key: `await tenants.call(tenant, fn, *args)`, or `async with tenants.of(tenant):`.

    Args:
        name: of the dependency.
        limit: calls of one key that may run at once. Or a `VegasLimit(...)`: each key finds out how many, for itself.
        max_waiting: calls of one key that may wait for a place.
        max_wait: seconds that each may wait.
        idle: bulkheads that are remembered while nobody uses them; one that was forgotten begins with counts of 0.
        random: source of jitter of adaptive limits, for tests.
    """

    def __init__(
        self,
        name: str,
        limit: int | VegasLimit,
        *,
        max_waiting: int = 0,
        max_wait: float = inf,
        idle: int = 1000,
        random: Random | None = None,
    ) -> None:
        if isinstance(idle, bool) or not isinstance(idle, int) or idle < 0:
            raise OptionError(
                f"idle must be a whole number, 0 or more, not {idle!r}",
                where=f"bulkheads {name!r}",
                option="idle",
            )
        # Checks the options.
        Bulkhead(name, limit, max_waiting=max_waiting, max_wait=max_wait, random=random)
        self.name = name
        self.limit = limit
        self.max_waiting = max_waiting
        self.max_wait = max_wait
        self.idle = idle
        self._random = random
        self._alive: WeakValueDictionary[Hashable, Bulkhead] = WeakValueDictionary()
        self._recent: OrderedDict[Hashable, Bulkhead] = OrderedDict()

    def of(self, key: Hashable) -> Bulkhead:
        """The bulkhead of `key`, made on first use: the same one for as long as anybody uses it."""
        found = self._alive.get(key)
        if found is None:
            found = self._alive[key] = Bulkhead(
                f"{self.name}[{key}]",
                self.limit,
                max_waiting=self.max_waiting,
                max_wait=self.max_wait,
                random=self._random,
            )
        self._recent[key] = found
        self._recent.move_to_end(key)
        if len(self._recent) > self.idle:
            self._recent.popitem(last=False)
        return found

    async def call(
        self, key: Hashable, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any
    ) -> T:
        """Call `fn(*args, **kwargs)` in a place of `key` and return its result."""
        return await self.of(key).call(fn, *args, **kwargs)

    def resize(self, limit: int | VegasLimit) -> None:
        """Change the limit of every key now."""
        Bulkhead(self.name, limit)  # checks it
        self.limit = limit
        for bulkhead in list(self._alive.values()):
            bulkhead.resize(limit)

    def statistics(self) -> BulkheadsStatistics:
        """One look."""
        seen = [bulkhead.statistics() for bulkhead in list(self._alive.values())]
        return BulkheadsStatistics(
            name=self.name,
            limit=self.limit if isinstance(self.limit, int) else None,
            keys=len(seen),
            running=sum(one.running for one in seen),
            waiting=sum(one.waiting for one in seen),
        )

    def __repr__(self) -> str:
        places = self.limit
        each = places if isinstance(places, int) else f"up to {places.maximum}"
        return f"<Bulkheads {self.name} of {len(self._alive)} keys, {each} places each>"
