"""Hunting a planted bug: after how many examples a machine finds it, and how small the example gets.

A step is a call of a rule; the two that only set a machine up are in every example and are none.
"""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import Phase, seed, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import run_state_machine_as_test

from supervision.testing import TrioStateMachine

__all__ = ["EXAMPLES", "STEPS", "Found", "hunt"]

EXAMPLES = 1000
"""In which every planted bug has to be found."""
STEPS = 6
"""To which it has to be shrunk."""


@attrs.frozen
class Found:
    """A find."""

    example: int
    """At which one it was first seen."""
    error: BaseException
    steps: int
    """Of the last failing example, the smallest if it was shrunk."""


class _Enough(KeyboardInterrupt):
    """Ends Hypothesis' search at the first find: it would go on for a while, even without shrinking."""

    def __init__(self, error: Any) -> None:
        super().__init__()
        self.error = error


def hunt(machine: type[TrioStateMachine], number: int, *, shrink: bool = False) -> Found | None:
    """Run `machine` with one seed; None if it finds nothing in `EXAMPLES`."""
    counts = {"examples": 0, "first": 0, "steps": 0}

    class Counted(machine):  # type: ignore[valid-type,misc]
        def __init__(self) -> None:
            super().__init__()
            counts["examples"] += 1

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                if self.failure is not None:
                    counts["steps"] = self.steps
                    if not counts["first"]:
                        counts["first"] = counts["examples"]
                        if not shrink:
                            raise _Enough(self.failure)

    wanted = settings(
        settings.get_profile("supervision"),
        max_examples=EXAMPLES,
        stateful_step_count=30,
        database=None,
        print_blob=False,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
    )
    try:
        # It gives up after five minutes of real time: how small an example gets would depend on what else the machine does.
        engine.MAX_SHRINKING_SECONDS = 3600
        run_state_machine_as_test(seed(number)(Counted), settings=wanted)
    except _Enough as enough:
        return Found(counts["first"], enough.error, counts["steps"])
    except Exception as error:
        return Found(counts["first"], error, counts["steps"])
    return None
