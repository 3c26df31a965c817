"""Hub: one clock and one frame for all viewers.

Floor: above frame. Theory: nothing is queued for anybody. The hub holds the newest frame; each viewer takes it when it is done with the
last one it took. So a slow viewer sees fewer frames, always the newest, and costs the tree one blocked task; memory is bounded by one
frame for each viewer in the middle of sending. Without viewers no frame is built. The clock goes once a second, and slower
when frames are dear, so that they never take more than `SHARE` of the thread's time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, Protocol, cast

import trio

from supervision.observer.frame import Frame, Sight

__all__ = ["Hub", "Looker", "pause_of"]

EVERY: Final = 1.0
"""Seconds between two frames."""
SHARE: Final = 0.02
"""The part of the thread's time that frames may take."""
SENDING: Final = 0.1
"""What sending a frame to one viewer costs, in terms of building it."""
SLOWEST: Final = 30.0


class Looker(Protocol):
    """One viewer, as the hub knows it."""

    def wake(self) -> None:
        """There will be no more frames: stop pausing."""


class Hub:
    """The newest frame, and those who wait for the next.

    Args:
        sight: what builds it.
        refresh: called before each, so that what takes waiting is found out in the background.
    """

    def __init__(self, sight: Sight, refresh: Callable[[], object] = lambda: None) -> None:
        self.sight = sight
        self.newest: Frame | None = None
        self.every = EVERY
        self.viewers: set[Looker] = set()
        self.closing = False
        self._refresh = refresh
        self._wanted = trio.Event()
        self._next = trio.Event()
        self._lock = trio.Lock()

    # -- for viewers -----------------------------------------------------------------------------

    async def after(self, seq: int) -> Frame | None:
        """The newest frame, as soon as it is newer than number `seq`; None when there will be no more."""
        while not self.closing and (self.newest is None or self.newest.seq <= seq):
            self._wanted.set()
            await self._next.wait()
        newest = self.newest
        return newest if newest is not None and newest.seq > seq else None

    def stale(self) -> int:
        """The number of the newest frame if it is from when nobody looked, else 0."""
        newest = self.newest
        if newest is None or self._age(newest) <= self.every:
            return 0
        return newest.seq

    async def current(self) -> Frame:
        """A frame for one look: a new one, unless the newest is so young that more would cost more than `SHARE`."""
        async with self._lock:
            newest = self.newest
            if newest is not None and self._age(newest) < newest.cost / SHARE:
                return newest
            return await self._build()

    def _age(self, frame: Frame) -> float:
        return self.sight.tree.now() - frame.made

    # -- the clock -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Build frames while somebody looks."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            self._refresh()
            async with self._lock:
                await self._build()
            await trio.sleep(self.every)

    async def _build(self) -> Frame:
        frame = self.newest = await self.sight.frame()
        cost = frame.cost * (1.0 + SENDING * len(self.viewers))
        self.every = self.sight.every = min(SLOWEST, max(EVERY, cost / SHARE))
        woken, self._next = self._next, trio.Event()
        woken.set()
        return frame

    async def close(self) -> None:
        """Show the last frame to all who look, and then no more."""
        if self.viewers:
            async with self._lock:
                await self._build()
        self.closing = True
        self._next.set()
        for viewer in tuple(self.viewers):
            viewer.wake()

    def __repr__(self) -> str:
        return f"<Hub {len(self.viewers)} viewers, every {self.every:.2g} s>"


def pause_of(message: object) -> bool | None:
    """What a viewer's message asks for: True to pause, False to go on, None for anything else."""
    if not isinstance(message, str) or len(message) > 200:
        return None
    try:
        asked = json.loads(message)
    except (ValueError, RecursionError):
        return None
    wanted = cast("dict[str, object]", asked).get("pause") if isinstance(asked, dict) else None
    return wanted if isinstance(wanted, bool) else None
