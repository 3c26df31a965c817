"""Frames: what a running tree says of itself, as records a command can use.

Floor: above tables. Pure. The rule: the wire names its columns, so that an older command line understands a newer tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from actors.options import close_to
from actors.records import Record, record
from supervision.cli.words import UNKNOWN, Ended

__all__ = ["Row", "matching", "rows", "state_of"]


@record
class Row(Record):
    """One line of the tree."""

    path: str
    kind: str
    """`supervisor` or `worker`."""
    state: str
    phase: str | None = None
    run: int = 0
    restarts: int = 0
    failures: int = 0
    limit: int | None = None
    queued: int | None = None
    capacity: int | None = None
    handled: int | None = None
    since: float | None = None
    next_restart: float | None = None
    busy: float | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """Its last part; with the worker's for a replica."""
        parts = self.path.split("/")
        return "/".join(parts[-2:]) if self.kind == "worker" else parts[-1]

    @property
    def depth(self) -> int:
        """How many supervisors are above it."""
        return self.path.count("/") - (self.kind == "worker")


_KNOWN = frozenset(Row.__annotations__)


def rows(frame: dict[str, Any]) -> list[Row]:
    """The lines of a frame."""
    columns: Sequence[str] = frame["columns"]
    return [
        Row(**{c: v for c, v in zip(columns, values, strict=False) if c in _KNOWN})
        for values in frame["rows"]
    ]


def state_of(row: Row) -> str:
    """The word for how it is: the phase of a running one says more than its state."""
    if row.state == "restarting" and row.next_restart is not None:
        return f"retry {row.next_restart:.1f} s"
    if row.state != "running" or row.phase is None:
        return row.state
    if row.phase != "ready":
        return row.phase
    return f"busy {row.busy:.1f} s" if row.busy and row.busy >= 0.5 else "running"


def matching(found: Iterable[Row], patterns: Sequence[str]) -> list[Row]:
    """The lines that `patterns` mean: paths, bare names, or globs; a path means all below it too. All of them without a pattern.

    Raises:
        Ended: a pattern means none.
    """
    every = list(found)
    if not patterns:
        return every
    chosen: dict[str, Row] = {}
    for pattern in patterns:
        hits = [row for row in every if _meant(row.path, pattern)]
        if not hits:
            names = {name for row in every for name in (row.path, *row.path.split("/"))}
            near = [name for name in close_to(pattern, names, most=3) if not name.isdecimal()]
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise Ended(f"there is no child {pattern!r}.{hint}", UNKNOWN)
        chosen |= {row.path: row for row in hits}
    return [row for row in every if row.path in chosen]


def _meant(path: str, pattern: str) -> bool:
    if pattern in ("all", "*"):
        return True
    parts = path.split("/")
    heads = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    if any(sign in pattern for sign in "*?["):
        # A glob that begins anywhere below the root, as a bare name may.
        tails = ["/".join(parts[n:]) for n in range(len(parts))]
        return any(fnmatchcase(text, pattern) for text in (*heads, *tails))
    return any(head == pattern or head.endswith(f"/{pattern}") for head in heads)
