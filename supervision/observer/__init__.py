"""The observer: a tree seen from outside. Needs the extra: `pip install 'treewarden[observer]'`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervision.observer.spec import Observer

if TYPE_CHECKING:
    from supervision.observer.asgi import AsgiApp
    from supervision.pool import Pool

__all__ = ["Observer", "asgi_app"]


def asgi_app(pool: Pool, options: Observer | None = None) -> AsgiApp:
    """An ASGI app that shows the tree of `pool`, for a server that runs under Trio: `app.mount("/tree", asgi_app(pool))`.

    It has the page, the API, the probes and `/metrics`. The address of `options` plays no part. Without a token, reading is for
    those who come from this machine, and not through a proxy. Needs no extra.
    """
    from supervision.observer.asgi import asgi_app as make

    return make(pool, options)
