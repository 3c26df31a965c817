"""Server: the connections of one observer, on all its addresses.

Floor: above connection. The rule: it holds a bounded number of connections. When one more comes, the one that has waited longest for its
next request makes room, so that no crowd of idle clients keeps a probe out.
"""

from __future__ import annotations

import logging
import os
import socket as stdlib
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import trio

from actors.records import Record, record
from supervision.observer.address import is_loopback
from supervision.observer.connection import GONE, Connection
from supervision.observer.messages import Peer
from supervision.observer.site import Site

__all__ = ["Server", "ServerStatistics"]

logger: Final = logging.getLogger("supervision")

MOST: Final = 256
"""Connections at once."""
GRACE: Final = 1.5
"""Seconds that answers and viewers have at the end."""


@record
class ServerStatistics(Record):
    """One look at a server."""

    connections: int
    viewers: int
    """Of all connections, those that are shown frames."""
    refused: int
    """Connections for which there was no room."""
    faults: int
    """Connections that ended by a fault of ours."""
    frames: int
    """Frames built so far."""
    every: float
    """Seconds between two frames."""


class Server:
    """The connections of one observer."""

    def __init__(self, site: Site, most: int = MOST) -> None:
        self.site = site
        self.most = most
        self.refused = 0
        self.faults = 0
        """Connections that ended by a fault of ours."""
        self.connections: dict[Connection, None] = {}
        self._empty: trio.Event | None = None

    async def serve(
        self,
        listeners: Sequence[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take connections until cancelled; then let viewers go in order."""
        async with trio.open_nursery() as connections, trio.open_nursery() as taking:
            taking.start_soon(self.site.run)
            for listener in listeners:
                taking.start_soon(
                    partial(
                        trio.serve_listeners, self._take, [listener], handler_nursery=connections
                    )
                )
            task_status.started()

    async def close(self) -> None:
        """Show the last frame, say goodbye, and let answers that are under way end."""
        with trio.move_on_after(GRACE):
            await self.site.hub.close()
            for connection in tuple(self.connections):
                if connection.idle_since is not None:
                    connection.scope.cancel(reason="the observer ends")
            if self.connections:
                self._empty = trio.Event()
                await self._empty.wait()

    async def _take(self, stream: trio.SocketStream) -> None:
        await self.handle(stream, peer_of(stream))

    async def handle(self, stream: trio.abc.Stream, peer: Peer) -> None:
        """Serve one connection to its end."""
        if len(self.connections) >= self.most and not self._make_room():
            self.refused += 1
            await trio.aclose_forcefully(stream)
            return
        connection = Connection(self.site, stream, peer)
        self.connections[connection] = None
        try:
            await connection.run()
        except* GONE:
            pass
        except* Exception:
            self.faults += 1
            logger.exception("the observer failed to serve a connection of %s", peer.name)
        finally:
            del self.connections[connection]
            if not self.connections and self._empty is not None:
                self._empty.set()

    def _make_room(self) -> bool:
        idle = [
            (each.idle_since, n, each)
            for n, each in enumerate(self.connections)
            if each.idle_since is not None and not each.scope.cancel_called
        ]
        if not idle:
            return False
        min(idle)[2].scope.cancel(reason="room for another connection")
        return True

    def statistics(self) -> ServerStatistics:
        """One look."""
        return ServerStatistics(
            connections=len(self.connections),
            viewers=len(self.site.hub.viewers),
            refused=self.refused,
            faults=self.faults,
            frames=self.site.sight.seq,
            every=self.site.hub.every,
        )

    def __repr__(self) -> str:
        return f"<Server {len(self.connections)} connections>"


def peer_of(stream: trio.SocketStream) -> Peer:
    """Who is at the other end."""
    socket = stream.socket
    if socket.family == stdlib.AF_UNIX:
        return Peer(kind="unix", name=_user(socket))
    own: Any = socket.getsockname()
    try:
        other: Any = socket.getpeername()
        name = f"{other[0]}:{other[1]}"
    except OSError:
        name = "gone"
    return Peer(kind="tcp", name=name, local=is_loopback(str(own[0])))


def _user(socket: trio.socket.SocketType) -> str:
    """The user at the other end of a unix socket, as the kernel says."""
    option = getattr(stdlib, "SO_PEERCRED", None)
    if option is None:
        return f"uid {os.getuid()}"
    _, uid, _ = struct.unpack("3i", socket.getsockopt(stdlib.SOL_SOCKET, option, 12))
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (KeyError, ImportError):
        return f"uid {uid}"
