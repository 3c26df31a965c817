"""Rules about stopping, mailboxes and the event loop.

Floor: above reading. Pure functions of what was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import attrs

from actors.resilience.dependency import Dependency
from supervision.checklist.finding import Hit
from supervision.checklist.looking import Seen, SeenWorker
from supervision.checklist.reading import blocking
from supervision.specs import Worker

__all__ = ["blocks", "long_call", "no_time_left", "too_many_stops", "unbounded"]

_USUAL = attrs.fields(Worker).shutdown.default


def no_time_left(seen: Seen) -> Iterator[Hit]:
    """The stop of a tree goes from the last worker to the first; one that may take all of the time leaves the others none."""
    if seen.stop_timeout == inf:
        return
    for worker in _chosen(seen):
        more = worker.spec.shutdown > seen.stop_timeout
        if more or (worker.spec.shutdown == seen.stop_timeout and len(seen.workers) > 1):
            cut = (
                "it is cut off there"
                if more
                else "the workers that stop after it have no time left"
            )
            yield Hit(
                paths=(worker.path,),
                text=(
                    f"its shutdown of {worker.spec.shutdown:g} s does not fit into the stop timeout of the tree,"
                    f" {seen.stop_timeout:g} s: {cut}"
                ),
                way_out="lower it, or serve with a longer --stop-timeout",
            )


def too_many_stops(seen: Seen) -> Iterator[Hit]:
    """Workers stop one after the other, replicas of one together; only deadlines that were chosen are added up."""
    chosen = [worker for worker in _chosen(seen) if worker.spec.shutdown < seen.stop_timeout]
    total = sum(worker.spec.shutdown for worker in chosen)
    if len(chosen) > 1 and total > seen.stop_timeout:
        parts = " + ".join(f"{worker.spec.shutdown:g}" for worker in chosen)
        yield Hit(
            paths=tuple(worker.path for worker in chosen),
            text=(
                f"their shutdown deadlines, one after the other, may take {total:g} s ({parts}), and the tree has"
                f" {seen.stop_timeout:g} s to stop: the first of them to start are cut off"
            ),
            way_out=f"lower them, or serve with --stop-timeout {total:g}",
        )


def _chosen(seen: Seen) -> list[SeenWorker]:
    # The default means "what is left"; nobody has promised it to work in hand.
    return [worker for worker in seen.workers if worker.spec.shutdown != _USUAL]


def long_call(seen: Seen) -> Iterator[Hit]:
    """Work in hand that waits for a call is cancelled at the worker's deadline, in the middle of the call."""
    for guarded in seen.guarded:
        dependency = guarded.guard
        if not isinstance(dependency, Dependency):
            continue
        once = min(dependency.timeout or inf, dependency.total or inf)
        late = [w for w in guarded.workers if w.spec.shutdown < once < inf]
        if late:
            worker = late[0]
            yield Hit(
                paths=tuple(w.path for w in late),
                about=guarded.name,
                text=(
                    f"one call may take {once:g} s, and work in hand has {worker.spec.shutdown:g} s to finish when"
                    " a stop is asked for: a slow call is cut off"
                ),
                way_out="lower the timeout of the call, or raise shutdown (and the tree's stop timeout)",
            )


def unbounded(seen: Seen) -> Iterator[Hit]:
    """A queue without a limit turns a slow worker into a process without memory."""
    for worker in seen.workers:
        if worker.spec.mailbox.capacity == inf:
            yield Hit(
                paths=(worker.path,),
                text="its mailbox is unbounded (capacity=inf): senders never feel that it is slow",
                way_out="give it a capacity and an overflow that suits the senders; the default is 1024, wait",
            )


def blocks(seen: Seen) -> Iterator[Hit]:
    """A call that blocks holds up every worker, every timer and every probe of the process."""
    for worker in seen.workers:
        unseen = "" if worker.spec.watchdog else ", and no watchdog would tell"
        for blocked in blocking(worker):
            yield Hit(
                paths=(worker.path,),
                about=blocked.via,
                source=blocked.place,
                text=f"{blocked.name}() holds up the whole event loop{unseen}",
                way_out=f"write {blocked.instead}"
                + ("" if worker.spec.watchdog else "; set watchdog"),
            )
