"""Viewer: one WebSocket that is shown frames.

Floor: above hub. The rule: a viewer that is gone, slow or talks nonsense is no error. One that takes no frame for `PATIENCE` seconds is
let go, since behind it there may be nobody any more (opanel-mc/opanel#429).
"""

from __future__ import annotations

from typing import Final, Protocol

import trio

from supervision.observer.hub import Hub, pause_of

__all__ = ["GOING_AWAY", "PATIENCE", "Gone", "Socket", "show"]

PATIENCE: Final = 30.0
GOING_AWAY: Final = 1001


class Gone(Exception):
    """The other side has closed, or the connection is lost."""


class Socket(Protocol):
    """A WebSocket, whatever carries it."""

    async def send(self, text: str) -> None:
        """Send a text. Raises `Gone`."""

    async def receive(self) -> object:
        """The next message. Raises `Gone`."""
        ...

    async def close(self, code: int) -> None:
        """Say why it ends, and end it. May take as long as the other side likes."""


async def show(hub: Hub, socket: Socket) -> None:
    """Show frames until either side ends it."""
    viewer = _Viewer(hub, socket)
    hub.viewers.add(viewer)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(viewer.listen, nursery.cancel_scope)
            await viewer.show()
            nursery.cancel_scope.cancel(reason="nothing more to show")
    finally:
        hub.viewers.discard(viewer)


class _Viewer:
    def __init__(self, hub: Hub, socket: Socket) -> None:
        self.hub = hub
        self.socket = socket
        self.paused = False
        self.going_on = trio.Event()

    def wake(self) -> None:
        self.going_on.set()
        self.going_on = trio.Event()

    async def show(self) -> None:
        hub, seen = self.hub, self.hub.stale()
        try:
            while True:
                if self.paused and not hub.closing:
                    await self.going_on.wait()
                frame = await hub.after(seen)
                if frame is None:
                    break
                seen = frame.seq
                with trio.fail_after(PATIENCE):
                    await self.socket.send(frame.text)
            await self.socket.close(GOING_AWAY)
        except (Gone, trio.TooSlowError):
            return

    async def listen(self, scope: trio.CancelScope) -> None:
        """Take what the viewer says, so that its closing is seen behind it (python-trio/trio-websocket#74)."""
        try:
            while True:
                wanted = pause_of(await self.socket.receive())
                if wanted is None:
                    continue
                self.paused = wanted
                if not wanted:
                    self.wake()
        except Gone:
            scope.cancel(reason="the viewer is gone")
