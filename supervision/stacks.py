"""Where a task waits, for people.

Floor: the lowest. The rule: looking must not fail: a task that cannot be looked at has an empty stack.
"""

from __future__ import annotations

import linecache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import trio

__all__ = ["await_stack", "waits_for_socket", "waits_for_thread"]

_MOST_FRAMES: Final = 60
_WAITS_FOR_CHILDREN: Final = "_nested_child_finished"
"""Where a task is while it waits at the end of a nursery block."""


def await_stack(task: trio.lowlevel.Task | None) -> tuple[str, ...]:
    """`function (file:line) source` for each frame `task` waits in, outermost first.

    While it waits for child tasks, the first of those goes on from there. It ends where each enters Trio.
    """
    out: list[str] = []
    for frames in _frames(task):
        own = len(frames)
        while own and frames[own - 1][0].f_globals.get("__name__", "").startswith("trio."):
            own -= 1
        out.extend(_describe(frame, line) for frame, line in frames[:own] or frames)
        if not any(frame.f_code.co_name == _WAITS_FOR_CHILDREN for frame, _ in frames):
            break
    return tuple(out[:_MOST_FRAMES])


def waits_for_thread(task: trio.lowlevel.Task | None) -> bool:
    """True if it waits inside `trio.to_thread.run_sync`."""
    return _waits_in(task, "to_thread_run_sync")


def waits_for_socket(task: trio.lowlevel.Task | None) -> bool:
    """True if it waits until a socket or pipe can be read or written."""
    return _waits_in(task, "wait_readable", "wait_writable")


def _waits_in(task: trio.lowlevel.Task | None, *names: str) -> bool:
    return any(frame.f_code.co_name in names for frames in _frames(task) for frame, _ in frames)


def _frames(start: trio.lowlevel.Task | None) -> list[list[tuple[FrameType, int]]]:
    """The frames of `start`, of its first child task, of the first child of that, and so on."""
    out: list[list[tuple[FrameType, int]]] = []
    tasks = [] if start is None else [start]
    try:
        while tasks and len(out) < _MOST_FRAMES:
            task = tasks[0]
            out.append(list(task.iter_await_frames()))
            tasks = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    except Exception:  # pragma: no cover - a task in an odd state; what was found is enough
        return out
    return out


def _describe(frame: FrameType, line: int) -> str:
    code = frame.f_code
    source = linecache.getline(code.co_filename, line).strip()
    where = f"{Path(code.co_filename).name}:{line}"
    return f"{code.co_qualname} ({where}) {source}".rstrip()
