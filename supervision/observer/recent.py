"""Recent: the last events of a tree, for whoever looks later.

Floor: the lowest of this room. The rule: memory is bounded, and it keeps no error alive: an event that carries one is turned into
text at once, since a traceback holds on to all that its frames held. Others wait as they are until somebody looks.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, TypeAlias, cast

from actors.errors import shown
from actors.events import Event

__all__ = ["KEPT", "Entry", "Recent", "entry"]

KEPT: Final = 1000
"""How many events are kept."""
LONGEST: Final = 500
"""Characters of one event's text."""

Entry: TypeAlias = dict[str, Any]
"""One event in terms of JSON."""


def entry(event: Event) -> Entry:
    """`event` as a viewer gets it."""
    try:
        text = event.sentence()
    except Exception as error:  # an error whose text raises, inside of it
        text = f"{event.path} {event.kind} ({shown(error)})"
    return {
        "seq": event.seq,
        "time": round(event.time, 3),
        "level": event.level,
        "kind": event.kind,
        "path": event.path,
        "text": text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}...",
    }


class Recent:
    """The last events, fed by `add`, a tap."""

    def __init__(self, keep: int = KEPT) -> None:
        self._kept: deque[Event | Entry] = deque(maxlen=keep)

    def add(self, event: Event) -> None:
        """Keep one."""
        if getattr(event, "error", None) is not None or hasattr(event, "failures"):
            self._kept.append(entry(event))
        else:
            self._kept.append(event)

    def last(self, most: int) -> list[Entry]:
        """The newest, oldest first."""
        kept = self._kept
        return [self._entry(i) for i in range(max(0, len(kept) - most), len(kept))]

    def after(self, seq: int, most: int) -> tuple[list[Entry], int]:
        """The first `most` events after number `seq`, and how many between it and the first of them are gone."""
        start = 0
        while start < len(self._kept) and _seq(self._kept[start]) <= seq:
            start += 1
        out = [self._entry(i) for i in range(start, min(len(self._kept), start + most))]
        missed = 0
        if out:
            missed = max(0, int(out[0]["seq"]) - seq - 1)
        return out, missed

    def _entry(self, index: int) -> Entry:
        item = self._kept[index]
        if isinstance(item, Event):
            item = self._kept[index] = entry(item)
        return item

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<Recent {len(self._kept)} of {self._kept.maxlen} events>"


def _seq(item: Event | Entry) -> int:
    return item.seq if isinstance(item, Event) else cast("int", item["seq"])
