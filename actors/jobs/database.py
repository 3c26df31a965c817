"""DatabaseEngine: an engine whose jobs are rows, beside rows of your own.

Floor: above engine. The rule: what you write and the jobs that follow from it are one transaction, or neither is there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from actors.jobs.engine import Engine, Enqueued
from actors.jobs.job import MAX_BYTES, NewJob

__all__ = ["DatabaseEngine"]

T = TypeVar("T")


class DatabaseEngine(Engine):
    """What engines in memory, in SQLite and in PostgreSQL have in common. `connection` is what their driver has."""

    def __init__(self, name: str, max_bytes: int = MAX_BYTES) -> None:
        self.name = name
        self.max_bytes = max_bytes
        self._listeners: dict[str, list[Callable[[], object]]] = {}

    @abstractmethod
    async def run(self, fn: Callable[..., T], *args: object) -> T:
        """Run `fn(connection, *args)`, an ordinary function, in a transaction of this database, and commit it.

        With `enqueue_in` inside, a job is there if and only if what `fn` wrote is.
        """

    @abstractmethod
    def enqueue_in(self, connection: Any, *jobs: NewJob) -> list[Enqueued]:
        """Enqueue within a transaction that the caller has open and will commit: in `run`, or on a connection of its own.

        Workers of this engine learn of it at their next poll, or by `wake` after the commit.
        """

    def wake(self, *job_types: str) -> None:
        """Say that there may be work of these types."""
        for job_type in job_types:
            for ring in tuple(self._listeners.get(job_type, ())):
                ring()

    def wake_all(self) -> None:
        """Say that there may be work of any type."""
        self.wake(*self._listeners)

    def listen(self, job_type: str, ring: Callable[[], object]) -> Callable[[], None]:
        rings = self._listeners.setdefault(job_type, [])
        rings.append(ring)

        def end() -> None:
            if ring in rings:
                rings.remove(ring)

        return end
