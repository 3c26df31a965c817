"""Life and Plan: what one run does, and what the runs of one worker do, as values.

The rule: a plan is data; `faulty` carries it out. What happens after the last life of a plan is what the worker itself does.
"""

from __future__ import annotations

from enum import StrEnum

import attrs

__all__ = ["Kind", "Life", "Plan"]


class Kind(StrEnum):
    """What becomes of a run."""

    RUNS = "runs"
    """It does what the worker does."""
    RETURNS = "returns"
    """It returns after that long."""
    CRASHES = "crashes"
    """It raises after that long."""
    CANCELS = "cancels"
    """It asks for its own stop after that long, as `ctx.stop()` does."""
    HANGS = "hangs"
    """After that long it waits for ever; a stop still cancels it."""
    SLOW = "slow"
    """It begins that much later; until then it is not ready, if its worker says so itself."""
    STUBBORN = "stubborn"
    """When it is cancelled, it goes on for that long, shielded."""
    UNCLEAN = "unclean"
    """When it is cancelled, its clean-up raises after that long."""


@attrs.frozen
class Life:
    """One run: what becomes of it, and after how many seconds."""

    kind: Kind = attrs.field(default=Kind.RUNS, converter=Kind)
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"Life({self.kind.value!r}, {self.seconds:g})"


@attrs.frozen
class Plan:
    """The lives of one worker, one a run; each replica has them all."""

    lives: tuple[Life, ...] = ()

    def life(self, run: int) -> Life:
        """Of run number `run`, from 1."""
        return self.lives[run - 1] if run <= len(self.lives) else Life()

    def __repr__(self) -> str:
        return f"Plan([{', '.join(map(repr, self.lives))}])"
