"""Slot: the place of one child spec in a supervisor.

Floor: above member. The rule: it holds members and knows nothing of what they do.
"""

from __future__ import annotations

import attrs

from supervision.member import Member
from supervision.specs import Spec

__all__ = ["Slot"]


@attrs.define(eq=False)
class Slot:
    """The place of one child spec in a supervisor: one nested supervisor, or the replicas of a worker."""

    spec: Spec
    rank: int
    listed: bool
    """True for children of the declaration, false for those added at run time."""
    members: list[Member] = attrs.field(factory=lambda: list[Member]())
    numbers: int = 0
    """The number that the next replica gets."""
