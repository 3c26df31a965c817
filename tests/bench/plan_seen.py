"""What looking at a tree may cost it: the observer's part of the plan."""

from __future__ import annotations

from typing import Final

from tests.bench.plan import Block, Kind, Row, Side

__all__ = ["SEEN"]

_SIDES: Final = {
    side.name: side
    for side in (
        Side("seen.by_ten", "a message in a tree of 1,001 actors with ten viewers, one of which does not read", 4_000_000, 20_000, most=5),
        Side("seen.by_none", "the same with none", 4_000_000, 20_000, most=5),
    )
}  # fmt: skip

_ROWS: Final = (
    Row("messages while ten look, beside none", "seen.by_ten", "seen.by_none", Kind.RATE, 0.95),
)

SEEN: Final = Block("seen", _SIDES, _ROWS)
