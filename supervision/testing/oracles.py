"""The invariants that hold of every tree, and how they are asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from supervision.testing.errors import InvariantViolation
from supervision.testing.jobs_oracle import one_outcome_each
from supervision.testing.lives_oracles import no_orphans, nothing_after_stop, shutdown_in_time
from supervision.testing.moment import Moment, Oracle
from supervision.testing.restart_oracles import (
    backoff_exact,
    intensity_respected,
    no_lost_restart,
)
from supervision.testing.state_oracles import (
    breaker_generations,
    every_message_accounted,
    health_tells_the_truth,
)
from supervision.testing.trace import Trace

__all__ = ["DEFAULT", "Oracle", "judge"]

DEFAULT: Final[tuple[Oracle, ...]] = (
    no_orphans,
    nothing_after_stop,
    shutdown_in_time,
    intensity_respected,
    no_lost_restart,
    backoff_exact,
    every_message_accounted,
    health_tells_the_truth,
    breaker_generations,
    one_outcome_each,
)
"""All of them: on unless a test says otherwise."""


def judge(trace: Trace, invariants: Iterable[Oracle] = DEFAULT, *, quiescent: bool = True) -> None:
    """Ask each invariant of each tree in the trace.

    Args:
        quiescent: whether every task waits now, so that what is due has happened.

    Raises:
        InvariantViolation: the first that does not hold.
    """
    if trace.faults:
        raise InvariantViolation("inside a run", "; ".join(trace.faults))
    at = Moment(trace.now(), quiescent)
    for tree in trace.trees:
        for invariant in invariants:
            invariant(tree, at)
