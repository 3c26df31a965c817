"""The way from a process to the one that started it: lines of JSON on stdout; and stdin, whose end says that nobody is there any more.

A process of the example is a tree of its own. `serve` runs it, and tells the parent what it looks like and what happens in it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any, Final

import trio

from actors import Event, Subscription
from actors.jobs import EngineFailing, EngineRecovered, JobFailed
from actors.resilience import BreakerChanged, CallRetried, DegradationChanged
from supervision import Pool, Supervisor, supervisor
from supervision.events import Failed, GaveUp, StopRequested

__all__ = ["serve", "tell"]

LOOK: Final = 0.25
"""Seconds between two pictures of the tree."""
_WORTH_A_LINE: Final = (
    BreakerChanged, DegradationChanged, EngineFailing, EngineRecovered, Failed, GaveUp, StopRequested,
)  # fmt: skip
_CHANGES: Final = {
    ("closed", "open"): "the breaker opens ({}): no charges are taken until the provider answers",
    ("half_open", "closed"): "the breaker closes ({}): charges are taken again",
}


async def tell(**message: Any) -> None:
    """Tell the parent."""
    line = json.dumps(message)
    # It is read at once, by a task that does nothing else; a parent that is gone is noticed by `_orphaned`.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    await trio.lowlevel.checkpoint()


async def serve(tree: Supervisor) -> None:
    """Run the tree of this process until it is done, is asked to stop by SIGTERM, or has lost its parent."""
    logging.basicConfig(level="INFO", format=f"%(asctime)s %(process)d {tree.name}: %(message)s")
    logging.getLogger("httpx2").setLevel("WARNING")
    async with (
        trio.open_nursery() as nursery,
        supervisor.running(
            tree, signals=True, stop_timeout=12, observer=os.environ.get("PAGE")
        ) as pool,
    ):
        await tell(ready=True)
        # They outlive the tree by a moment: they show its stop as well.
        nursery.start_soon(_picture, pool)  # noqa: ASYNC111
        nursery.start_soon(_orphaned, pool)  # noqa: ASYNC111
        nursery.start_soon(_events, pool.events(4096), nursery.cancel_scope)  # noqa: ASYNC111
        await pool.wait_stopped()


async def _orphaned(pool: Pool) -> None:
    async with trio.lowlevel.FdStream(sys.stdin.fileno()) as stdin:
        async for _ in stdin:
            pass
    pool.request_stop("the process that started this one is gone")


async def _picture(pool: Pool) -> None:
    while True:
        rows = [
            {
                "path": worker.path,
                "state": str(worker.phase or worker.state),
                "restarts": worker.restarts,
                "error": ""
                if worker.error is None
                else f"{type(worker.error).__name__}: {worker.error}",
            }
            for worker in pool.workers()
        ]
        breakers = {
            name: guards.breaker.state.name.lower()
            for name, guards in pool.dependencies().items()
            if guards.breaker is not None
        }
        await tell(rows=rows, breakers=breakers)
        await trio.sleep(LOOK)


async def _events(events: Subscription, end: trio.CancelScope) -> None:
    async for event in events:
        if isinstance(event, _WORTH_A_LINE) and not _repeats(event):
            await tell(happened=_line(event), kind=type(event).__name__)
        elif isinstance(event, (CallRetried, JobFailed)):
            await tell(kind=type(event).__name__)
    end.cancel(reason="the tree has ended, and all is told")


def _repeats(event: Event) -> bool:
    """True if it follows from something else that is told."""
    if isinstance(event, StopRequested):
        return "/" in event.path
    if isinstance(event, (EngineFailing, EngineRecovered)):
        return "charges" not in event.path
    return isinstance(event, BreakerChanged) and (event.old, event.new) not in _CHANGES


def _line(event: Event) -> str:
    if isinstance(event, Failed):
        return f"{event.path} failed: {type(event.error).__name__}: {event.error}"
    if isinstance(event, EngineFailing):
        return "the database does not answer: what is done is kept, and told when it does"
    if isinstance(event, EngineRecovered):
        return "the database answers again"
    if isinstance(event, BreakerChanged):
        return _CHANGES[event.old, event.new].format(event.why)
    return event.sentence()
