"""One ref for many replicas.

Floor: above ref. The rule: a router holds no messages; it picks a mailbox for each, among the replicas that can
still be sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from zlib import crc32

from actors.errors import ActorStopped, MailboxFull
from actors.letters import NOTHING
from actors.mailbox import Mailbox
from actors.options import Choice
from actors.ref import ActorRef, Ref

__all__ = ["Router", "Routing"]


class Routing(Choice):
    """How a message finds its replica."""

    ROUND_ROBIN = "round_robin"
    """One after the other."""
    LEAST_LOADED = "least_loaded"
    """The one with the fewest messages queued and in hand; ties go round."""
    BY_KEY = "by_key"
    """The same key always to the same replica number, while the number of replicas stays the same."""


class Router(Ref):
    """An address for all replicas of a worker; membership is read anew for each message.

    Args:
        path: the worker's path, for errors.
        members: returns the refs of the replicas now.
        routing: how to choose.
        key: with `BY_KEY`, the key of a message: any value with a stable `repr`.
    """

    __slots__ = ("_key", "_members", "_next", "path", "routing")

    def __init__(
        self,
        path: str,
        members: Callable[[], Sequence[ActorRef]],
        routing: Routing | str = Routing.ROUND_ROBIN,
        key: Callable[[object], object] | None = None,
    ) -> None:
        self.path = path
        self.routing = Routing(routing)
        if (self.routing is Routing.BY_KEY) != (key is not None):
            raise ValueError("routing by key needs key=, and only routing by key does")
        self._members = members
        self._key = key
        self._next = 0

    def refs(self) -> tuple[ActorRef, ...]:
        """The replicas now."""
        return tuple(self._members())

    def pick(self, message: object) -> Mailbox:
        refs = self._members()
        count = len(refs)
        if self._key is not None and count:
            return refs[crc32(repr(self._key(message)).encode()) % count].mailbox
        turn = self._next
        best: Mailbox | None = None
        load = inf
        for step in range(count):
            box = refs[(turn + step) % count].mailbox
            if box.closed is not None:
                continue
            if self.routing is Routing.ROUND_ROBIN:
                self._next = turn + step + 1
                return box
            queued = len(box.queue) + (box.in_hand is not NOTHING)
            if queued < load:
                best, load = box, queued
        self._next = turn + 1
        if best is not None:
            return best
        if count:
            return refs[0].mailbox  # its own refusal says why
        raise ActorStopped(self.path, message, why="without replicas")

    def broadcast_nowait(self, message: object) -> int:
        """Send to every replica that has room; returns how many got it."""
        reached = 0
        for ref in self._members():
            try:
                ref.tell_nowait(message)
            except (ActorStopped, MailboxFull):
                continue
            reached += 1
        return reached

    async def broadcast(self, message: object) -> int:
        """Send to every replica, waiting for room in each in turn; returns how many got it."""
        reached = 0
        for ref in self.refs():
            try:
                await ref.tell(message)
            except (ActorStopped, MailboxFull):
                continue
            reached += 1
        return reached

    def __repr__(self) -> str:
        return f"<Router {self.path} {self.routing} over {len(self.refs())}>"
