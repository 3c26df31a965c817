"""Timeline: a trace for people, one column for each child, and what each record lets one expect.

The rule: it is made only for a failure, and it ends with the one line that runs it again.
"""

from __future__ import annotations

import os
from typing import Final

from actors.events import Event
from supervision.events import (
    Ended,
    Failed,
    FailedForGood,
    Forced,
    GaveUp,
    RestartScheduled,
    Rested,
    Started,
    StopRequested,
    Stuck,
    TreeStopped,
)
from supervision.testing.schedule import Schedule
from supervision.testing.trace import Trace, TreeTrace

__all__ = ["explain", "render"]

_MARKS: Final[dict[type[Event], str]] = {
    Started: "┬",
    Ended: "┴",
    Failed: "✗",
    RestartScheduled: "↻",
    Rested: "·",
    FailedForGood: "†",
    GaveUp: "†",
    StopRequested: "■",
    Forced: "!",
    Stuck: "?",
}
_MOST_COLUMNS: Final = 12
_MOST_LINES: Final = 200


def render(trace: Trace) -> str:
    """Every tree of the trace: time, one column a child, what happened, what was to follow."""
    return "\n\n".join(_render(tree) for tree in trace.trees)


def _render(tree: TreeTrace) -> str:
    paths = list(dict.fromkeys(e.path for e in tree.events if isinstance(e, Started)))
    columns = paths if len(paths) <= _MOST_COLUMNS else []
    root = f"{tree.root.name}/"
    names = [path.removeprefix(root) for path in columns]
    width = max((len(name) for name in names), default=0) + 1
    lines = [f"{'time':>9}  " + "".join(f"{name:^{width}}" for name in names) + "  what happened"]
    alive: set[str] = set()
    last: float | None = None
    for event in tree.events[-_MOST_LINES:]:
        if isinstance(event, Started):
            alive.add(event.path)
        cells = "".join(f"{_cell(event, path, alive):^{width}}" for path in columns)
        if isinstance(event, (Ended, Failed)):
            alive.discard(event.path)
        time = "" if event.time == last else f"{event.time:g}"
        last = event.time
        after = _expected(event)
        lines.append(f"{time:>9}  {cells}  {event.sentence()}" + (f"  -> {after}" if after else ""))
    return "\n".join(lines)


def _cell(event: Event, path: str, alive: set[str]) -> str:
    if event.path == path:
        return _MARKS.get(type(event), "·")
    return "│" if path in alive else " "


def _expected(event: Event) -> str:
    """What `event` lets one expect."""
    if isinstance(event, RestartScheduled):
        return f"expected: a start at {event.time + event.delay:g}"
    if isinstance(event, StopRequested):
        return "" if event.deadline is None else f"expected: its end by {event.deadline:g}"
    if isinstance(event, Failed):
        return "expected: a decision" if "/" in event.path else ""
    if isinstance(event, (GaveUp, TreeStopped)):
        return "expected: no more starts"
    return ""


def explain(error: BaseException, trace: Trace, schedule: Schedule, profile: str = "") -> None:
    """Add the timeline and the line that replays the order of tasks to `error`, once; `profile` is Hypothesis' own, if one was named."""
    if any("--supervision-schedule" in note for note in getattr(error, "__notes__", ())):
        return
    if trace.trees:
        error.add_note("\n" + render(trace))
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0] or "TEST"
    named = f" --hypothesis-profile={profile}" if profile else ""
    error.add_note(f"again: pytest '{test}' --supervision-schedule='{schedule}'{named}")
