"""The journal: what the tree reported, counted and kept for the screen and the proof."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import attrs

from actors import Event, Gap, Subscription
from supervision.events import Failed, FailedForGood, GaveUp, RestartScheduled, StopRequested

__all__ = ["Journal", "Line", "brief"]


@attrs.frozen
class Line:
    """One thing that happened, for people."""

    time: float
    """Seconds of Trio's clock."""
    level: str
    text: str


class Journal:
    """A reader of `pool.events()`. It runs beside the tree: were it slow, it would miss events, and nothing else."""

    def __init__(self, tell: Callable[[Line], object] | None = None) -> None:
        self.lines: deque[Line] = deque(maxlen=50)
        self.restarts: Counter[tuple[str, str]] = Counter()
        """How often a worker was restarted because of what."""
        self.missed = 0
        self.stopped_by = ""
        """Who or what asked the tree to stop."""
        self.tell = tell
        self._causes: dict[str, str] = {}

    async def follow(self, events: Subscription) -> None:
        """Read to the end of the tree."""
        async for event in events:
            self._note(event)

    def _note(self, event: Event) -> None:
        worker = "/".join(part for part in event.path.split("/")[1:] if not part.isdigit())
        if isinstance(event, Gap):
            self.missed += event.missed
        elif isinstance(event, Failed):
            self._causes[event.path] = type(cause(event.error)).__name__
            self._write(event, f"{event.path} failed: {brief(event.error)}")
        elif isinstance(event, RestartScheduled):
            why = self._causes.get(event.path, "of its group")
            self.restarts[worker, why] += 1
            self._write(event, f"{event.path} restarts in {event.delay:.2g} s")
        elif isinstance(event, StopRequested) and not worker:
            self.stopped_by = event.why
            self._write(event, event.sentence())
        elif isinstance(event, (GaveUp, FailedForGood)):
            self._write(event, event.sentence())

    def _write(self, event: Event, text: str) -> None:
        line = Line(event.time, event.level, text)
        self.lines.append(line)
        if self.tell is not None:
            self.tell(line)


def cause(error: BaseException | None) -> BaseException | None:
    """The first error inside a group: what a nursery wraps."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def brief(error: BaseException | None) -> str:
    """An error in one line."""
    found = cause(error)
    if found is None:
        return ""
    return f"{type(found).__name__}: {found}".partition("\n")[0]
