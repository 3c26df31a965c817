"""Listener: hears from PostgreSQL that there may be work, on a thread and a connection of its own.

Floor: above runner. Theory:

* A notification is a hint, so nothing here fails anybody: without it workers poll, as they do anyway.
* What was notified while nobody listened is not told again; so after each connect but the first all workers look once.
* A connection on which nothing comes says nothing about whether anything could. So it notifies itself, at the start and then
  every so often; if that is not heard, this is no place to listen (a pooler of transactions hands LISTEN to whoever comes
  next), or the connection is dead, and it is made anew after a while.
* The thread waits for the connection and for a pipe by which it is told to end.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

import psycopg
import trio

from actors.errors import shown
from actors.jobs.errors import EngineUnreachable
from actors.jobs.postgres.runner import ListenerStatistics
from actors.resilience.backoff import Backoff

__all__ = ["Listener"]

_PROBE_EVERY: Final = 30.0
_HEARD_WITHIN: Final = 5.0
_AGAIN: Final = Backoff(initial=0.5, factor=2.0, maximum=30.0, jitter=0.2)
_PROBE: Final = "?"


class Listener:
    """Calls `ring(type)` in Trio's thread, with None for all types.

    Args:
        connect: makes a connection in autocommit.
        channel: what is listened to.
        origin: at the start of what this process notifies itself, which it need not hear.
        ring: whom to tell.
        random: source of jitter.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        channel: str,
        origin: str,
        ring: Callable[[str | None], object],
        random: Random | None = None,
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._origin = origin
        self._ring = ring
        self._random = random or Random()
        self._token = trio.lowlevel.current_trio_token()
        self._ended = trio.Event()
        self._ending = False
        self._told, self._tell = os.pipe()
        self._listening = False
        self._heard = self._connects = 0
        self._problem = "it has not begun"
        name = f"postgres listener {channel}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """End it."""
        if not self._ending:
            self._ending = True
            # Whoever waits at the other end hears of it; that one is the thread's to close, this one is ours.
            os.close(self._tell)
        # It may be at a connect, which has a time limit of its own; nothing waits for that.
        with trio.move_on_after(1.0, shield=True):
            await self._ended.wait()

    # -- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._ending:
            began = time.monotonic()
            try:
                db = self._connect()
                try:
                    self._listen(db)
                finally:
                    self._listening = False
                    db.close()
            except (psycopg.Error, EngineUnreachable, OSError) as error:
                self._problem = shown(error)
            failures = 1 if time.monotonic() - began > _PROBE_EVERY else failures + 1
            self._rest(_AGAIN.delay(failures, self._random))
        os.close(self._told)
        self._in_trio(self._ended.set)

    def _rest(self, seconds: float) -> None:
        if not self._ending:
            _wait(seconds, self._told)

    def _listen(self, db: psycopg.Connection[Any]) -> None:
        """Until it is told to end, or nothing is heard any more."""
        db.execute(f"LISTEN {self._channel}".encode())
        probe_at = silent_at = time.monotonic()
        probed = False
        while not self._ending:
            now = time.monotonic()
            if probed and now >= silent_at:
                raise psycopg.OperationalError(
                    f"LISTEN {self._channel} hears nothing, as behind a pooler of transactions"
                )
            if not probed and now >= probe_at:
                db.execute("SELECT pg_notify(%s, %s)", [self._channel, self._origin + _PROBE])
                probed, silent_at = True, now + _HEARD_WITHIN
            for payload in self._payloads(db, (silent_at if probed else probe_at) - now):
                if payload == self._origin + _PROBE:
                    probed, probe_at = False, time.monotonic() + _PROBE_EVERY
                    if not self._listening:
                        # Whatever came between their last look and this moment was not told to anybody.
                        self._in_trio(self._ring, None)
                        self._listening, self._problem = True, ""
                        self._connects += 1
                elif not payload.startswith(self._origin):
                    self._heard += 1
                    self._in_trio(self._ring, payload.partition(":")[2])

    def _payloads(self, db: psycopg.Connection[Any], seconds: float) -> set[str]:
        """What came, each once, when something does or the time is over."""
        # Those that came with the answer of a statement are kept by the connection, and no socket tells of them.
        found = {one.payload for one in db.notifies(timeout=0)}
        if not found:
            _wait(seconds, self._told, db.fileno())
            if not self._ending:
                found = {one.payload for one in db.notifies(timeout=0)}
        return found

    def _in_trio(self, fn: Callable[..., object], *args: object) -> None:
        try:
            self._token.run_sync_soon(fn, *args)
        except trio.RunFinishedError:
            pass

    # -- seen from outside -----------------------------------------------------------------------

    def statistics(self) -> ListenerStatistics:
        """One look."""
        return ListenerStatistics(
            listening=self._listening,
            heard=self._heard,
            connects=self._connects,
            problem=self._problem,
        )

    def __repr__(self) -> str:
        state = "listening" if self._listening else f"not listening: {self._problem}"
        return f"<Listener on {self._channel}, {state}>"


def _wait(seconds: float, *files: int) -> None:
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    poll.poll(max(0.0, seconds) * 1000)
