"""Driver: a `Sim` by an older name, for machines that step a run without a tree."""

from __future__ import annotations

from typing import Any

from supervision.testing import Sim

__all__ = ["Driver"]


class Driver(Sim):
    """One run, stepped by hand."""

    def call(self, fn: Any, *args: Any) -> Any:
        """Run `fn` to its end, which must not need time."""
        return self.run(fn, *args)
