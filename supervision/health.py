"""Health: live, ready, started, and why not.

Floor: above report. The rule: it is read from the states themselves, never from a memory of them, so it cannot
stay green after the tree has changed. Liveness depends on nothing outside the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from actors.errors import shown
from actors.records import Record, record
from supervision.branch import Branch
from supervision.child import Replica
from supervision.member import Member
from supervision.states import Phase, State
from supervision.tree import Tree

if TYPE_CHECKING:
    from actors.resilience.degradation import FeatureState

__all__ = ["Health", "health"]


@record
class Health(Record):
    """One answer to a probe."""

    live: bool
    """False if a replica or a supervisor has failed for good, or the tree has, or a failed run will not end: restart the process."""
    ready: bool
    """True while all that should run is ready, none of it says that it cannot work, and nothing is stopping."""
    started: bool
    """True from the first complete start on, for ever."""
    problems: tuple[str, ...] = ()
    """Why it is not live, one sentence each: `worker NAME (replica N) failed: REASON`."""
    waiting_for: tuple[str, ...] = ()
    """Paths of what should run and is not ready."""
    degraded: tuple[str, ...] = ()
    """What does not work as it should, one sentence each. Of a worker (`ctx.degraded`), it is not ready meanwhile; of an
    optional feature (`degrade`), nothing waits for it."""

    def __str__(self) -> str:
        if self.problems:
            return "; ".join(self.problems)
        if self.ready:
            return "; ".join(self.degraded) or "ok"
        why = f" ({'; '.join(self.degraded)})" if self.degraded else ""
        return f"not ready: {', '.join(self.waiting_for) or 'stopping'}{why}"


def health(tree: Tree) -> Health:
    """The health of `tree` now. Stopped and disabled children are healthy."""
    problems = [_sentence(member) for member in _failed(tree.root)]
    waiting = [member.path for member in _due(tree.root)]
    if tree.failure is not None and not problems:
        problems.append(str(tree.failure))
    return Health(
        live=not problems,
        ready=not problems and not waiting and not tree.final and tree.ready.is_set(),
        started=tree.root.ready_at is not None,
        problems=tuple(problems),
        waiting_for=tuple(waiting),
        degraded=(*_degraded(tree.root), *_features(tree)),
    )


def _failed(member: Member) -> Iterator[Member]:
    """What has failed for good, or will not end. Not what its supervisor, itself giving up or waiting, may start again."""
    if member.state is State.FAILED or (isinstance(member, Replica) and member.stuck_on):
        yield member
    if isinstance(member, Branch):
        above = member.parent
        may_come_back = isinstance(above, Branch) and member.wanted and not above.stopping
        if may_come_back and (member.stopping or not member.alive):
            return
        for child in member.members():
            yield from _failed(child)


def _due(member: Member) -> Iterator[Member]:
    """Replicas that should be ready and are not; below a supervisor that is stopped or disabled there are none."""
    if not member.wanted:
        return
    if isinstance(member, Branch):
        for child in member.members():
            yield from _due(child)
    elif not (member.state is State.RUNNING and member.phase is Phase.READY) or _faults(member):
        yield member


def _faults(member: Member) -> dict[str, str] | None:
    """What its run says is wrong with itself."""
    return member.ctx.faults if isinstance(member, Replica) and member.ctx is not None else None


def _degraded(member: Member) -> Iterator[str]:
    if isinstance(member, Branch):
        for child in member.members():
            yield from _degraded(child)
        return
    faults = _faults(member)
    if faults and isinstance(member, Replica):
        why = "; ".join(faults.values())
        yield f"worker {member.name} (replica {member.number}) degraded: {why}"


def _features(tree: Tree) -> Iterator[str]:
    for (kind, name), state in tree.office.shared.items():
        if kind == "feature" and cast("FeatureState", state).degraded:
            yield f"feature {name} degraded"


def _sentence(member: Member) -> str:
    error = member.error
    if isinstance(member, Replica):
        error = member.stuck_on or error
    reason = _reason(error) if error is not None else "gave up"
    if isinstance(member, Replica):
        return f"worker {member.name} (replica {member.number}) failed: {reason}"
    assert isinstance(member, Branch)
    return f"supervisor {member.name} failed: {reason}"


def _reason(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return shown(error)
