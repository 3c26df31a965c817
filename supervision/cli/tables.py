"""Tables: rows as text, for people.

Floor: the lowest of this room. Pure functions. The rules: a table is as wide as what is in it; only its last column may be cut. An
error may quote what a stranger sent: it is shown, and never told to the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["age", "bar", "columns", "cut", "number", "plain", "spark"]

_BARS = "▁▂▃▄▅▆▇█"


def columns(head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> list[str]:  # fmt: skip
    """Rows under their headings, columns two spaces apart; those in `right` end in line."""
    texts = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[n]) for row in texts) for n in range(len(head))]
    ends = set(right)
    return [
        "  ".join(
            text.rjust(width) if n in ends else text.ljust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in texts
    ]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if value is True or value is False:
        return "yes" if value else "no"
    text = str(value)
    # A tree is indented; a text that breaks into lines is not to break the table.
    return " " * (len(text) - len(text.lstrip(" "))) + plain(" ".join(text.split()))


def plain(text: str) -> str:
    """Without what a terminal would obey: escape sequences, other controls, and turns of the direction of writing."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def cut(text: str, width: int) -> str:
    """At most `width` characters, of which a terminal shows each; what is cut shows."""
    text = plain(text)
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"[:width]


def age(seconds: float | None) -> str:
    """A time span in at most two units: `41m`, `2h10m`, `3d04h`."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 60:
        return f"{minutes}m{whole % 60:02d}s" if minutes < 10 else f"{minutes}m"
    if hours < 24:
        return f"{hours}h{minutes % 60:02d}m"
    return f"{days}d{hours % 24:02d}h"


def number(value: Any) -> str:
    """A count that stays short: `372`, `12.3k`, `4.1M`."""
    if value is None:
        return ""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if sign == 'k' else size):.1f}{sign}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def spark(values: Sequence[float], most: float, width: int) -> str:
    """The last `width` values as little bars, `most` being the highest."""
    shown = values[-width:]
    if most <= 0:
        return "▁" * len(shown)
    top = len(_BARS) - 1
    return "".join(_BARS[min(top, round(top * value / most))] for value in shown)


def bar(part: float, whole: float, width: int) -> str:
    """A bar of `width` characters, filled by the share of `part`."""
    full = min(width, round(width * part / whole)) if whole > 0 else 0
    return "▓" * full + "░" * (width - full)
