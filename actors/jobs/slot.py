"""Slot: one job held by a worker, and the book of all that it holds.

Floor: above job and outcomes. The rules: a slot is one object, taken when the job comes and released once, when the engine
has answered for it (camunda/camunda#60559: places counted in two ways leak until a worker has none). Its deadline is counted
by the monotonic clock from when the claim was sent, which is earlier, so safer, than when it was answered.
"""

from __future__ import annotations

from collections import deque

import attrs
import trio

from actors.jobs.job import Job
from actors.jobs.outcomes import Outcome

__all__ = ["Book", "Slot"]


@attrs.define(eq=False)
class Slot:
    """One held job."""

    job: Job
    until: float
    """When the lease runs out as far as is known here, in Trio's time."""
    fixed: bool = False
    """True if nobody renews the lease: then its end is the deadline of the handler."""
    scope: trio.CancelScope | None = None
    """Of its handler, while that runs."""
    began: float = 0.0
    """When that was begun, in Trio's time."""
    lost: bool = False
    """True once its lease is known to be gone: nothing is written for it any more."""
    outcome: Outcome | None = None
    """What became of it, until the engine has been told."""
    following: Slot | None = None
    """A newer claim of the same job, whose turn comes when this one is over."""

    def begin(self, scope: trio.CancelScope) -> None:
        """Its handler begins, in this scope."""
        self.scope = scope
        self.began = trio.current_time()
        if self.fixed:
            scope.deadline = self.until
        if self.lost:
            self.lose()

    @property
    def cancelled(self) -> bool:
        """Whether its handler has been told to end."""
        return self.lost or (self.scope is not None and self.scope.cancel_called)

    def run_out(self, now: float) -> None:
        """Cancel the handler if the lease has ended by itself."""
        if self.scope is not None and now >= self.until:
            self.scope.cancel(reason="the lease of the job ran out")

    def lose(self) -> None:
        """Its lease is gone."""
        self.lost = True
        if self.scope is not None:
            self.scope.cancel(reason="the lease of the job was lost")


class Book:
    """The jobs in hand: waiting for a place, running, or with an outcome that the engine does not know yet."""

    def __init__(self) -> None:
        self.slots: dict[str, Slot] = {}
        """All, by key."""
        self.waiting: deque[Slot] = deque()
        self.running = 0
        self.ended: list[Slot] = []
        """Those whose outcome is to be told."""

    def take(self, slot: Slot) -> None:
        """A job came."""
        self.slots[slot.job.key] = slot
        self.waiting.append(slot)

    def end(self, slot: Slot, outcome: Outcome) -> None:
        """It has an outcome; it stays in hand, and its lease is kept, until the engine knows."""
        slot.outcome = outcome
        self.ended.append(slot)

    def release(self, slot: Slot) -> None:
        """It is out of our hands."""
        if self.slots.get(slot.job.key) is not slot:
            raise AssertionError(f"the slot of job {slot.job.key} was released twice")
        del self.slots[slot.job.key]
        if slot.following is not None:
            self.take(slot.following)

    def __len__(self) -> int:
        return len(self.slots)

    def __repr__(self) -> str:
        return (
            f"<Book of {len(self.slots)}: {len(self.waiting)} waiting, {self.running} running,"
            f" {len(self.ended)} ended>"
        )
