"""Impairment: what a run says is wrong with itself while it goes on.

Floor: above events. The rule: a run that cannot do its work, but need not end for it, says so and says when that is over; it is
known of this run only and goes with it. Told on changes, so that a fault that lasts is not told again and again.
"""

from __future__ import annotations

from typing import ClassVar

from actors.events import Event
from actors.records import record

__all__ = ["RunDegraded", "RunRestored"]


@record
class RunDegraded(Event):
    """A run says that it cannot do its work, and goes on trying. It is not ready until it says otherwise."""

    level: ClassVar[str] = "warning"
    what: str
    """What is wrong, in a word, such as `engine`."""
    why: str

    def sentence(self) -> str:
        return f"{self.path} is degraded: {self.why}"


@record
class RunRestored(Event):
    """What a run said was wrong is no more."""

    what: str

    def sentence(self) -> str:
        return f"{self.path} is no longer degraded ({self.what})"
