"""Oracles over what a tree shows and counts: health, messages, breakers."""

from __future__ import annotations

from actors.deadletters import DeadLettered
from actors.resilience.signals import BreakerChanged
from supervision.branch import Branch
from supervision.child import Replica
from supervision.events import Ended, Failed, FailedForGood, Started
from supervision.health import health
from supervision.states import Phase, State
from supervision.testing.moment import GRAIN, Moment, must, replicas
from supervision.testing.trace import TreeTrace

__all__ = ["breaker_generations", "every_message_accounted", "health_tells_the_truth"]

_AFTER_FAILING = (State.FAILED, State.STOPPED, State.DISABLED, State.PENDING)
_WAYS = {"closed": {"open"}, "open": {"half_open", "closed"}, "half_open": {"open", "closed"}}


def every_message_accounted(tree: TreeTrace, at: Moment) -> None:
    """Of each mailbox: sent = handled + rejected + dropped + dead-lettered + queued + in hand; no letter without its event.

    Each message that was queued ends once, and is taken in the order in which it came; one that is delivered again comes first.
    Senders that wait for room come in by turns. When every task waits, no reader sleeps over a message, and no sender over room.
    """
    me = "every_message_accounted"
    for book in tree.postbooks.values():
        wrong = book.faults or [f"{book.path}: {text}" for text in book.lost()]
        must(not wrong, me, "; ".join(wrong))
    for replica in replicas(tree):
        box = replica.mailbox.statistics()
        found = (
            box.handled + box.rejected + box.dropped + box.dead_lettered + box.queued + box.in_hand
        )
        must(
            box.sent == found,
            me,
            f"{replica.path}: {box.sent} messages were sent, and {found} are accounted for: {box}",
        )
        if at.quiescent:
            asleep = replica.mailbox.reader is not None
            must(
                not (asleep and box.queued),
                me,
                f"{replica.path} waits for messages, and {box.queued} are queued",
            )
            must(
                not (box.waiting and box.queued < box.capacity),
                me,
                f"{box.waiting} senders wait for room in {replica.path}, and there is some: {box}",
            )
    told = sum(1 for event in tree.events if isinstance(event, DeadLettered))
    kept = tree.live.letters.total
    must(told == kept, me, f"{kept} messages went to the dead letters, and {told} were reported")


def health_tells_the_truth(tree: TreeTrace, at: Moment) -> None:
    """When every task waits: shown as running is what runs; what has failed for good is neither shown as running nor live."""
    if not at.quiescent:
        return
    me = "health_tells_the_truth"
    alive: set[str] = set()
    failed: set[str] = set()
    for event in tree.events:
        if isinstance(event, Started):
            alive.add(event.path)
            failed.discard(event.path)
        elif isinstance(event, (Ended, Failed)):
            alive.discard(event.path)
        elif isinstance(event, FailedForGood):
            failed.add(event.path)
    shown = health(tree.live)
    must(
        shown.live == (not shown.problems),
        me,
        f"live is {shown.live}, problems are {shown.problems}",
    )
    for one in replicas(tree):
        state = one.state
        must(
            (state is State.RUNNING) == (one.path in alive),
            me,
            f"{one.path} is shown as {state}, but {'a' if one.path in alive else 'no'} run of it is alive",
        )
        must(
            one.path not in failed or state in _AFTER_FAILING,
            me,
            f"{one.path} has failed for good, and is shown as {state}",
        )
        if state is State.FAILED and _supervised(one):
            must(
                not shown.live, me, f"{one.path} has failed for good, and the tree says it is live"
            )
        up = state is State.RUNNING and one.phase is Phase.READY
        must(
            not shown.ready or up or not one.wanted or not _supervised(one),
            me,
            f"{one.path} is {state} {one.phase or ''}, and the tree says it is ready",
        )


def _supervised(replica: Replica) -> bool:
    """True if every supervisor above it is running and none is going down."""
    above = replica.parent
    while isinstance(above, Branch):
        if above.state is not State.RUNNING or above.stopping or not above.wanted:
            return False
        above = above.parent
    return True


def breaker_generations(tree: TreeTrace, _at: Moment) -> None:
    """A breaker changes along its table, each change from where the last one led, and half-opens no earlier than it said."""
    me = "breaker_generations"
    last: dict[str, BreakerChanged] = {}
    for event in tree.events:
        if not isinstance(event, BreakerChanged):
            continue
        before = last.get(event.breaker)
        must(
            event.new in _WAYS[event.old],
            me,
            f"{event.breaker} went from {event.old} to {event.new}",
            [event],
        )
        if before is not None:
            must(
                before.new == event.old,
                me,
                f"{event.breaker} was {before.new} and then changed from {event.old}",
                [before, event],
            )
            must(
                event.new != "half_open" or event.time >= before.time + before.retry_after - GRAIN,
                me,
                f"{event.breaker} opened at {before.time:g} for {before.retry_after:g} s and was half open at {event.time:g}",
                [before, event],
            )
        last[event.breaker] = event
