"""Dead letters: what could not be delivered or handled, and why.

Floor: above events. The rule: nothing the library discards is invisible; memory is bounded, counts are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from actors.errors import shown
from actors.events import Event, Stream
from actors.records import Record, record

__all__ = ["DeadLetter", "DeadLettered", "DeadLetterStatistics", "DeadLetters", "LateReply"]

DEFAULT_KEPT: Final = 1000


@record
class DeadLetter(Record):
    """One message that nobody handled to the end."""

    path: str
    """Whose mailbox it was in."""
    message: object
    """The message itself, as it was sent."""
    reason: str
    """`failed`, `poison`, `interrupted` (its handler was stopped) or `stopped` (it was still queued)."""
    time: float
    """Seconds of Trio's clock."""
    run: int = 0
    """The run that had it in hand; 0 if none had."""
    error: BaseException | None = None
    """What its handler raised."""
    deliveries: int = 0
    """How often a handler was given it."""


@record
class DeadLettered(Event):
    """A message went to the dead letters."""

    level: ClassVar[str] = "warning"
    reason: str
    """As in the `DeadLetter`."""
    error: BaseException | None = None
    """What its handler raised."""
    deliveries: int = 0
    """How often a handler was given it."""

    def sentence(self) -> str:
        why = f" ({shown(self.error)})" if self.error is not None else ""
        return f"a message to {self.path} went to the dead letters: {self.reason}{why}"


@record
class LateReply(Event):
    """An answer came when nobody waited for it any more; it was discarded."""

    level: ClassVar[str] = "warning"

    def sentence(self) -> str:
        return f"{self.path} answered an ask whose caller was gone; the answer was discarded"


@record
class DeadLetterStatistics(Record):
    """Counts of one tree's dead letters."""

    total: int
    """All since the start."""
    kept: int
    """Those that can still be looked at."""
    by_reason: dict[str, int]
    """The total, split by reason."""


class DeadLetters:
    """The bounded list of a tree: the newest `keep` letters, and counts of all.

    Args:
        events: where a `DeadLettered` is reported for each.
        keep: how many letters to hold; older ones are forgotten, their count is not.
    """

    __slots__ = ("_by_reason", "_events", "_kept", "total")

    def __init__(self, events: Stream, keep: int = DEFAULT_KEPT) -> None:
        if keep < 0:
            raise ValueError(f"keep must be at least 0, not {keep}")
        self._events = events
        self._kept: deque[DeadLetter] = deque(maxlen=keep)
        self._by_reason: dict[str, int] = {}
        self.total = 0

    def add(self, letter: DeadLetter) -> None:
        """Keep `letter` and report it."""
        self.total += 1
        self._kept.append(letter)
        self._by_reason[letter.reason] = self._by_reason.get(letter.reason, 0) + 1
        self._events.emit(
            DeadLettered,
            letter.path,
            letter.run,
            reason=letter.reason,
            error=letter.error,
            deliveries=letter.deliveries,
        )

    def drain(self) -> list[DeadLetter]:
        """Take all kept letters out, oldest first, for instance to send them again."""
        taken = list(self._kept)
        self._kept.clear()
        return taken

    def take(self, wanted: Callable[[DeadLetter], bool]) -> list[DeadLetter]:
        """Take out the kept letters that are `wanted`, oldest first."""
        taken = [letter for letter in self._kept if wanted(letter)]
        if taken:
            left = [letter for letter in self._kept if not wanted(letter)]
            self._kept.clear()
            self._kept.extend(left)
        return taken

    def put_back(self, letter: DeadLetter) -> None:
        """Keep a letter that was taken out and could not be sent again. It is not counted or reported anew."""
        self._kept.append(letter)

    def statistics(self) -> DeadLetterStatistics:
        """Counts so far."""
        return DeadLetterStatistics(
            total=self.total, kept=len(self._kept), by_reason=dict(self._by_reason)
        )

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<DeadLetters {len(self._kept)} kept of {self.total}>"
