"""Bell: wakes one task, however often and whenever it is rung.

Floor: the lowest of this room. The rule: a ring is remembered until the task has heard it, so that none is lost between a look
and a wait.
"""

from __future__ import annotations

import trio

__all__ = ["Bell"]


class Bell:
    """For one listener."""

    __slots__ = ("_rung", "_task")

    def __init__(self) -> None:
        self._rung = False
        self._task: trio.lowlevel.Task | None = None

    def ring(self) -> None:
        """Wake the listener, now or when it next waits."""
        self._rung = True
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def wait(self, until: float) -> None:
        """Return when it has been rung since the last time, or at `until`, a time of Trio's clock."""
        if not self._rung:
            with trio.CancelScope(deadline=until):
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._leave)
        else:
            await trio.lowlevel.checkpoint()
        self._rung = False

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def __repr__(self) -> str:
        return f"<Bell{' rung' if self._rung else ''}{'' if self._task is None else ', heard'}>"
