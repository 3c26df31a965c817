"""A Trio run in guest mode, stepped by hand: only public names of Trio, and a helper thread while it is idle.

It is the fallback for a Trio whose loop cannot be pulled by hand (see `internals`), and gives the same traces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from queue import SimpleQueue
from typing import Final

import outcome
import trio
from trio.testing import MockClock

from supervision.testing.errors import Livelock

__all__ = ["GuestLoop"]

PATIENCE: Final = 60.0
"""Real seconds after which a loop that does not wake at all is a fault of the kit."""


class GuestLoop:
    """The twin of `internals.HandLoop`."""

    def __init__(
        self,
        main: Callable[[], Awaitable[None]],
        clock: MockClock,
        instruments: Sequence[trio.abc.Instrument],
        passes: int,
    ) -> None:
        self.end: outcome.Outcome[None] | None = None
        self._passes = passes
        self._main = main
        self._token: trio.lowlevel.TrioToken | None = None
        self._far: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._near: deque[Callable[[], object]] = deque()
        trio.lowlevel.start_guest_run(
            self._run,
            run_sync_soon_threadsafe=self._far.put,
            run_sync_soon_not_threadsafe=self._near.append,
            done_callback=self._done,
            clock=clock,
            instruments=list(instruments),
        )
        self._drain()
        self.pump()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        await self._main()

    def _done(self, end: outcome.Outcome[None]) -> None:
        self.end = end

    def _drain(self) -> None:
        for _ in range(self._passes):
            if not self._near:
                return
            self._near.popleft()()
        raise Livelock(self._passes)

    def pump(self, real: float = 0.0) -> None:
        """Go on until every task waits."""
        if self.end is None and self._token is not None:
            self._token.run_sync_soon(lambda: None)
            self._far.get(timeout=PATIENCE)()
            self._drain()

    def abandon(self) -> None:
        """Nothing public ends a guest run by force; the error that is raised says that tasks live."""

    def next_deadline(self) -> float:
        """When the next timer is due, in seconds of the clock; inf if none is set."""
        return trio.current_time() + trio.lowlevel.current_statistics().seconds_to_next_deadline
