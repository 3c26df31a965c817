"""Signals, and the guard for runs that never end: what the command line does to a running tree from outside.

Floor: above pool. The rule: both work while a worker blocks the event loop. So signals have plain handlers, not a task,
and the guard is a thread; what they say goes past every buffer and lock.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import trio

from actors.events import Event
from supervision.events import Stuck
from supervision.pool import Pool
from supervision.states import Phase, State

__all__ = ["Guard", "Hand", "handling", "say"]


def say(text: str) -> None:
    """One line on stderr, past every buffer and lock: a signal handler may say it."""
    if sys.__stderr__ is None:
        return  # it was closed when the program began, so that descriptor is no stderr but whatever was opened next
    with suppress(OSError):
        os.write(2, f"treewarden: {text}\n".encode(errors="backslashreplace"))


class Hand:
    """What a signal does: the first asks for the ordered stop, the second cancels."""

    def __init__(self, token: trio.lowlevel.TrioToken, guard: Guard, stop_timeout: float) -> None:
        self._token = token
        self._guard = guard
        self._stop_timeout = stop_timeout
        self._pool: Pool | None = None
        self._names: list[str] = []

    @property
    def insisted(self) -> bool:
        """True once a second signal has come."""
        return len(self._names) > 1

    def take(self, pool: Pool) -> None:
        """From now on there is something to stop."""
        self._pool = pool
        for count in range(len(self._names)):
            self._act(count)

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """The signal handler. It may run between any two steps of the program: no locks, no buffered output."""
        name = signal.Signals(number).name
        self._names.append(name)
        if len(self._names) == 1:
            limit = "" if self._stop_timeout == inf else f" within {self._stop_timeout:g} s"
            say(f"{name}: stopping in order{limit}; a second signal cancels at once")
            self._guard.arm(self._stop_timeout)
        else:
            say(f"{name} again: cancelling whatever still runs")
            self._guard.arm(0)
        if self._pool is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._act, len(self._names) - 1)

    def _act(self, count: int) -> None:
        if self._pool is None:
            return
        if count:
            self._pool.cancel(f"{self._names[count]}, the second signal")
        else:
            self._pool.request_stop(self._names[0])


class Guard:
    """Ends the process the hard way if runs are stuck `seconds` after their deadline; None never does.

    It is a thread, since the event loop may be what is stuck. It sleeps on a pipe, which a signal handler may write to.
    """

    def __init__(self, root: str, seconds: float | None) -> None:
        self.pool: Pool | None = None
        self._root = root
        self._seconds = seconds
        self._at = inf
        self._over = False
        if seconds is not None:
            self._read, self._write = os.pipe()
            threading.Thread(target=self._watch, name="kill-after", daemon=True).start()

    def arm(self, deadline: float) -> None:
        """The runs have `deadline` seconds from now, and then those of the guard."""
        if self._seconds is not None:
            self._at = min(self._at, time.monotonic() + deadline + self._seconds)
            os.write(self._write, b"!")

    def notice(self, event: Event) -> None:
        """A listener: a run that is stuck while the tree stops by itself, without a signal, starts the clock too."""
        if not isinstance(event, Stuck) or self.pool is None:
            return
        if self.pool.info(self._root).phase == Phase.STOPPING:
            self.arm(0)

    def stand_down(self) -> None:
        """The tree has ended."""
        if self._seconds is not None:
            self._over = True
            os.write(self._write, b"!")

    def _watch(self) -> None:
        while not self._over:
            left = self._at - time.monotonic()
            if left <= 0:
                self._kill()
            if _readable(self._read, None if left == inf else left):
                os.read(self._read, 64)

    def _kill(self) -> NoReturn:
        try:
            stuck = [
                self._root
            ]  # all that is known if a worker blocked the loop from its first step
            if self.pool is not None:
                infos = self.pool.workers()
                stuck = [info.path for info in infos if info.state == State.RUNNING]
            after = f", {self._seconds:g} s after" if self._seconds else " at"
            say(
                f"exiting hard{after} the stop deadline; still running:"
                f" {', '.join(stuck) or 'nothing'}{_blocker()}"
            )
        finally:
            os._exit(1)


_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)


def _readable(descriptor: int, seconds: float | None) -> bool:
    """True if there is something to read within `seconds`. Not by `select`, which knows no descriptor above 1023."""
    with _Selector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


_OURS: Final = ("trio", "actors", "supervision")


def _blocker() -> str:
    """Where the main thread is, if that is not Trio waiting for something to happen, or this library in passing."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        return ""
    code = frame.f_code
    where = f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"
    return f"; the event loop is held up by {where}"


@contextmanager
def handling(
    handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals
) -> Generator[None]:
    """Handle signals with `handler` within the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
