"""Host: the little tree in which an observer lives, beside the one it shows.

Floor: the highest of this room. Theory: in the tree that it shows, an observer would count as a child: for strategies, for
`auto_shutdown`, for readiness, and for those who count. So it has a tree of its own, in the same nursery: started before the
other, so that probes answer from the first moment on, and stopped after it, so that they answer while it drains. It is a
permanent worker with a backoff and no limit: whatever fails in it is restarted, and the tree that it shows never hears of it.
"""

from __future__ import annotations

import logging
from math import inf
from pathlib import Path
from typing import Final

import trio

from actors.context import Context
from supervision.errors import MissingExtra
from supervision.observer.address import bound, open_address, url
from supervision.observer.pulse import Pulse
from supervision.observer.site import Site
from supervision.observer.spec import Observer
from supervision.pool import Pool
from supervision.restart import RestartPolicy, RestartType
from supervision.specs import Supervisor, Worker

__all__ = ["Host", "open_host"]

logger: Final = logging.getLogger("supervision")


class Host:
    """An observer that has its addresses and is about to serve."""

    def __init__(self, site: Site, listeners: list[trio.SocketListener]) -> None:
        self.site = site
        self.listeners = listeners
        self.places = tuple(map(bound, listeners))
        self.urls = tuple(map(url, self.places))

    def tree(self) -> Supervisor:
        """The tree to serve."""
        policy = RestartPolicy(
            type=RestartType.PERMANENT, max_restarts=0, initial_backoff=0.5, max_backoff=30
        )
        worker = Worker("server", self._run, restart=policy, ready="signal", shutdown=3)
        return Supervisor("observer", [worker])

    async def _run(self, ctx: Context) -> None:
        from supervision.observer.server import Server

        server = Server(self.site)
        listeners, self.listeners = self.listeners, []
        if not listeners:  # they were closed with the run before
            for place in self.places:
                listeners += await open_address(place)
        pulse = self.site.pulse = Pulse(
            self.site.options.stuck_after,
            [listener.socket for listener in listeners],
            self.site.stood_still,
        )
        with ctx.busy(), pulse:
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve, listeners)
                ctx.started()
                while await ctx.sleep(inf):
                    pass
                await server.close()
                nursery.cancel_scope.cancel(reason="the observer ends")

    def close(self) -> None:
        """Leave nothing behind: neither sockets nor their files."""
        for listener in self.listeners:
            listener.socket.close()
        for place in self.places:
            if place.path:
                Path(place.path).unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<Host {', '.join(self.urls)}>"


async def open_host(pool: Pool, options: Observer) -> Host:
    """Listen at its addresses; nobody is answered yet.

    Raises:
        MissingExtra: h11 or trio-websocket is not installed.
        ObserverUnavailable: an address cannot be had.
    """
    try:
        import h11 as _h11
        import trio_websocket as _websocket
    except ImportError as error:
        raise MissingExtra("an observer", "observer", str(error.name)) from error
    del _h11, _websocket
    listeners: list[trio.SocketListener] = []
    try:
        for place in options.places:
            listeners += await open_address(place)
    except BaseException:
        for listener in listeners:
            listener.socket.close()
        raise
    host = Host(Site(pool, options), listeners)
    for place in options.places:
        if not place.local and options.token is None and options.access is None:
            logger.warning(
                "the observer at %s can be reached from other machines and has no token:"
                " there it answers probes and /metrics only",
                place,
            )
    host.site.tree.seen_at = host.urls
    logger.info("%s can be seen at %s", host.site.tree.root.name, ", ".join(host.urls))
    return host
