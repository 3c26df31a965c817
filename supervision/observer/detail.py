"""Detail: all there is to know of one child, for somebody who looks at it alone.

Floor: above pieces. The rule: what an error carried, where a run waits and what its options are; never a message, an argument or a local
variable.
"""

from __future__ import annotations

import traceback
from datetime import UTC, datetime
from typing import Any, Final

from actors.errors import shown
from actors.events import plain
from actors.letters import NOTHING, Letter
from supervision.branch import Branch
from supervision.child import Replica
from supervision.member import Member
from supervision.observer.pieces import COLUMNS, branch_info, one_line, row
from supervision.observer.verbs import offered
from supervision.schema import every
from supervision.stacks import await_stack

__all__ = ["detail", "told", "wall"]

LONGEST: Final = 20_000
"""Characters of a traceback."""


def detail(
    member: Member, now: float, busy: float | None, *, show_messages: bool
) -> dict[str, Any]:
    """One replica or supervisor."""
    out: dict[str, Any] = dict(zip(COLUMNS, row(member, now, busy), strict=True))
    out["actions"] = list(offered(member.state, member.phase))
    out["policy"] = plain(every(member.spec))
    out["errors"] = [_error(*each, now) for each in member.errors()]
    if isinstance(member, Branch):
        out["budget"] = branch_info(member, now)
    elif isinstance(member, Replica):
        limit = member.spec.restart.max_restarts
        out["budget"] = {"used": member.failures, "limit": limit or None}
        out["mailbox"] = _mailbox(member)
        out["handling"] = _handling(member, busy, show_messages=show_messages)
        out["stack"] = list(await_stack(member.task))
    return out


def wall(then: float, now: float) -> float:
    """The time of day, in seconds since 1970, of a moment of Trio's clock."""
    return round(datetime.now(UTC).timestamp() - (now - then), 3)


def _error(error: Exception, run: int, when: float, now: float) -> dict[str, Any]:
    try:
        text = "".join(traceback.format_exception(error))
    except Exception as broken:  # an error whose own text raises
        text = f"its traceback cannot be shown: {type(broken).__name__}"
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return {"when": wall(when, now), "run": run, "error": one_line(error), "traceback": text}


def _mailbox(member: Replica) -> dict[str, Any]:
    seen = member.mailbox.statistics()
    numbers = {name: getattr(seen, name) for name in _NUMBERS}
    capacity = None if seen.capacity == float("inf") else seen.capacity
    return {"capacity": capacity, **numbers, "closed": member.mailbox.closed}


_NUMBERS: Final = (
    "queued",
    "in_hand",
    "peak",
    "sent",
    "handled",
    "rejected",
    "dropped",
    "skipped",
    "dead_lettered",
    "waiting",
)


def _handling(member: Replica, busy: float | None, *, show_messages: bool) -> dict[str, Any] | None:
    item = member.mailbox.in_hand
    if item is NOTHING:
        return None
    message = item.message if isinstance(item, Letter) else item
    kind = type(message).__name__
    return {"for": busy, "kind": kind, "message": told(message) if show_messages else kind}


def told(message: object) -> str:
    """A message as a text that is not too long."""
    text = shown(message)
    return text if len(text) <= 1000 else f"{text[:997]}..."
