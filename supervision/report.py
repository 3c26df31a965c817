"""What the tree looks like now: one record a replica, one a supervisor, and the whole as a snapshot.

Floor: above tree. The rule: looking costs the tree nothing and holds nothing of it: every record is frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from actors.events import StreamStatistics, plain
from actors.mailbox_spec import MailboxStatistics
from actors.records import Record, record
from supervision.branch import Branch
from supervision.child import Replica
from supervision.member import Member
from supervision.states import State
from supervision.tree import Tree

__all__ = [
    "Counts",
    "Snapshot",
    "SupervisorInfo",
    "WorkerInfo",
    "snapshot",
    "supervisor_infos",
    "worker_infos",
]


@record
class WorkerInfo(Record):
    """One replica now."""

    path: str
    """Such as `shop/billing/invoices/0`."""
    name: str
    """The worker's name."""
    replica: int
    """Its number, from 0."""
    state: str
    """pending, running, restarting, stopped, failed or disabled."""
    phase: str | None
    """Of a running one: starting, ready, draining or stopping."""
    run: int
    """Which run this is, from 1; 0 if there was none."""
    restarts: int
    """Automatic restarts so far."""
    failures: int
    """Consecutive ends that asked for a restart: what its limit is compared with."""
    error: BaseException | None
    """Its last failure."""
    since: float
    """When it came into this state, in seconds of Trio's clock."""
    next_restart: float | None
    """When a restarting one will run again, in seconds of Trio's clock."""
    mailbox: MailboxStatistics
    """Its queue."""
    degraded: tuple[str, ...] = ()
    """Why its run cannot do its work, as it says itself with `ctx.degraded`; it is not ready meanwhile."""


@record
class SupervisorInfo(Record):
    """One supervisor now."""

    path: str
    name: str
    strategy: str
    state: str
    phase: str | None
    run: int
    restarts: int
    failures: int
    error: BaseException | None
    since: float
    next_restart: float | None
    budget_used: int
    """Restarts in the present window."""
    intensity: int | None
    """Restarts allowed in one window of `period` seconds."""
    period: float
    children: int
    """Direct children: replicas and supervisors."""


@record
class Counts(Record):
    """Direct children of one supervisor, in OTP's terms."""

    specs: int
    """Declared or added children, alive or not; the replicas of one worker are one."""
    active: int
    """Children with a live run."""
    supervisors: int
    """Of all, those that are supervisors."""
    workers: int
    """Of all, those that are replicas."""


@record
class Snapshot(Record):
    """The whole tree at one moment."""

    tree: str
    seq: int
    """Number of the last event before it: two snapshots with the same number show the same tree."""
    time: float
    """Seconds of Trio's clock."""
    uptime: float
    """Seconds since the tree was made."""
    counts: dict[str, int]
    """Replicas by state."""
    supervisors: tuple[SupervisorInfo, ...]
    workers: tuple[WorkerInfo, ...]
    dead_letters: int
    events: StreamStatistics

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; exceptions become their repr, infinities None."""
        return cast("dict[str, object]", plain(self))


def _info(member: Replica) -> WorkerInfo:
    return WorkerInfo(
        path=member.path,
        name=member.name,
        replica=member.number,
        state=str(member.state),
        phase=str(member.phase) if member.phase else None,
        run=member.run,
        restarts=member.restarts,
        failures=member.failures,
        error=member.error,
        since=member.since,
        next_restart=member.next_restart,
        mailbox=member.mailbox.statistics(),
        degraded=tuple(((member.ctx and member.ctx.faults) or {}).values()),
    )


def _branch_info(branch: Branch) -> SupervisorInfo:
    return SupervisorInfo(
        path=branch.path,
        name=branch.name,
        strategy=str(branch.spec.strategy),
        state=str(branch.state),
        phase=str(branch.phase) if branch.phase else None,
        run=branch.run,
        restarts=branch.restarts,
        failures=branch.failures,
        error=branch.error,
        since=branch.since,
        next_restart=branch.next_restart,
        budget_used=branch.budget.used(branch.tree.now()),
        intensity=branch.spec.intensity,
        period=branch.spec.period,
        children=sum(1 for _ in branch.members()),
    )


def walk(member: Member) -> Iterator[Member]:
    """`member` and everything below it, parents first, in start order."""
    yield member
    if isinstance(member, Branch):
        for child in member.members():
            yield from walk(child)


def worker_infos(tree: Tree) -> list[WorkerInfo]:
    """Every replica of the tree, in start order."""
    return [_info(member) for member in walk(tree.root) if isinstance(member, Replica)]


def supervisor_infos(tree: Tree) -> list[SupervisorInfo]:
    """Every supervisor of the tree, parents first."""
    return [_branch_info(member) for member in walk(tree.root) if isinstance(member, Branch)]


def info(member: Member) -> WorkerInfo | SupervisorInfo:
    """One member now."""
    if isinstance(member, Branch):
        return _branch_info(member)
    assert isinstance(member, Replica)
    return _info(member)


def counts(branch: Branch) -> Counts:
    """The direct children of `branch`."""
    members = list(branch.members())
    supervisors = sum(isinstance(member, Branch) for member in members)
    return Counts(
        specs=len(branch.slots),
        active=sum(member.alive for member in members),
        supervisors=supervisors,
        workers=len(members) - supervisors,
    )


def snapshot(tree: Tree) -> Snapshot:
    """The whole tree now."""
    workers = worker_infos(tree)
    states = {str(state): 0 for state in State}
    for worker in workers:
        states[worker.state] += 1
    now = tree.now()
    return Snapshot(
        tree=tree.root.name,
        seq=tree.events.seq,
        time=now,
        uptime=now - tree.started_at,
        counts=states,
        supervisors=tuple(supervisor_infos(tree)),
        workers=tuple(workers),
        dead_letters=tree.letters.total,
        events=tree.events.statistics(),
    )
