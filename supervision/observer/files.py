"""Files: the page, as it lies in this package.

Floor: above messages. The rule: what can be had is listed once, from the folder itself; a path from outside is only ever compared with
that list.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from supervision.observer.messages import Response

__all__ = ["file_at", "names"]

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}


@cache
def _folder() -> dict[str, bytes]:
    folder = files(__package__ or "supervision.observer") / "page"
    if not folder.is_dir():
        return {}
    return {
        item.name: item.read_bytes()
        for item in folder.iterdir()
        if item.is_file() and item.name.rpartition(".")[2] in TYPES
    }


def names() -> list[str]:
    """The files that there are."""
    return sorted(_folder())


def file_at(path: str) -> Response | None:
    """The file at `path`; `/` is the page itself."""
    name = path.removeprefix("/") or "index.html"
    body = _folder().get(name)
    if body is None:
        return None
    return Response(body=body, type=TYPES[name.rpartition(".")[2]])
