"""Durations: how long things took, as counts by size: a histogram that costs one comparison a bound.

Floor: the lowest. The rule: memory depends on the bounds alone; what is read may be read from any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

__all__ = ["BOUNDS", "Durations"]

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: up to and including each."""


class Durations:
    """One histogram."""

    __slots__ = ("also", "counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """How many fell between two bounds; the last were longer than all."""
        self.total = 0.0
        self.also: Callable[[float], object] | None = None
        """Told each of them, if somebody measures elsewhere."""

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds
        if self.also is not None:
            self.also(seconds)

    def __repr__(self) -> str:
        return f"<Durations {sum(self.counts)} of {self.total:.3g} s>"
