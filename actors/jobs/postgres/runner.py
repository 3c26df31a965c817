"""Runner: what carries plans out, whichever driver it has.

Floor: above steps. The rules of every runner: a write that has begun is waited for, a read is cancelled on the server, and a
connection that has died is replaced before it is used again.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from actors.jobs.postgres.steps import Task
from actors.records import Record, record

__all__ = ["ListenerStatistics", "PoolStatistics", "Runner"]

T = TypeVar("T")


@record
class PoolStatistics(Record):
    """One look at connections."""

    size: int
    """Connections at most."""
    open: int
    busy: int
    waiting: int
    """Calls that wait for a connection."""
    calls: int
    """Calls so far."""
    commits: int
    """Transactions so far; fewer than the calls if several shared one."""
    connects: int
    """Connections made so far."""
    failures: int
    """Calls that a connection failed, and connections that could not be made."""


@record
class ListenerStatistics(Record):
    """One look at a listener."""

    listening: bool
    """False while workers have to poll."""
    heard: int
    """Notifications of others so far."""
    connects: int
    """Times that it has begun to listen."""
    problem: str
    """Why it does not listen."""


class Runner(Protocol):
    """Carries plans out."""

    async def run(self, task: Task[T]) -> T:
        """Carry it out.

        Raises:
            EngineUnreachable: there is no connection to be had, or it was lost.
        """
        ...

    def statistics(self) -> PoolStatistics:
        """One look."""
        ...

    async def aclose(self) -> None:
        """Close the connections; what was asked for before is done first."""
