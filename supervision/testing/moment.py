"""Moment: when and how a trace is judged, and what all oracles share.

The rule of all oracles: they judge what the tree *decided* and what runs *did*, as events tell it, against the declaration. They have
no second implementation of supervision in them. Where events do not tell (an operator's start leaves no event of its own), they
allow whatever may have been.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from actors.events import Event
from supervision.branch import Branch
from supervision.child import Replica
from supervision.member import Member
from supervision.testing.errors import InvariantViolation
from supervision.testing.trace import TreeTrace

__all__ = ["GRAIN", "Moment", "Oracle", "members", "must", "replicas"]

GRAIN: Final = 1e-9
"""Seconds by which times may differ: sums of fractions are not exact."""


@attrs.frozen
class Moment:
    """When a trace is judged."""

    now: float
    """Seconds of the clock."""
    quiescent: bool
    """True if every task waits, so that what is due now has happened."""


Oracle = Callable[[TreeTrace, Moment], None]
"""Raises `InvariantViolation` if what it stands for does not hold in the trace so far. Its name is the function's."""


def must(holds: object, invariant: str, text: str, events: Sequence[Event] = ()) -> None:
    """Raise `InvariantViolation` unless it holds."""
    if not holds:
        raise InvariantViolation(invariant, text, events)


def members(tree: TreeTrace) -> dict[str, Member]:
    """Every supervisor and replica that there is now, by path."""
    found: dict[str, Member] = {}
    todo: list[Member] = [tree.live.root]
    while todo:
        member = todo.pop()
        found[member.path] = member
        if isinstance(member, Branch):
            todo.extend(member.members())
    return found


def replicas(tree: TreeTrace) -> list[Replica]:
    """Every replica that there is now."""
    return [member for member in members(tree).values() if isinstance(member, Replica)]
