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
TOLD: Final = 50
"""How many of them are told to whoever looks for the first time: the newest that are worth it."""
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
        # Apart from the others: a busy tree reports what is for debugging a thousand times between two failures.
        self._told: deque[Event | Entry] = deque(maxlen=TOLD)

    def add(self, event: Event) -> None:
        """Keep one."""
        holds = getattr(event, "error", None) is not None or hasattr(event, "failures")
        item = entry(event) if holds else event
        self._kept.append(item)
        if event.level != "debug":
            self._told.append(item)

    def told(self) -> list[Entry]:
        """The newest of level info and above, oldest first."""
        return [_shown(self._told, i) for i in range(len(self._told))]

    def after(self, seq: int, most: int) -> tuple[list[Entry], int]:
        """The first `most` events after number `seq`, and how many between it and the first of them are gone."""
        start = 0
        while start < len(self._kept) and _seq(self._kept[start]) <= seq:
            start += 1
        end = min(len(self._kept), start + most)
        out = [_shown(self._kept, i) for i in range(start, end)]
        missed = 0
        if out:
            missed = max(0, int(out[0]["seq"]) - seq - 1)
        return out, missed

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<Recent {len(self._kept)} of {self._kept.maxlen} events>"


def _shown(kept: deque[Event | Entry], index: int) -> Entry:
    """What stands there in terms of JSON, made the first time somebody looks."""
    item = kept[index]
    if isinstance(item, Event):
        item = kept[index] = entry(item)
    return item


def _seq(item: Event | Entry) -> int:
    return item.seq if isinstance(item, Event) else cast("int", item["seq"])
