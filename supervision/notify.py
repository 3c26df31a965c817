"""Notify: what a tree tells the process manager: READY, STATUS, WATCHDOG, STOPPING.

Floor: above pool. The protocol is systemd's `sd_notify`: datagrams of `KEY=value` lines to the socket in `$NOTIFY_SOCKET`. The rules:
a ping is sent only while the event loop turns (a task sends it) and the tree is live, so the manager's watchdog is the liveness
probe; nobody who listens, or nobody who reads, disturbs the tree.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Final

import attrs
import trio

from actors.options import some_seconds
from actors.records import Record
from supervision.events import StopRequested
from supervision.pool import Pool
from supervision.states import Phase, State

__all__ = ["Notifier", "notifier", "notify", "status"]

CALM: Final = 1.0
"""Seconds between two looks at the tree."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Notifier(Record):
    """Where to notify, and how often at least."""

    address: str
    """A path, or `@name` for an abstract socket."""
    watchdog: float | None = attrs.field(default=None, validator=some_seconds)
    """Seconds within which the manager wants a ping; none: it wants none."""

    def send(self, **values: object) -> bool:
        """Send values under their names in capitals. False if nobody took them."""
        # A line is a message of its own: the text of an error must not become one.
        text = "\n".join(
            f"{key.upper()}={' '.join(str(value).split())}" for key, value in values.items()
        )
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out,
        ):
            out.setblocking(False)  # a manager that does not read must not hold up the loop
            out.sendto(text.encode(errors="backslashreplace"), address)
            return True
        return False


def notifier(environment: Mapping[str, str] = os.environ) -> Notifier | None:
    """The process manager's wish, as the environment says it; None without one."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return None
    meant = environment.get("WATCHDOG_PID", str(os.getpid()))
    micros = environment.get("WATCHDOG_USEC", "")
    wanted = micros.isdecimal() and int(micros) > 0 and meant == str(os.getpid())
    return Notifier(address=address, watchdog=int(micros) / 1e6 if wanted else None)


async def notify(pool: Pool, to: Notifier) -> None:
    """Tell `to` how the tree of `pool` is until it has ended. Meant for a task beside the tree."""
    every = min(CALM, inf if to.watchdog is None else to.watchdog / 3)
    root = pool.supervisors()[0].path
    shown, up, ready, over = "", False, False, False
    with pool.events() as events:
        while not over:
            health = pool.health()
            if to.watchdog is not None and health.live:
                to.send(watchdog=1)
            if not ready and health.started and not health.problems:
                ready = to.send(ready=1)
            text = status(pool)
            if text != shown and to.send(status=text):
                shown = text
            with trio.move_on_after(every) as looking:
                if not up:
                    await pool.wait_ready()
                    up = True
                    continue
                async for event in events:
                    if isinstance(event, StopRequested) and event.path == root:
                        to.send(stopping=1)
            over = not looking.cancelled_caught
    to.send(stopping=1, status="stopped")


def status(pool: Pool) -> str:
    """The tree in one line for `systemctl status`."""
    states = [info.state for info in pool.workers()]
    counts = [f"{states.count(state)} {state}" for state in State if state in states]
    how = "stopping" if pool.supervisors()[0].phase == Phase.STOPPING else str(pool.health())
    return f"{', '.join(counts) or 'no workers'}; {how}"
