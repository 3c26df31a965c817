"""Timers of a run: `ctx.after` and `ctx.every`.

Floor: above clock and mailbox. The rule: a timer lives inside the run that set it. When the run ends it is
cancelled, and a message of it that is still queued is dropped: the next run never sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from actors.letters import Tick
from actors.mailbox import Mailbox
from actors.options import is_wait

__all__ = ["Reminder"]


class Reminder:
    """A message that comes once or again and again. `cancel()` also takes back a queued one.

    Periodic ones do not drift: the n-th is due at start + n * period. Periods that pass while one of its messages is still
    queued are skipped, so that a slow actor is not flooded.
    """

    __slots__ = ("_alive", "_box", "_due", "_queued", "_timer", "active", "message", "period")

    def __init__(
        self,
        box: Mailbox,
        message: object,
        *,
        delay: float,
        period: float | None,
        alive: Callable[[], bool],
    ) -> None:
        for name, seconds in (("delay", delay), ("period", period)):
            if seconds is None and name == "period":
                continue
            least = "0 or more" if name == "delay" else "above 0"
            if not is_wait(seconds) or seconds == inf or (name == "period" and not seconds):
                raise ValueError(
                    f"the {name} of a timer must be a finite number of seconds, {least}, not {seconds!r}"
                )
        self.message = message
        self.period = period
        self.active = True
        self._box = box
        self._alive = alive
        self._queued: Tick | None = None
        self._due = trio.current_time() + delay
        self._timer = box.office.timers.call_at(self._due, self._fire)

    def cancel(self) -> None:
        """It will not be delivered any more."""
        self.active = False
        self._timer.cancel()

    def wanted(self) -> bool:
        """True while its run lives and has not cancelled it."""
        return self.active and self._alive()

    def _fire(self) -> None:
        if not self.wanted():
            return
        if self.period is None:
            self._box.put_anyway(Tick(self.message, self.wanted))
            return
        queued = self._queued
        # By identity: `in` would compare it with users' messages, whose comparison may raise.
        if queued is None or not any(item is queued for item in self._box.queue):
            self._queued = Tick(self.message, self.wanted)
            self._box.put_anyway(self._queued)
        now = trio.current_time()
        behind = max(0.0, (now - self._due) // self.period)
        self._due += self.period * (behind + 1)
        self._timer = self._box.office.timers.call_at(self._due, self._fire)

    def __repr__(self) -> str:
        kind = "once" if self.period is None else f"every {self.period:g} s"
        return f"<Reminder {kind}{'' if self.active else ' (cancelled)'}>"
