"""Where a task waits, for people.

Floor: the lowest. The rule: looking must not fail: a task that cannot be looked at has an empty stack.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from types import FrameType

import trio

__all__ = ["await_stack", "waits_for_thread"]

_MOST_FRAMES = 60


def await_stack(task: trio.lowlevel.Task | None) -> tuple[str, ...]:
    """`function (file:line) source` for each frame `task` waits in, outermost first, through its busiest child task."""
    return tuple(_describe(frame, line) for frame, line in _frames(task))


def waits_for_thread(task: trio.lowlevel.Task | None) -> bool:
    """True if it waits inside `trio.to_thread.run_sync`."""
    return any(frame.f_code.co_name == "to_thread_run_sync" for frame, _ in _frames(task))


def _frames(task: trio.lowlevel.Task | None) -> list[tuple[FrameType, int]]:
    out: list[tuple[FrameType, int]] = []
    try:
        while task is not None and len(out) < _MOST_FRAMES:
            out.extend(_own_frames(task))
            task = next(
                (child for nursery in task.child_nurseries for child in nursery.child_tasks), None
            )
    except Exception:  # pragma: no cover - a task in an odd state; what was found is enough
        return out
    return out


def _own_frames(task: trio.lowlevel.Task) -> Iterator[tuple[FrameType, int]]:
    yield from task.iter_await_frames()


def _describe(frame: FrameType, line: int) -> str:
    code = frame.f_code
    source = linecache.getline(code.co_filename, line).strip()
    where = f"{os.path.basename(code.co_filename)}:{line}"
    return f"{code.co_qualname} ({where}) {source}".rstrip()
