"""Tree: the parent of the root, and how the whole ends.

Floor: above branch. The rule: it decides nothing but how the whole ends.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, Final, Protocol

import trio

from actors.clock import Timer
from actors.errors import NoSuchActor
from actors.options import close_to
from actors.ref import ActorRef, Ref
from supervision.branch import Branch
from supervision.child import Replica
from supervision.commons import Commons
from supervision.errors import StartFailed, SupervisorFailed, TreeFailed
from supervision.events import StopReport, TreeStopped
from supervision.member import Member
from supervision.plan import Ending
from supervision.slot import Slot
from supervision.specs import Supervisor, Worker
from supervision.states import State

__all__ = ["SIMULATION", "Simulation", "Tree"]


_COMPARED: Final = 500
"""With more names than this, one that nobody has is not compared with all: who asks for what may be gone asks often."""


class Simulation(Protocol):
    """What runs trees in virtual time for a test; it hears of each from before its first event."""

    def random(self) -> Random:
        """The source of jitter of a tree that was given none."""
        ...

    def made(self, tree: Tree) -> None:
        """`tree` was made and is about to start."""


SIMULATION: Final[contextvars.ContextVar[Simulation | None]] = contextvars.ContextVar(
    "supervision.simulation", default=None
)
"""The simulation that the present code runs in; None in production."""


class Tree(Commons):
    """One running tree. Made by `serve`; users hold a `Pool`."""

    def __init__(
        self,
        spec: Supervisor,
        *,
        stop_timeout: float = 15.0,
        strict: bool = False,
        random: Random | None = None,
    ) -> None:
        self.spec = spec
        self.stop_timeout = stop_timeout
        simulation = SIMULATION.get()
        if random is None:
            random = Random() if simulation is None else simulation.random()
        super().__init__(strict=strict, random=random)
        self.services: Any = None
        self.on_forgotten: list[Callable[[Member], None]] = []
        """Called with each child that has just been forgotten, by those who count."""
        self.seen_at: tuple[str, ...] = ()
        """Where its observer can be reached."""
        self.why: str | None = None
        self.fatal: BaseException | None = None
        self.failure: TreeFailed | StartFailed | None = None
        self.done = trio.Event()
        self.ready = trio.Event()
        self.report: StopReport | None = None
        self._stopping_since = 0.0
        self._limit: Timer | None = None
        self._orderly: list[str] = []
        self._forced: list[str] = []
        self._abandoned = 0
        self._overrun = 0.0
        self._by_name: dict[str, list[str]] | None = None
        self.started_at = trio.current_time()
        self.root = Branch(self, self, spec, spec.name, 0)
        if simulation is not None:
            simulation.made(self)

    # -- life ------------------------------------------------------------------------------------

    def request_stop(self, why: str) -> None:
        """Begin the ordered stop of the whole tree; asking again changes nothing."""
        if self.final:
            return
        self.why = why
        self.member_stopping(self.root)
        if self.root.alive:
            self.root.ask(why)

    def _too_late(self, turns: int = 2) -> None:
        if turns:  # what ended while somebody held up the loop is let go first
            self._limit = self.timers.call_at(self.now(), lambda: self._too_late(turns - 1))
        else:
            self.force(f"the tree had {self.stop_timeout:g} s to stop (stop_timeout)")

    def force(self, why: str) -> None:
        """Cancel everything that still runs, at once and in no order."""
        self.request_stop(why)
        self.root.force(why)

    def abort(self, fatal: BaseException) -> None:
        """Stop in order because of an error that is nobody's to handle; `serve` raises it at the end."""
        if self.fatal is None:
            self.fatal = fatal
        self.request_stop(f"{type(fatal).__name__} was raised")

    # -- the root's parent -----------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        return self.final

    def member_ready(self, member: Member) -> None:
        self.ready.set()

    def member_forgotten(self, member: Member) -> None:
        self.structure_changed(member)

    def member_stopping(self, member: Member) -> None:
        if self.final:
            return
        self.final = True
        self._stopping_since = self.now()
        if self.stop_timeout < inf:
            self.deadline = self.now() + self.stop_timeout
            self._limit = self.timers.call_at(self.deadline, self._too_late)

    def member_ended(
        self, member: Member, how: Ending, error: Exception | None, now: float
    ) -> None:
        if isinstance(error, StartFailed):
            self.failure = error
        elif isinstance(error, SupervisorFailed):
            self.failure = TreeFailed(self.root.path, error.why, error.leaves())
        member.become(State.FAILED if how is Ending.FAILED else State.STOPPED)
        member.retire("stopped")
        self.report = StopReport(
            orderly=tuple(self._orderly),
            forced=tuple(self._forced),
            abandoned_threads=self._abandoned,
            seconds=now - self._stopping_since,
            overrun=self._overrun,
        )
        self.emit(TreeStopped, self.root.path, report=self.report)
        if self._limit is not None:
            self._limit.cancel()
        self.done.set()
        self.ready.set()

    def forgets(self, member: Member) -> bool:
        return False

    def tally(self, path: str, *, forced: bool, abandoned: bool, overrun: float) -> None:
        """Note how one replica's stop went."""
        (self._forced if forced else self._orderly).append(path)
        self._abandoned += abandoned
        self._overrun = max(self._overrun, overrun)

    # -- finding ---------------------------------------------------------------------------------

    def slot_added(self, branch: Branch, slot: Slot) -> None:
        """A child was added to `branch`."""
        if self._by_name is not None:
            self._index(self._by_name, branch, slot)

    def slot_removed(self, branch: Branch, name: str) -> None:
        """`branch` has no child of this name any more."""
        paths = self._by_name.get(name, []) if self._by_name is not None else []
        path = f"{branch.path}/{name}"
        if path in paths:
            paths.remove(path)
        if not paths and self._by_name is not None:
            self._by_name.pop(name, None)

    def structure_changed(self, forgotten: Member) -> None:
        """This child has just been forgotten."""
        above = forgotten.parent
        if isinstance(forgotten, Branch):
            self._by_name = None  # and all that was below it
        elif isinstance(above, Branch) and forgotten.name not in above.slots:
            self.slot_removed(above, forgotten.name)
        forgotten.wake()
        for tell in self.on_forgotten:
            tell(forgotten)

    def locate(self, name: str) -> tuple[Branch, Slot | None, Member | None]:
        """What a path or a bare name stands for: a supervisor's slot, and the replica if the path names one.

        Raises:
            NoSuchActor: nothing, or more than one thing, is meant.
        """
        path = name if name == self.root.name or "/" in name else self._only_path(name)
        branch: Branch = self.root
        parts = path.split("/")
        if parts[0] != self.root.name:
            raise self._unknown(name)
        rest = parts[1:]
        if not rest:
            return branch, None, branch
        while True:
            slot = branch.slots.get(rest[0])
            if slot is None:
                raise self._unknown(name)
            rest = rest[1:]
            if isinstance(slot.spec, Worker):
                return branch, slot, self._replica(slot, rest, name)
            below = slot.members[0]
            assert isinstance(below, Branch)
            if not rest:
                return branch, slot, below
            branch = below

    def _replica(self, slot: Slot, rest: list[str], name: str) -> Member | None:
        if not rest:
            return None
        for member in slot.members:
            if isinstance(member, Replica) and [str(member.number)] == rest:
                return member
        raise self._unknown(name)

    def _only_path(self, name: str) -> str:
        paths = self.names().get(name, [])
        if len(paths) > 1:
            raise NoSuchActor(
                name,
                candidates=tuple(paths),
                why=f"the name {name!r} is ambiguous in this tree; say which: {', '.join(paths)}",
            )
        if not paths:
            raise self._unknown(name)
        return paths[0]

    def _unknown(self, name: str) -> NoSuchActor:
        by_name = self.names()
        known: list[str] = []
        if len(by_name) <= _COMPARED:
            paths = (path for paths in by_name.values() for path in paths)
            known = list(paths if "/" in name else by_name)
        return NoSuchActor(name, candidates=tuple(close_to(name, known)))

    def names(self) -> dict[str, list[str]]:
        """Every bare name, and the paths it may stand for. Kept, since whoever adds or finds many children asks again and again."""
        if self._by_name is None:
            self._by_name = {}
            for slot in self.root.slots.values():
                self._index(self._by_name, self.root, slot)
        return self._by_name

    def _index(self, by_name: dict[str, list[str]], branch: Branch, slot: Slot) -> None:
        by_name.setdefault(slot.spec.name, []).append(f"{branch.path}/{slot.spec.name}")
        for below in slot.members:
            if isinstance(below, Branch):
                for inner in below.slots.values():
                    self._index(by_name, below, inner)

    def find(self, name: str) -> Ref:
        """The ref of a replica by path, of a worker by path or name, or of whoever registered the name."""
        registered = self.registry.whereis(name)
        if registered is not None:
            return registered
        branch, slot, member = self.locate(name)
        if isinstance(member, Replica):
            return ActorRef(member.mailbox)
        if slot is None or not isinstance(slot.spec, Worker):
            raise NoSuchActor(name, why=f"{name!r} is a supervisor, which takes no messages")
        if (
            slot.spec.replicas == 1
            and len(slot.members) == 1
            and isinstance(slot.members[0], Replica)
        ):
            return ActorRef(slot.members[0].mailbox)
        return slot.address(f"{branch.path}/{slot.spec.name}")

    def __repr__(self) -> str:
        return f"<Tree {self.root!r}>"
