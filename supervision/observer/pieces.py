"""Pieces: what a frame is made of: rows, and what needs a look, as pure functions of what stands in the tree.

Floor: above verbs. The rule: a row is read from the live members, so it costs a few microseconds and holds nothing of them; it
shows neither messages nor arguments.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, TypeAlias

from actors.errors import shown
from supervision.branch import Branch
from supervision.child import Replica
from supervision.member import Member
from supervision.observer.verbs import offered
from supervision.states import State

__all__ = ["COLUMNS", "Look", "WORST_FIRST", "branch_info", "look_at", "one_line", "row"]

COLUMNS: Final = (
    "path",
    "kind",
    "state",
    "phase",
    "run",
    "restarts",
    "failures",
    "limit",
    "queued",
    "capacity",
    "handled",
    "since",
    "next_restart",
    "busy",
    "error",
)
WORST_FIRST: Final = (
    "loop",
    "failed",
    "stuck",
    "breaker",
    "letters",
    "queue",
    "mailbox",
    "restarting",
)
"""The kinds of what needs a look, in the order of the list."""
NEARLY_FULL: Final = 0.8
"""From which share of its capacity on a mailbox needs a look."""
LONGEST: Final = 200
"""Characters of an error in one line."""

Look: TypeAlias = dict[str, Any]


def one_line(error: BaseException | None) -> str | None:
    """`Type: text` in one line that is not too long."""
    if error is None:
        return None
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = shown(error)
    line = f"{name}: {text}" if text else name
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def row(member: Member, now: float, busy: float | None) -> list[Any]:
    """One line of the tree, in the order of `COLUMNS`."""
    limit = member.spec.restart.max_restarts or None
    age = round(max(0.0, now - member.since), 1)
    due = member.next_restart
    soon = None if due is None else round(max(0.0, due - now), 1)
    phase = member.phase and str(member.phase)
    error = one_line(member.error) if member.error is not None else None
    head = [member.path, "supervisor", str(member.state), phase, member.run]
    tail = [member.restarts, member.failures, limit]
    if not isinstance(member, Replica):
        return [*head, *tail, None, None, None, age, soon, None, error]
    box = member.mailbox
    head[1] = "worker"
    capacity = None if box.capacity == inf else int(box.capacity)
    return [*head, *tail, len(box.queue), capacity, box.handled, age, soon, busy, error]


def branch_info(branch: Branch, now: float) -> dict[str, Any]:
    """What only a supervisor has."""
    return {
        "strategy": str(branch.spec.strategy),
        "budget_used": branch.budget.used(now),
        "intensity": branch.spec.intensity,
        "period": branch.spec.period,
    }


def look_at(member: Member, now: float) -> Look | None:
    """Why this one needs a look, or None."""
    if member.state is State.FAILED:
        why = one_line(member.error) or "gave up"
        return _look(member, "failed", f"failed after {_times(member.failures)}: {why}")
    if isinstance(member, Replica):
        overrun = member.overrun(now)
        if overrun is not None:
            return _look(member, "stuck", f"does not end, {overrun:.0f} s after it was cancelled")
    if member.state is State.RESTARTING:
        due = member.next_restart
        when = "with its group" if due is None else f"in {max(0.0, due - now):.1f} s"
        limit = member.spec.restart.max_restarts
        used = f" ({member.failures} of {limit})" if limit else ""
        return _look(member, "restarting", f"restarts {when}{used}: {one_line(member.error)}")
    if isinstance(member, Replica):
        queued, capacity = len(member.mailbox.queue), member.mailbox.capacity
        if capacity and capacity < inf and queued >= NEARLY_FULL * capacity:
            return _look(member, "mailbox", f"mailbox {queued} of {capacity:g}")
    return None


def _look(member: Member, kind: str, text: str) -> Look:
    return {
        "path": member.path,
        "kind": kind,
        "text": text,
        "actions": list(offered(member.state, member.phase)),
    }


def _times(failures: int) -> str:
    return "1 failure" if failures == 1 else f"{failures} failures"
