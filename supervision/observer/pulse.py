"""Pulse: whether the event loop turns, seen from outside of it.

Floor: above address. Theory: a loop that is blocked can say nothing, neither to a probe nor in its log. So a thread asks it for a sign of
life again and again. While it gives none for too long the thread says so in the log, with the line that blocks; and it answers in
its place at the addresses of the observer, whatever is asked, with a 503 that names that line. So a liveness probe fails with a
reason and at once, rather than by a timeout. When the loop turns again it takes its addresses back by itself, since the thread only
takes connections while the loop cannot, and the tree gets an event.

The sign of life is a function that the loop runs, not a task that sleeps: it needs no clock but the thread's.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final, Self

import trio

__all__ = ["Pulse", "Still"]

logger: Final = logging.getLogger("supervision")

LOOKS: Final = 10
"""How often in `stuck_after` the thread looks."""
AGAIN: Final = 30.0
"""Seconds between two reports about one and the same standstill."""
LAST: Final = 1.0
"""Seconds at most that its end waits for the thread."""
_OWN: Final = 2.0
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
_HEAD: Final = 4096
_OTHERS: Final = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {"<frozen"}
)
"""Where code lies that is not the program's own."""


class Still:
    """One standstill: since when by the thread's clock, for how long, and where the loop was."""

    __slots__ = ("at", "seconds", "since", "stack")

    def __init__(self, since: float) -> None:
        self.since = since
        self.seconds = 0.0
        self.stack: tuple[str, ...] = ()
        """Where it is, outermost first, as far as it is known."""
        self.at = ""
        """The innermost line of it that is neither the standard library's nor an installed package's, if there is one."""

    def __str__(self) -> str:
        at = f": {self.at}" if self.at else ""
        return f"the event loop has not turned for {self.seconds:.1f} s{at}"


class Pulse:
    """Watches one event loop from a thread: `with Pulse(...):` in the loop that is to be watched.

    Args:
        stuck_after: seconds without a sign of life after which the loop counts as stuck.
        listeners: sockets at which it answers while the loop cannot.
        turned: called in the loop when it turns again.
        clock: the thread's own; in seconds.
    """

    def __init__(
        self,
        stuck_after: float,
        listeners: Sequence[trio.socket.SocketType] = (),
        turned: Callable[[Still], object] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stuck_after = stuck_after
        self.still: Still | None = None
        """The present standstill."""
        self.last: Still | None = None
        """The one before."""
        self.answered = 0
        self._sources = listeners
        self._listeners: list[socket.socket] = []
        self._turned = turned
        self._clock = clock
        self._beat = clock()
        self._asked = False
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._loop_thread = 0

    def __enter__(self) -> Self:
        self._token = trio.lowlevel.current_trio_token()
        self._loop_thread = threading.get_ident()
        self._beat = self._clock()
        # Sockets of its own for the same addresses: those of the loop may be closed under its hands.
        self._listeners = [socket.socket(fileno=os.dup(each.fileno())) for each in self._sources]
        self._thread = threading.Thread(
            target=self._watch, name="pulse of the event loop", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join(
                LAST
            )  # it only ever waits for this; then the addresses are free again
        for listener in self._listeners:
            listener.close()

    def alive(self) -> bool:
        """True while the loop turns. May be called from any thread."""
        return self.still is None

    def ago(self, still: Still) -> float:
        """Seconds since a standstill was over."""
        return self._clock() - still.since - still.seconds

    # -- in the loop -----------------------------------------------------------------------------

    def _sign(self) -> None:
        self._asked = False
        self._beat = self._clock()

    def _goes_on(self) -> None:
        if self.last is not None and not self._end.is_set():
            self._turned(self.last)

    # -- in the thread ---------------------------------------------------------------------------

    def _watch(self) -> None:
        every = min(1.0, self.stuck_after / LOOKS)
        said = 0.0
        try:
            while not self._end.wait(0 if self.still is not None else every):
                self._ask()
                now = self._clock()
                if now - self._beat < self.stuck_after:
                    self._over()
                    continue
                said = self._found(now, said)
                self._answer(every)
        except trio.RunFinishedError:
            return
        except Exception:  # pragma: no cover - watching must never harm what is watched
            logger.exception("the pulse of the event loop is not watched any more")

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            assert self._token is not None
            self._token.run_sync_soon(self._sign, idempotent=True)

    def _found(self, now: float, said: float) -> float:
        still = Still(self._beat) if self.still is None else self.still
        still.stack, still.at = _whereabouts(sys._current_frames().get(self._loop_thread))
        still.seconds = now - still.since
        first, self.still = self.still is None, still
        if first or now - said >= AGAIN:
            logger.error("%s\n%s", still, "\n".join(f"    {line}" for line in still.stack))
            return now
        return said

    def _over(self) -> None:
        still = self.still
        if still is None:
            return
        still.seconds = self._beat - still.since
        self.last, self.still = still, None
        assert self._token is not None
        self._token.run_sync_soon(self._goes_on)

    def _answer(self, most: float) -> None:
        """Answer whoever comes, for a moment: only while the loop stands still."""
        if not self._listeners:
            self._end.wait(most)
            return
        try:
            ready = _ready(self._listeners, most)
        except (OSError, ValueError):  # closed meanwhile
            self._end.wait(most)
            return
        for listener in ready:
            with suppress(OSError):
                stream, _ = listener.accept()
                with stream:
                    stream.settimeout(_OWN)
                    stream.recv(_HEAD)
                    stream.sendall(self._refusal())
                    stream.shutdown(socket.SHUT_WR)
                self.answered += 1

    def _refusal(self) -> bytes:
        body = f"event-loop {self.still}\n".encode()
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Cache-Control: no-store\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body

    def __repr__(self) -> str:
        return f"<Pulse {self.still or 'turns'}>"


def _ready(listeners: Sequence[socket.socket], most: float) -> list[socket.socket]:
    """Those at which somebody has come within `most` seconds. Not by `select`, which knows no descriptor above 1023."""
    with _Selector() as selector:
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ, listener)
        return [key.data for key, _ in selector.select(most)]


def _whereabouts(frame: FrameType | None) -> tuple[tuple[str, ...], str]:
    """The lines from the task that runs to the one that blocks, and which of them is the program's own."""
    lines: list[str] = []
    at = ""
    for each in traceback.extract_stack(frame) if frame is not None else ():
        if f"{os.sep}trio{os.sep}_" in each.filename:
            lines, at = [], ""  # what comes before is how the loop came to run
            continue
        line = f"{each.name} ({each.filename}:{each.lineno}) {each.line or ''}".rstrip()
        lines.append(line)
        if not each.filename.startswith(_OTHERS):
            at = line
    return tuple(lines), at or (lines[-1] if lines else "")
