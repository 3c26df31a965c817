"""Letters: messages that carry more than themselves.

Floor: the lowest. The rule: most messages lie in a mailbox bare; one that needs to be answered, traced, counted or
tied to a run lies there as a letter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["NOTHING", "Letter", "Tick"]


class Letter:
    """A message that carries more than itself."""

    __slots__ = ("context", "deliveries", "message")

    def __init__(self, message: object, context: object = None, deliveries: int = 0) -> None:
        self.message = message
        self.context = context
        """Where it was sent from (a trace context), or None."""
        self.deliveries = deliveries
        """How often a handler was given it."""

    def stale(self) -> bool:
        """True if nobody wants it handled any more."""
        return False

    def returned(self, error: Exception) -> bool:
        """Hand `error` to a sender who waits; False if nobody does and it should be kept."""
        return False

    def finished(self, run: object) -> None:
        """Its handling has ended well: a sender who still waits, and whom `run` will not answer later, gets None."""

    @property
    def waits(self) -> bool:
        """True if its sender waits for what becomes of it."""
        return False


class Tick(Letter):
    """A message of the library's own (a timer's, a `Down`): belongs to one run, beyond the user's capacity."""

    __slots__ = ("alive",)

    def __init__(self, message: object, alive: Callable[[], bool]) -> None:
        super().__init__(message)
        self.alive = alive

    def stale(self) -> bool:
        return not self.alive()


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""What is in hand while nothing is."""
