"""Health: live, ready, started, and why not.

Floor: above report. The rule: it is read from the states themselves, never from a memory of them, so it cannot
stay green after the tree has changed. Liveness depends on nothing outside the tree.
"""

from __future__ import annotations

import attrs

from supervision.branch import Branch
from supervision.child import Replica
from supervision.member import Member
from supervision.report import walk
from supervision.states import Phase, State
from supervision.tree import Tree

__all__ = ["Health", "health"]


@attrs.frozen(kw_only=True)
class Health:
    """One answer to a probe."""

    live: bool
    """False if a replica or a supervisor has failed for good, or the tree has: restart the process."""
    ready: bool
    """True while all that should run is ready and nothing is stopping."""
    started: bool
    """True from the first complete start on, for ever."""
    problems: tuple[str, ...] = ()
    """Why it is not live, one sentence each: `worker NAME (replica N) failed: REASON`."""
    waiting_for: tuple[str, ...] = ()
    """Paths of what should run and is not ready."""

    def __str__(self) -> str:
        if self.problems:
            return "; ".join(self.problems)
        return "ok" if self.ready else f"not ready: {', '.join(self.waiting_for) or 'stopping'}"


def health(tree: Tree) -> Health:
    """The health of `tree` now. Stopped and disabled children are healthy."""
    problems: list[str] = []
    waiting: list[str] = []
    for member in walk(tree.root):
        if member.state is State.FAILED:
            problems.append(_sentence(member))
        if isinstance(member, Replica) and member.wanted and _should_run(member):
            waiting.append(member.path)
    if tree.failure is not None and not problems:
        problems.append(str(tree.failure))
    return Health(
        live=not problems,
        ready=not problems and not waiting and not tree.final and tree.ready.is_set(),
        started=tree.root.ready_at is not None,
        problems=tuple(problems),
        waiting_for=tuple(waiting),
    )


def _should_run(member: Replica) -> bool:
    return not (member.state is State.RUNNING and member.phase is Phase.READY)


def _sentence(member: Member) -> str:
    reason = (
        str(member.error) or type(member.error).__name__ if member.error is not None else "gave up"
    )
    if isinstance(member, Replica):
        return f"worker {member.name} (replica {member.number}) failed: {reason}"
    assert isinstance(member, Branch)
    return f"supervisor {member.name} failed: {reason}"
