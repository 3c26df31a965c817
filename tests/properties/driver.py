"""A Trio run that synchronous code steps by hand, in virtual time.

Hypothesis calls the rules of a state machine as plain functions. Trio's guest mode (public API) lets the loop live inside them:
each call here hands it a little work and lets it go on until every task waits. Time moves only by `advance`, from one deadline to
the next, so that nothing due in between is skipped or lumped together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import outcome
import trio
from trio.testing import MockClock

MOST_TICKS = 20_000
"""Passes of the loop without a pause that mean a livelock."""
PATIENCE = 60.0
"""Real seconds after which a loop that does not wake at all is a fault of this driver, not of the code under test."""


class Call:
    """An async call in flight."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.result: outcome.Outcome[Any] | None = None

    @property
    def done(self) -> bool:
        return self.result is not None

    @property
    def error(self) -> BaseException | None:
        """What it raised, if it has ended that way."""
        return self.result.error if isinstance(self.result, outcome.Error) else None

    @property
    def cancelled(self) -> bool:
        """True if it was cut short by `cancel`."""
        return self.scope.cancelled_caught

    def cancel(self) -> None:
        self.scope.cancel()

    def value(self) -> Any:
        """What it returned; raises what it raised. May be asked more than once."""
        assert self.result is not None, "it has not ended"
        if isinstance(self.result, outcome.Error):
            raise self.result.error
        assert isinstance(self.result, outcome.Value)
        return self.result.value


class Driver:
    """One Trio run; always `close()` it, or the next one cannot begin."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.tasks = 0
        """Tasks of the run while nothing of the test's is in it."""
        self._far: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._near: deque[Callable[[], object]] = deque()
        self._end: outcome.Outcome[None] | None = None
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._far.put,
            run_sync_soon_not_threadsafe=self._near.append,
            done_callback=self._done,
            clock=self.clock,
        )
        self._drain()
        self.settle()
        self.tasks = trio.lowlevel.current_statistics().tasks_living

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def _done(self, end: outcome.Outcome[None]) -> None:
        self._end = end

    def _drain(self) -> None:
        for _ in range(MOST_TICKS):
            if not self._near:
                return
            self._near.popleft()()
        raise AssertionError(f"livelock: the loop is still busy after {MOST_TICKS} passes")

    def settle(self) -> None:
        """Let the loop go on until every task waits."""
        if self._end is None:
            self._token.run_sync_soon(lambda: None)
            self._far.get(timeout=PATIENCE)()
            self._drain()

    @property
    def now(self) -> float:
        return self.clock.current_time()

    def start(self, fn: Callable[..., Any], *args: Any) -> Call:
        """Put `fn` in flight: nothing of it runs before the next `settle`, so several begin in one instant."""
        call = Call()

        async def carry() -> None:
            result: outcome.Outcome[Any] = outcome.Value(None)
            with call.scope:
                try:
                    result = outcome.Value(await fn(*args))
                except Exception as exc:
                    result = outcome.Error(exc)
            call.result = result

        self._nursery.start_soon(carry)
        return call

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run `fn` to its end, which must not need time."""
        call = self.start(fn, *args)
        self.settle()
        return call.value()

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, stopping at each deadline on the way."""
        self.settle()
        target = self.now + seconds
        while self._end is None:
            wait = trio.lowlevel.current_statistics().seconds_to_next_deadline
            if self.now + wait > target:
                break
            self.clock.jump(max(wait, 0.0))
            self.settle()
        if target > self.now:
            self.clock.jump(target - self.now)
            self.settle()

    def close(self) -> None:
        """Cancel what is left and wait for its end; raises what the run raised."""
        if self._end is None:
            self._nursery.cancel_scope.cancel()
        for _ in range(1000):
            self.settle()
            if self._end is not None:
                self._end.unwrap()
                return
            self.advance(10.0)
        raise AssertionError("tasks survive the cancellation of the whole run")
