"""Tables in Markdown from measured values, and the block of `docs/performance.md` that holds them."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.bench.plan import Block, Row
from tests.bench.runner import ROOT, Spread

__all__ = [
    "comparisons",
    "figures",
    "machine",
    "misses",
    "spread_of",
    "steps",
    "table",
    "verdict",
    "write",
]

PAGE = ROOT / "docs" / "performance.md"


def machine() -> str:
    """The line that says what the figures were measured on."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return (
        f"{processor()}, {platform.system()}, Python {platform.python_version()}, "
        f"Trio {version('trio')}, {today}"
    )


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} cores of {models[0]}" if models else platform.machine()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right of the first column."""
    marks = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, marks, *rows))


def compare(row: Row, values: Mapping[str, Sequence[float]]) -> Spread:
    """A row's figure: made pair by pair from what was measured in the same repetition."""
    pairs = zip(values[row.ours], values[row.other], strict=False)
    return Spread.of([row.figure(ours, other) for ours, other in pairs])


def verdict(row: Row, figure: float) -> str:
    if row.goal is None:
        return ""
    if row.reached(figure):
        return "reached"
    share = row.missed_by(figure)
    return f"**missed** by {share:.0%}" if share >= 0.005 else "**missed** by a hair"


def spread_of(values: Sequence[float], unit: str) -> str:
    spread = Spread.of(values)
    digits = 0 if unit == "B" or spread.middle >= 1000 else 2 if spread.middle < 10 else 1
    middle, low, high = (f"{x:,.{digits}f}" for x in (spread.middle, spread.low, spread.high))
    return f"{middle}{unit and f' {unit}'} ({low} to {high})"


def comparisons(rows: Iterable[Row], values: Mapping[str, Sequence[float]]) -> str:
    """The table of what is beside what, with the verdicts; rows of which a side is missing are left out."""
    cells = []
    for row in _measured(rows, values):
        found = compare(row, values)
        cells.append(
            (
                row.title,
                row.show(found.middle),
                f"{row.show(found.low)} to {row.show(found.high)}",
                row.show_goal(),
                verdict(row, found.middle),
            )
        )
    return table(("what", "figure", "least to most", "wanted", "verdict"), cells)


def _measured(rows: Iterable[Row], values: Mapping[str, Sequence[float]]) -> list[Row]:
    return [row for row in rows if values.get(row.ours) and values.get(row.other)]


def figures(block: Block, values: Mapping[str, Sequence[float]], *, quick: bool = False) -> str:
    """Both tables: the comparisons with their verdicts, and the values they come from."""
    sides = [side for side in block.sides.values() if values.get(side.name)]
    head = ["one of", "of how many", "CPU time or memory, least to most"]
    cells = [
        [
            side.label,
            f"{side.quick if quick else side.n:,}",
            spread_of(values[side.name], side.unit),
        ]
        for side in sides
    ]
    rates = [values.get(f"{side.name}:rate", ()) for side in sides]
    if any(rates):
        head.append("in a second")
        for line, found in zip(cells, rates, strict=True):
            line.append(spread_of(found, "") if found else "")
    return "\n\n".join(
        (
            comparisons(block.rows, values),
            table(head, cells),
        )
    )


def steps(block: Block, values: Mapping[str, Sequence[float]]) -> str:
    """The table of what was measured on the way, in millions of bytes; nothing if there is none."""
    heads = [f"{at}%" for at in range(10, 101, 10)]
    rows = [
        (side.label, *(f"{values[f'{side.name}:{head}'][0] / 1e6:.1f}" for head in heads))
        for side in block.sides.values()
        if values.get(f"{side.name}:{heads[0]}")
    ]
    return table(("MB in memory after", *heads), rows) if rows else ""


def misses(rows: Iterable[Row], values: Mapping[str, Sequence[float]]) -> list[Row]:
    """The rows whose goal was not reached."""
    return [
        row
        for row in _measured(rows, values)
        if row.goal is not None and not row.reached(compare(row, values).middle)
    ]


def write(block: str, text: str, page: Path = PAGE) -> None:
    """Put `text` between the markers of `block` on the page.

    Raises:
        ValueError: the page has no such markers.
    """
    begin, end = f"<!-- begin {block} -->", f"<!-- end {block} -->"
    before, found, rest = page.read_text("utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no lines {begin!r} and {end!r} to write between")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", "utf-8")
