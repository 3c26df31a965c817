"""The test kit's benchmark as data: see `plan`."""

from __future__ import annotations

from typing import Final

from tests.bench.plan import Block, Kind, Row, Side

__all__ = ["TESTING"]

_SIDES: Final = {
    side.name: side
    for side in (
        Side("testing.ours", "an example of three workers, drawn order, all invariants", 500, 50),
        Side("testing.plain", "the same drawn failures in a plain `trio.run`", 500, 50),
    )
}

_ROWS: Final = (
    Row(
        "an example of the test kit, beside a plain run",
        "testing.ours",
        "testing.plain",
        Kind.COST,
    ),
)

TESTING: Final = Block("testing", _SIDES, _ROWS)
