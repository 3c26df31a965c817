"""The record every part reports with, and the one stream they all go to.

Floor: above errors. The rule: reporting never waits, never raises into the reporter, and is only
counted when nobody listens.

A `Stream` has two kinds of readers. *Taps* are functions called in the same step, for the library's
own trusted parts (log, counters, test traces). *Subscriptions* are bounded queues read by tasks at
their own pace; a slow one loses its oldest events and is told how many it missed, once, before the
next event, so that notices can never starve the data.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Self, cast

import attrs
import trio

from actors.errors import shown
from actors.records import Record, record

__all__ = ["Event", "Gap", "Stream", "StreamStatistics", "Subscription"]

DEFAULT_BUFFER: Final = 256


@record
class Event(Record):
    """What happened to whom, when. Subclasses add fields and override `sentence`."""

    level: ClassVar[str] = "info"
    """How a log should rank it: debug, info, warning or error."""
    decision: ClassVar[bool] = False
    """True if it records what the library decided, not what merely happened to it."""
    traced: ClassVar[bool] = False
    """True if a log should show the traceback of its `error`."""

    seq: int
    """Position in the stream, from 1, without holes."""
    time: float
    """Seconds of Trio's clock."""
    path: str
    """Whom it is about, such as `shop/billing/0`."""
    run: int = 0
    """Which run of it, from 1; 0 if it is not about one run."""

    @property
    def kind(self) -> str:
        """The stable name of this event."""
        return type(self).__name__

    def sentence(self) -> str:
        """One readable sentence."""
        return f"{self.path} {self.kind}"

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON: exceptions become their repr."""
        out: dict[str, object] = {"kind": self.kind}
        kind: type[Any] = type(self)
        for field in attrs.fields(kind):
            out[field.name] = plain(getattr(self, field.name))
        return out


@record
class Gap(Event):
    """A subscription was too slow: `missed` events before the next one were dropped for it."""

    level: ClassVar[str] = "warning"
    missed: int = 0
    """How many."""

    def sentence(self) -> str:
        return f"{self.missed} events were missed by a slow reader"


@record
class StreamStatistics(Record):
    """Counts of one stream."""

    emitted: int
    """Events reported so far."""
    dropped: int
    """Events that slow subscriptions lost, summed over them."""
    tap_errors: int
    """Exceptions raised by taps and listeners; each was kept away from the reporter."""
    subscriptions: int
    """Open subscriptions."""


class Subscription:
    """A bounded queue of events: `async for event in subscription`.

    It holds no scope and no task, so leaving the loop early leaves nothing behind; `close()` (or the
    garbage collector, or the end of the tree) ends it. After the end, iteration stops.
    """

    __slots__ = ("__weakref__", "_buffer", "_closed", "_held", "_lot", "_missed", "_stream", "size")

    def __init__(self, stream: Stream, size: int) -> None:
        self.size = size
        self._stream = stream
        self._buffer: deque[Event] = deque()
        self._missed = 0
        self._held: Event | None = None  # the event that a notice was given about: it comes next
        self._closed = False
        self._lot = trio.lowlevel.ParkingLot()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        await trio.lowlevel.checkpoint()
        while True:
            event = self.receive_nowait()
            if event is not None:
                return event
            if self._closed:
                raise StopAsyncIteration
            await self._lot.park()

    def receive_nowait(self) -> Event | None:
        """The next event, a `Gap` first if some were lost, or None."""
        event, self._held = self._held, None
        if event is not None or not self._buffer:
            return event
        event = self._buffer.popleft()
        if not self._missed:
            return event
        self._held = event
        missed, self._missed = self._missed, 0
        return Gap(seq=event.seq - 1, time=event.time, path="", missed=missed)

    def put(self, event: Event) -> None:
        """Queue `event`; the oldest goes when there is no room. Called by the stream."""
        if len(self._buffer) >= self.size:
            self._buffer.popleft()
            self._missed += 1
            self._stream.dropped += 1
        self._buffer.append(event)
        self._lot.unpark()

    def close(self) -> None:
        """End it: what is queued can still be read."""
        self._closed = True
        self._stream.forget(self)
        self._lot.unpark_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Subscription {state} {len(self._buffer)}/{self.size} queued>"


class Stream:
    """The one stream of a tree.

    Args:
        clock: returns seconds; Trio's clock unless a test says otherwise.
    """

    __slots__ = ("_clock", "_closed", "_subs", "_taps", "dropped", "on", "seq", "tap_errors")

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._taps: list[Callable[[Event], object]] = []
        self._subs: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._closed = False
        self.seq = 0
        self.dropped = 0
        self.tap_errors = 0
        self.on = False
        """False while nobody listens: reporters may skip building an event, but count it in `seq`."""

    def emit(self, event: type[Event], path: str, run: int = 0, **fields: Any) -> None:
        """Report: build the event if anybody listens, and hand it to all. Never raises, never waits."""
        self.seq += 1
        if not self.on:
            return
        made = event(seq=self.seq, time=self._clock(), path=path, run=run, **fields)
        for tap in self._taps:
            try:
                tap(made)
            except Exception:
                self.failed(tap)
        for sub in list(self._subs):
            sub.put(made)
        if not self._taps and not self._subs:
            self.on = False  # the last reader was garbage

    def failed(self, listener: object) -> None:
        """Count and log the exception that `listener` has just raised."""
        import logging

        self.tap_errors += 1
        with suppress(
            Exception
        ):  # it may be the program's logging itself that fails: a filter, a handler
            logging.getLogger("actors").exception("listener %r failed; the tree goes on", listener)

    def tap(self, fn: Callable[[Event], object]) -> Callable[[], None]:
        """Call `fn(event)` in the step of each event. Returns the function that ends it."""
        # A new list each time: a tap may end itself, or add another, while the present one is gone through.
        self._taps = [*self._taps, fn]
        self.on = True

        def untap() -> None:
            if fn in self._taps:
                self._taps = self._taps.copy()
                self._taps.remove(fn)
                self._refresh()

        return untap

    def subscribe(self, size: int = DEFAULT_BUFFER) -> Subscription:
        """A queue of at most `size` events for one reader; closed at once if the stream has ended."""
        if size < 1:
            raise ValueError(f"a subscription holds at least 1 event, not {size}")
        sub = Subscription(self, size)
        if self._closed:
            sub.close()
        else:
            self._subs.add(sub)
            self.on = True
        return sub

    def forget(self, sub: Subscription) -> None:
        """Drop a subscription. Called by `Subscription.close`."""
        self._subs.discard(sub)
        self._refresh()

    def close(self) -> None:
        """The end of the tree: every subscription ends after what it has queued."""
        self._closed = True
        for sub in list(self._subs):
            sub.close()

    def statistics(self) -> StreamStatistics:
        """Counts so far."""
        return StreamStatistics(
            emitted=self.seq,
            dropped=self.dropped,
            tap_errors=self.tap_errors,
            subscriptions=len(self._subs),
        )

    def _refresh(self) -> None:
        self.on = bool(self._taps) or len(self._subs) > 0

    def __repr__(self) -> str:
        return (
            f"<Stream {self.seq} events, {len(self._taps)} taps, {len(self._subs)} subscriptions>"
        )


def plain(value: object) -> object:
    """`value` in terms of JSON: numbers, strings, None, lists and dicts of those; the rest as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, BaseException):
        return shown(value)
    if isinstance(value, Mapping):
        mapping = cast(Mapping[object, object], value)
        return {str(key): plain(item) for key, item in mapping.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [plain(item) for item in cast(Iterable[object], value)]
    kind: type[Any] = type(value)
    if attrs.has(kind):
        return {f.name: plain(getattr(value, f.name)) for f in attrs.fields(kind)}
    try:
        return str(value)
    except Exception:
        return shown(value)
