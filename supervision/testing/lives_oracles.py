"""Oracles over the lives of runs: who is alive with whom, what starts after a stop, and when a stop ends."""

from __future__ import annotations

from actors.events import Event
from supervision.events import (
    Ended,
    Failed,
    Forced,
    GaveUp,
    Started,
    StopRequested,
    TreeStopped,
)
from supervision.specs import Supervisor
from supervision.testing.moment import GRAIN, Moment, must
from supervision.testing.trace import TreeTrace

__all__ = ["no_orphans", "nothing_after_stop", "shutdown_in_time"]


def no_orphans(tree: TreeTrace, at: Moment) -> None:
    """One run of a replica at a time; each inside a run of its supervisor; none outlives it, or the tree."""
    me = "no_orphans"
    alive: dict[str, Event] = {}
    for event in tree.events:
        path = event.path
        if isinstance(event, Started):
            before = alive.get(path)
            must(before is None, me, f"{path} began run {event.run} while another lives", [event])
            parent = tree.parent(path, event)
            must(
                not parent or parent in alive,
                me,
                f"{path} was started, but its supervisor {parent} is not running",
                [event],
            )
            alive[path] = event
        elif isinstance(event, (Ended, Failed)):
            began = alive.pop(path, None)
            must(
                began is not None and began.run == event.run,
                me,
                f"{path}: the end of run {event.run} was reported, but run {began.run if began else 'none'} is alive",
                [event],
            )
            if isinstance(tree.declared(path, event), Supervisor):
                left = [other for other in alive if other.startswith(f"{path}/")]
                must(not left, me, f"{path} has ended, but {', '.join(left)} live on", [event])
        elif isinstance(event, TreeStopped):
            must(not alive, me, f"the tree has stopped, but {', '.join(alive)} live on", [event])
    if at.quiescent and tree.live.done.is_set():
        must(not alive, me, f"the tree has ended, but {', '.join(alive)} live on")


def nothing_after_stop(tree: TreeTrace, _at: Moment) -> None:
    """Nothing below a supervisor is started once it was asked to stop or gave up; a stopped tree says nothing more."""
    me = "nothing_after_stop"
    going: dict[str, Event] = {}
    last: Event | None = None
    for event in tree.events:
        must(last is None, me, f"{event.path}: {event.kind} after the tree had stopped", [event])
        if isinstance(event, (StopRequested, GaveUp)):
            if isinstance(tree.declared(event.path, event), Supervisor):
                going.setdefault(event.path, event)
        elif isinstance(event, Started):
            for path, reason in going.items():
                must(
                    not event.path.startswith(f"{path}/"),
                    me,
                    f"{event.path} was started at {event.time:g}, although {path} has been going down since"
                    f" {reason.time:g}",
                    [reason, event],
                )
            going.pop(event.path, None)
        elif isinstance(event, TreeStopped):
            last = event


def shutdown_in_time(tree: TreeTrace, at: Moment) -> None:
    """A run that was asked to stop has ended, or was cancelled, by its deadline; so has the tree by `stop_timeout`."""
    me = "shutdown_in_time"
    asked: dict[str, StopRequested] = {}
    for event in tree.events:
        if isinstance(event, StopRequested):
            asked[event.path] = event
        elif isinstance(event, Forced):
            due = asked.pop(event.path, None)
            _in_time(due, event.time)
        elif isinstance(event, (Ended, Failed)):
            _in_time(asked.pop(event.path, None), event.time)
        elif isinstance(event, TreeStopped):
            report, limit = event.report, tree.live.stop_timeout
            must(
                report.seconds <= limit + max(0.0, report.overrun) + GRAIN,
                me,
                f"the tree took {report.seconds:g} s to stop; it had {limit:g} s, overrun by {report.overrun:g} s",
                [event],
            )
    if at.quiescent:
        for request in asked.values():
            _in_time(request, at.now)


def _in_time(request: StopRequested | None, now: float) -> None:
    if request is None or request.deadline is None:
        return
    must(
        now <= request.deadline + GRAIN,
        "shutdown_in_time",
        f"{request.path} was asked to stop by {request.deadline:g} and neither ended nor cancelled then; it is {now:g}",
        [request],
    )
