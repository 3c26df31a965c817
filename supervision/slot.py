"""Slot: the place of one child spec in a supervisor.

Floor: above child. The rule: it holds members and knows nothing of what they do.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from actors.ref import ActorRef
from actors.routing import Router
from supervision.child import Replica
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
    _refs: tuple[ActorRef, ...] | None = None
    _router: Router | None = None

    def add(self, members: Iterable[Member]) -> None:
        """Add members at the end."""
        for member in members:
            member.listed = self.listed
            self.members.append(member)
        self._refs = None

    def drop(self, member: Member) -> None:
        """Take one out."""
        self.members.remove(member)
        self._refs = None

    def refs(self) -> tuple[ActorRef, ...]:
        """The addresses of its replicas; what a router asks for each message, so it is kept."""
        if self._refs is None:
            self._refs = tuple(ActorRef(m.mailbox) for m in self.members if isinstance(m, Replica))
        return self._refs

    def address(self, path: str) -> Router:
        """The one address of all its replicas. Everybody gets the same, so that turns go round over all that is sent to them."""
        if self._router is None:
            self._router = Router(path, self.refs)
        return self._router
