"""Watching another actor: being told when it is down, and why.

Floor: above ref. The rule: a watch is for one run, is answered exactly once, and at once if there is no run to watch.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.letters import Tick
from actors.mailbox import Mailbox
from actors.records import Record, record
from actors.ref import ActorRef

__all__ = ["Down", "Watch", "Watches"]


@record
class Down(Record):
    """The message a watcher gets when the run it watched has ended. The watched actor's names are free by then."""

    ref: ActorRef
    """Who is down."""
    run: int
    """Which run of it ended; 0 if it never ran."""
    reason: str
    """`returned`, `failed`, `stopped`, or `not running` if it was down already."""
    error: BaseException | None = None
    """Its failure, if that is the reason."""


class Watch:
    """One watch; `cancel()` ends it, also when its `Down` is queued already."""

    __slots__ = ("_alive", "_inbox", "active", "target")

    def __init__(self, target: ActorRef, inbox: Mailbox, alive: Callable[[], bool]) -> None:
        self.target = target
        self.active = True
        self._inbox = inbox
        self._alive = alive

    def cancel(self) -> None:
        """Tell me nothing any more."""
        self.active = False

    def __repr__(self) -> str:
        return f"<Watch of {self.target.path}{'' if self.active else ' (cancelled)'}>"

    def announce(self, down: Down) -> None:
        """Put `down` into the watcher's mailbox."""
        if self.wanted():
            self._inbox.put_anyway(Tick(down, self.wanted))

    def wanted(self) -> bool:
        """True while the watcher's run lives and has not cancelled."""
        return self.active and self._alive()


class Watches:
    """All watches of a tree, by whom they watch."""

    __slots__ = ("_by_target",)

    def __init__(self) -> None:
        self._by_target: dict[Mailbox, list[Watch]] = {}

    def add(self, watch: Watch, *, run: int, alive: bool) -> None:
        """Begin a watch; if nothing is `alive` to be watched, answer at once."""
        if not alive:
            watch.announce(Down(ref=watch.target, run=run, reason="not running"))
            return
        watches = self._by_target.setdefault(watch.target.mailbox, [])
        watches[:] = [other for other in watches if other.wanted()]
        watches.append(watch)

    def announce(self, down: Down) -> None:
        """Tell everybody who watched."""
        for watch in self._by_target.pop(down.ref.mailbox, ()):
            watch.announce(down)

    def __bool__(self) -> bool:
        return bool(self._by_target)

    def __repr__(self) -> str:
        return f"<Watches of {len(self._by_target)} actors>"
