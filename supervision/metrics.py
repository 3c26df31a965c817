"""The numbers of one tree: which families there are, and what they are now.

Floor: above tree. Theory of reading from another thread, where exporters live:

* Everything read is a plain integer or a container that is copied in one step; Trio is not touched and nothing waits.
* A reading may catch a replica just while it is being forgotten and miss it once. So that a counter never goes down, none is
  reported lower than before.
* What a replica had counted when it was forgotten is added to its worker's past, so that counters outlive replicas.

The number of series depends on the declaration alone. Children that were added at run time have no series of their own: they
count together as `SUPERVISOR/*`, under the nearest supervisor that was declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from actors.events import Event
from actors.records import Record
from supervision.branch import Branch
from supervision.child import Replica
from supervision.events import Failed, GaveUp, TreeStopped
from supervision.member import Member
from supervision.specs import Worker
from supervision.states import State
from supervision.tree import Tree

__all__ = ["FAMILIES", "HISTOGRAMS", "PANICS", "Family", "Reading", "TreeMeter"]


@attrs.frozen(eq=False, repr=False)
class Family(Record):
    """One metric."""

    name: str
    labels: tuple[str, ...]
    doc: str
    counter: bool = True
    """True if it only ever grows; otherwise it is a level, which may be summed over its labels."""


PANICS: Final = "wf_worker_panics_total"

FAMILIES: Final = (
    Family("supervision_replicas", ("tree", "worker", "state"), "Replicas by state.", False),
    Family("supervision_mailbox_queued", ("tree", "worker"), "Messages waiting.", False),
    Family(
        "supervision_mailbox_messages_total",
        ("tree", "worker", "outcome"),
        "Messages by what became of them: handled, rejected, dropped or dead_lettered.",
    ),
    Family("supervision_restarts_total", ("tree", "worker"), "Automatic restarts of replicas."),
    Family("supervision_failures_total", ("tree", "worker"), "Failed runs of replicas."),
    Family(
        "supervision_supervisor_restarts_total",
        ("tree", "supervisor"),
        "Automatic restarts of supervisors.",
    ),
    Family(
        "supervision_supervisor_gave_up_total",
        ("tree", "supervisor"),
        "How often a supervisor gave up because a limit was used up.",
    ),
    Family("supervision_dead_letters_total", ("tree", "reason"), "Dead letters by reason."),
    Family(
        "supervision_listener_drops_total",
        ("tree",),
        "Events that slow listeners and subscriptions lost.",
    ),
    Family("supervision_listener_errors_total", ("tree",), "Errors that listeners raised."),
    Family(PANICS, ("type",), "Failed runs by type of worker, over all trees of the process."),
    Family("wf_worker_retries_total", ("type", "dependency"), "Attempts repeated after a failure."),
    Family(
        "wf_worker_backpressure_events_total",
        ("type", "reason"),
        "Calls refused because too much was running or waiting.",
    ),
    Family(
        "wf_worker_degraded_total",
        ("worker", "feature"),
        "Answers given without an optional step that failed.",
    ),
    Family(
        "wf_worker_jobs_handled_total",
        ("type", "outcome"),
        "Jobs by type and outcome: success, fail, bpmn_error, incident or poison.",
    ),
    Family(
        "supervision_jobs_put_back_total",
        ("type", "why"),
        "Jobs that were given back, or lost, without having been handled to an end.",
    ),
    Family(
        "wf_worker_idempotency_cache_hits_total",
        ("type",),
        "Results that were stored before and returned without running anything.",
    ),
    Family(
        "wf_worker_circuit_breaker_state",
        ("breaker",),
        "0 closed, 1 half-open, 2 open.",
        False,
    ),
)
HISTOGRAMS: Final = (
    Family("wf_worker_job_duration_seconds", ("type",), "How long handlers of jobs took."),
)
"""Those that are counts by size; OpenTelemetry has an instrument of its own for them."""
_COUNTERS: Final = frozenset(family.name for family in FAMILIES if family.counter)

Labels = tuple[str, ...]


class Reading:
    """The values of all families at one moment, by name and then by the values of the labels."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[str, dict[Labels, int]] = {family.name: {} for family in FAMILIES}

    def add(self, name: str, labels: Labels, amount: int) -> None:
        """Add to one value; a new one begins at 0."""
        family = self.values[name]
        family[labels] = family.get(labels, 0) + amount

    def merge(self, other: Reading, names: frozenset[str] | None = None) -> None:
        """Add all of `other`, or only the families of these names."""
        for name, family in other.values.items():
            if names is None or name in names:
                for labels, amount in list(family.items()):
                    self.add(name, labels, amount)

    def counters(self) -> Reading:
        """A copy without the levels: what is still true when the tree has ended."""
        out = Reading()
        out.merge(self, _COUNTERS)
        return out


class TreeMeter:
    """The numbers of one tree. Made before it starts; `read()` may be called from any thread at any time.

    Args:
        tree: whose.
        ended: called once, in the tree's own step, when it has ended.
    """

    def __init__(self, tree: Tree, ended: Callable[[TreeMeter], object] | None = None) -> None:
        self.name = tree.root.name
        self._tree = tree
        self._ended = ended
        self._declared = dict(tree.spec.walk())
        self._past = Reading()
        self._highest = Reading()
        for path, spec in self._declared.items():
            zero = "supervision_failures_total" if isinstance(spec, Worker) else None
            if zero is None:
                self._past.add("supervision_supervisor_gave_up_total", (self.name, path), 0)
                continue
            self._past.add(zero, (self.name, path), 0)
            self._past.add(PANICS, (_type(path),), 0)
        tree.on_forgotten.append(self._forgotten)
        self._untap = tree.events.tap(self._happened)

    def read(self) -> Reading:
        """The numbers now."""
        out, tree, name = Reading(), self._tree, self.name
        # The past comes first: a replica forgotten in between is missed once, never counted twice.
        out.merge(self._past)
        for path, spec in self._declared.items():
            if isinstance(spec, Worker):
                self._add_levels(out, path)
        self._add_branch(out, tree.root)
        for reason, count in tree.letters.statistics().by_reason.items():
            out.add("supervision_dead_letters_total", (name, reason), count)
        for (family, *labels), count in (
            *tuple(tree.office.counts.items()),
            *tuple(tree.office.levels.items()),
        ):
            out.add(family, tuple(labels), count)
        out.add("supervision_listener_drops_total", (name,), tree.events.dropped)
        out.add("supervision_listener_errors_total", (name,), tree.events.tap_errors)
        self._never_down(out)
        return out

    def label(self, path: str) -> str:
        """What a worker or supervisor counts as: itself if declared, otherwise the nearest that was, and `/*`."""
        if path in self._declared:
            return path
        while path not in self._declared and "/" in path:
            path = path.rpartition("/")[0]
        return f"{path}/*"

    # -- what happens ----------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        if isinstance(event, Failed):
            worker, _, number = event.path.rpartition("/")
            if number.isdigit():  # otherwise it is a supervisor: no name is a number
                label = self.label(worker)
                self._past.add("supervision_failures_total", (self.name, label), 1)
                self._past.add(PANICS, (_type(label),), 1)
        elif isinstance(event, GaveUp):
            labels = (self.name, self.label(event.path))
            self._past.add("supervision_supervisor_gave_up_total", labels, 1)
        elif isinstance(event, TreeStopped):
            self._untap()
            self._tree.on_forgotten.remove(self._forgotten)
            if self._ended is not None:
                self._ended(self)

    def _forgotten(self, member: Member) -> None:
        """Called when a child has just been taken out of the tree."""
        if isinstance(member, Branch):
            for slot in member.slots.values():
                for child in slot.members:
                    self._forgotten(child)
            self._add_restarts(self._past, member)
        elif isinstance(member, Replica):
            label = self.label(member.path.rpartition("/")[0])
            self._add_counts(self._past, (member,), label)

    # -- adding up -------------------------------------------------------------------------------

    def _add_branch(self, out: Reading, branch: Branch) -> None:
        self._add_restarts(out, branch)
        for slot in tuple(branch.slots.values()):
            if not isinstance(slot.spec, Worker):
                for member in tuple(slot.members):
                    assert isinstance(member, Branch)
                    self._add_branch(out, member)
                continue
            label = self.label(f"{branch.path}/{slot.spec.name}")
            self._add_levels(out, label)
            self._add_replicas(out, tuple(slot.members), label)

    def _add_levels(self, out: Reading, label: str) -> None:
        out.add("supervision_mailbox_queued", (self.name, label), 0)
        for state in State:
            out.add("supervision_replicas", (self.name, label, str(state)), 0)

    def _add_replicas(self, out: Reading, members: Sequence[Member], label: str) -> None:
        """Levels and counts of replicas that count as `label`, summed before they are looked up: there may be many."""
        queued = 0
        states: dict[State, int] = {}
        for member in members:
            assert isinstance(member, Replica)
            states[member.state] = states.get(member.state, 0) + 1
            queued += len(member.mailbox.queue)
        for state, number in states.items():
            out.add("supervision_replicas", (self.name, label, str(state)), number)
        out.add("supervision_mailbox_queued", (self.name, label), queued)
        self._add_counts(out, members, label)

    def _add_counts(self, out: Reading, members: Sequence[Member], label: str) -> None:
        restarts = handled = rejected = dropped = dead = 0
        for member in members:
            assert isinstance(member, Replica)
            box = member.mailbox
            restarts += member.restarts
            handled += box.handled
            rejected += box.rejected
            dropped += box.dropped
            dead += box.dead_lettered
        out.add("supervision_restarts_total", (self.name, label), restarts)
        for outcome, number in (
            ("handled", handled),
            ("rejected", rejected),
            ("dropped", dropped),
            ("dead_lettered", dead),
        ):
            labels = (self.name, label, outcome)
            out.add("supervision_mailbox_messages_total", labels, number)

    def _add_restarts(self, out: Reading, branch: Branch) -> None:
        labels = (self.name, self.label(branch.path))
        out.add("supervision_supervisor_restarts_total", labels, branch.restarts)

    def _never_down(self, out: Reading) -> None:
        for name in _COUNTERS:
            highest, now = self._highest.values[name], out.values[name]
            for labels in {**highest, **now}:
                highest[labels] = now[labels] = max(highest.get(labels, 0), now.get(labels, 0))

    def __repr__(self) -> str:
        return f"<TreeMeter {self.name}>"


def _type(label: str) -> str:
    """The name of the worker; of children that were added at run time, that of the supervisor and `/*`."""
    if label.endswith("/*"):
        return f"{label[:-2].rpartition('/')[2]}/*"
    return label.rpartition("/")[2]
