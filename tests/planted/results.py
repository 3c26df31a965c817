"""Results of hunts: a line each in a file, so that a long look can be interrupted, and the table that they make."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import attrs
from attrs.validators import instance_of

from tests.planted.hunt import EXAMPLES, STEPS

__all__ = ["Result", "load", "missed", "table", "write_into"]

_BEGIN, _END = "<!-- begin planted -->\n", "<!-- end planted -->"


@attrs.frozen
class Result:
    """One hunt."""

    bug: str
    machine: str
    seed: int
    example: int | None = attrs.field(validator=instance_of((int, type(None))))
    """Which one showed it; None if none did."""
    steps: int | None = None
    """Of the smallest example; None if it was not shrunk."""

    def keep(self, file: Path) -> None:
        """Add it to those in `file`."""
        with file.open("a") as lines:
            lines.write(json.dumps(attrs.asdict(self)) + "\n")


def load(file: Path) -> list[Result]:
    """What `file` holds, the newest of each bug and seed."""
    if not file.exists():
        return []
    found = [Result(**json.loads(line)) for line in file.read_text().splitlines()]
    return list({(one.bug, one.seed): one for one in found}.values())


def missed(results: Iterable[Result]) -> list[Result]:
    """Those that did not find their bug, or did not get it small."""
    return [
        r for r in results if r.example is None or r.example > EXAMPLES or (r.steps or 0) > STEPS
    ]


def table(results: Iterable[Result]) -> str:
    """A row for each bug: how often it was found, when, and how small it got."""
    bugs: dict[str, list[Result]] = {}
    for one in results:
        bugs.setdefault(one.bug, []).append(one)
    lines = [
        "| bug | machine | seeds | example, median | worst | shrunk | steps, median | worst |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for bug, hunts in bugs.items():
        examples = [one.example for one in hunts if one.example is not None]
        steps = [one.steps for one in hunts if one.steps is not None]
        cells = (
            bug.replace("_", " "),
            f"`{hunts[0].machine}`",
            f"{len(examples)} of {len(hunts)}",
            *_two(examples),
            str(len(steps)),
            *_two(steps),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _two(numbers: list[int]) -> tuple[str, str]:
    return (f"{median(numbers):g}", str(max(numbers))) if numbers else ("", "")


def write_into(page: Path, results: Iterable[Result]) -> None:
    """Put the table where `page` has it."""
    text = page.read_text("utf-8")
    head, _, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not end:
        raise ValueError(f"{page} has no place for the table")
    found = list(results)
    bugs = {one.bug for one in found}
    good = len(bugs - {one.bug for one in missed(found)})
    shrunk = sum(one.steps is not None for one in found)
    words = (
        f"Of {len(bugs)} bugs, {good} were found with every seed within {EXAMPLES:,} examples, and came down to {STEPS} steps"
        f" or fewer whenever they were shrunk: {shrunk} of {len(found)} hunts were."
    )
    page.write_text(f"{head}{_BEGIN}\n{table(found)}\n\n{words}\n\n{_END}{tail}", "utf-8")
