"""Place: a task that sees one job after another through.

Floor: above slot. Theory: a task and a cancel scope made for each job would cost more than everything else about it. So a place keeps
both, and is parked while it has no job. What could leak from a job into the next is made anew for each: the context of variables
(`contextvars`), which is that of the worker's run, the name of the task, and the deadline of the scope. A scope that was cancelled
is left, and the next job has a fresh one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Final

import outcome
import trio

from actors.jobs.outcomes import Outcome
from actors.jobs.slot import Slot

__all__ = ["Places"]

_PARKED: Final = "place without a job"


class Places:
    """As many as jobs have run at once, and one more.

    Args:
        nursery: of their tasks.
        handle: runs a job.
        failed: what an error means that was left of a job when its cancellation was taken out of it.
        over: is told of each job, outside of a scope that was cancelled: what it ended with, or None for one that was cancelled;
            and an error that ends more than this job.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        handle: Callable[[Slot], Awaitable[Outcome]],
        failed: Callable[[Exception, Slot], Outcome],
        over: Callable[[Slot, Outcome | None, BaseException | None], object],
    ) -> None:
        self._nursery = nursery
        self._handle = handle
        self._failed = failed
        self._over = over
        self._context = copy_context()
        self._parked: list[trio.lowlevel.Task] = []

    def give(self, slot: Slot) -> None:
        """Begin a job: on a place that is parked, or on another."""
        context, name = self._context.copy(), f"job {slot.job.key}"
        if self._parked:
            task = self._parked.pop()
            task.context, task.name = context, name
            trio.lowlevel.reschedule(task, outcome.Value(slot))
        else:
            # A task inherits the context of whoever starts it, which may be another job.
            context.run(lambda: self._nursery.start_soon(self._work, slot, name=name))

    async def _work(self, first: Slot) -> None:
        task = trio.lowlevel.current_task()
        slot: Slot | None = first
        result: Outcome | None = None
        try:
            while True:
                try:
                    with trio.CancelScope() as scope:
                        while True:
                            if slot is None:
                                slot = await self._park(task)
                            if scope.cancel_called:
                                break  # the deadline of the last job came while the place was parked
                            slot.begin(scope)
                            result = await self._handle(slot)
                            if scope.cancel_called:
                                break
                            done, slot = slot, None
                            self._over(done, result, None)
                            result = None
                except Exception as error:
                    if slot is None:
                        raise
                    result = self._failed(error, slot)
                if slot is not None and slot.scope is not None:
                    done, slot = slot, None
                    self._over(done, result, None)
                    result = None
        except BaseException as error:
            if slot is not None:
                self._over(slot, None, error)
            raise

    async def _park(self, task: trio.lowlevel.Task) -> Slot:
        task.name = _PARKED

        def leave(_: object) -> trio.lowlevel.Abort:
            self._parked.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._parked.append(task)
        slot: Slot = await trio.lowlevel.wait_task_rescheduled(leave)
        return slot

    def __repr__(self) -> str:
        return f"<Places, {len(self._parked)} of them parked>"
