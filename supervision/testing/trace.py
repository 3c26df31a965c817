"""Trace: everything that the trees of a test reported, with what was declared.

The rule: it is filled by a tap, in the step of each event, so it is complete whenever code that looks at it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import trio

from actors.events import Event
from supervision.child import Replica
from supervision.events import Changed, Started
from supervision.specs import Spec, Supervisor
from supervision.testing.ledger import Ledger, engines
from supervision.testing.postbook import Postbook, witness
from supervision.tree import SIMULATION, Tree

__all__ = ["Trace", "TreeTrace"]


class TreeTrace:
    """One tree: its declaration, its events, and itself.

    Attributes:
        root: the declaration.
        events: all of it, in order.
        live: the tree, which can still be looked at after its end.
        specs: the spec of each supervisor and worker by path, the last if it was added more than once; see `declared`.
        postbooks: what became of each message, by path of the replica it was for.
        ledgers: what job workers and their engines said to each other, one for each engine.
    """

    def __init__(self, live: Tree) -> None:
        self.live = live
        self.root: Supervisor = live.spec
        self.events: list[Event] = []
        self.specs: dict[str, Spec] = {}
        self._declared: dict[str, list[tuple[int, Spec]]] = {}
        self._declare(self.root.walk(), 0)
        self.timed: set[int] = set()
        """Numbers of the starts that a timer made, not a supervisor's plan and not an operator."""
        self.ledgers: list[Ledger] = []
        self.postbooks: dict[str, Postbook] = {}
        self._engines: set[int] = set()
        self._timers = f"timers of {self.root.name}"
        self._witness(self.root)
        live.events.tap(self._heard)

    def _declare(self, specs: Iterable[tuple[str, Spec]], since: int) -> None:
        for path, spec in specs:
            self.specs[path] = spec
            self._declared.setdefault(path, []).append((since, spec))

    def _witness(self, spec: Spec) -> None:
        """Listen to the engines of job workers."""
        for engine in engines(spec):
            if id(engine) not in self._engines:
                self._engines.add(id(engine))
                self.ledgers.append(Ledger(engine, self._mark, self._owns))

    def _mark(self) -> tuple[float, int]:
        return trio.current_time(), len(self.events)

    def _owns(self, path: str) -> bool:
        return not self.live.done.is_set() and self.spec(path) is not None

    def release(self) -> None:
        """Listen to no engine any more."""
        for ledger in reversed(self.ledgers):
            ledger.close()

    def _heard(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Started):
            if trio.lowlevel.current_task().name == self._timers:
                self.timed.add(event.seq)
            self._keep_book(event.path)
        elif isinstance(event, Changed) and event.what == "was added":
            branch, slot, _ = self.live.locate(event.path)
            if slot is not None:
                added = slot.spec
                self._witness(added)
                pairs = (
                    added.walk(branch.path)
                    if isinstance(added, Supervisor)
                    else [(event.path, added)]
                )
                self._declare(pairs, event.seq)

    def _keep_book(self, path: str) -> None:
        """Number the messages of a replica that has just been started, if it is one."""
        *_, member = self.live.locate(path)
        if isinstance(member, Replica):
            self.postbooks[path] = witness(member.mailbox)

    def declared(self, path: str, at: Event | None = None) -> Spec | None:
        """The spec of a supervisor or a worker, now or as of an event: a child that was removed may come again as another."""
        known = self._declared.get(path)
        if known is None:
            return None
        if at is None or len(known) == 1:
            return known[-1][1]
        return next((spec for since, spec in reversed(known) if since <= at.seq), known[0][1])

    def spec(self, path: str, at: Event | None = None) -> Spec | None:
        """The spec of a supervisor, or of the worker that a replica belongs to."""
        return self.declared(path, at) or self.declared(path.rpartition("/")[0], at)

    def parent(self, path: str, at: Event | None = None) -> str:
        """The path of the supervisor of a child; that of the root is empty."""
        above = path.rpartition("/")[0]
        return above if self.declared(path, at) is not None else above.rpartition("/")[0]


class Trace:
    """All trees that were made while it listened."""

    def __init__(self) -> None:
        self.trees: list[TreeTrace] = []
        self.faults: list[str] = []
        """What was seen inside a run and cannot be raised there: it would only be one more failure of a child."""

    def made(self, tree: Tree) -> None:
        """Record a tree that was just made."""
        self.trees.append(TreeTrace(tree))

    def random(self) -> Random:
        """Jitter that is the same in every run."""
        return Random(0)

    def release(self) -> None:
        """The end: what was listened to beside the trees themselves is left alone again."""
        for tree in reversed(self.trees):
            tree.release()

    def listen(self) -> None:
        """Record every tree made in the present context from now on."""
        SIMULATION.set(self)

    @property
    def events(self) -> list[Event]:
        """The events of all trees, one tree after the other."""
        return [event for tree in self.trees for event in tree.events]

    def of(self, *kinds: type[Event]) -> Iterator[Event]:
        """The events of these kinds."""
        return (event for event in self.events if isinstance(event, kinds))

    def lines(self) -> list[str]:
        """One line an event: what two runs of the same schedule have in common."""
        return [f"{event.time:.9g} {event.sentence()}" for event in self.events]

    def now(self) -> float:
        """The time: of Trio's clock, or of the last event if no run is open."""
        try:
            return trio.current_time()
        except RuntimeError:
            return max((event.time for event in self.events), default=0.0)

    def __repr__(self) -> str:
        return f"<Trace of {len(self.trees)} trees, {len(self.events)} events>"
