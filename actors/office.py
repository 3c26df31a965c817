"""Office: what all mailboxes of one tree share.

Floor: above events, clock and deadletters. The rule: it holds, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from weakref import WeakSet

import attrs

from actors.clock import TimerQueue
from actors.deadletters import DeadLetters
from actors.durations import Durations
from actors.events import Stream

if TYPE_CHECKING:
    from actors.mailbox import Mailbox  # noqa: TC004 - attrs does not resolve it

__all__ = ["Office"]


@attrs.define(eq=False)
class Office:
    """The shared parts of a tree, as its actors see them."""

    events: Stream = attrs.field(factory=Stream)
    timers: TimerQueue = attrs.field(factory=TimerQueue)
    letters: DeadLetters = attrs.field(
        default=attrs.Factory(lambda self: DeadLetters(self.events), takes_self=True)
    )
    shared: dict[tuple[str, str], object] = attrs.field(
        factory=lambda: dict[tuple[str, str], object]()
    )
    """What all runs of the tree share, by kind and name: breakers, bulkheads, retry budgets."""
    guards: WeakSet[object] = attrs.field(factory=lambda: WeakSet[object]())
    """Breakers and bulkheads of no dependency that have said something here: a change, a refusal, a wait."""
    counts: dict[tuple[str, ...], int] = attrs.field(factory=lambda: dict[tuple[str, ...], int]())
    """Counters, by metric name and label values."""
    levels: dict[tuple[str, ...], int] = attrs.field(factory=lambda: dict[tuple[str, ...], int]())
    """Gauges, in the same way."""
    durations: dict[tuple[str, ...], Durations] = attrs.field(
        factory=lambda: dict[tuple[str, ...], Durations]()
    )
    """Histograms, in the same way."""
    on_durations: Callable[[tuple[str, ...], Durations], object] | None = None
    """Told of each new histogram, if somebody measures elsewhere."""
    capture: Callable[[], object] | None = None
    """Returns the sender's trace context, or None; itself None while nobody traces."""
    around: Callable[[Mailbox, object], AbstractContextManager[object]] | None = None
    """Wraps the handling of one item; None while nobody traces."""

    def took(self, name: str, *labels: str, seconds: float) -> None:
        """Count how long something took, in the histogram of this name and these label values."""
        key = (name, *labels)
        seen = self.durations.get(key)
        if seen is None:
            seen = self.durations[key] = Durations()
            if self.on_durations is not None:
                self.on_durations(key, seen)
        seen.add(seconds)
