"""Exposition: the numbers of a tree as Prometheus reads them.

Floor: the lowest of this room. The rule: the names are those of `supervision.metrics`; what there is depends on the declaration of the
tree, not on what goes through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from actors.durations import BOUNDS, Durations
from supervision.metrics import FAMILIES, HISTOGRAMS, Reading

__all__ = ["TYPE", "exposition"]

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(reading: Reading, durations: Mapping[tuple[str, ...], Durations]) -> str:
    """The text of one scrape."""
    return "\n".join([*_families(reading), *_histograms(durations), ""])


def _families(reading: Reading) -> Iterator[str]:
    for family in FAMILIES:
        yield from _head(family.name, family.doc, "counter" if family.counter else "gauge")
        for labels, value in sorted(reading.values[family.name].items()):
            yield f"{family.name}{_labels(family.labels, labels)} {value}"


def _histograms(durations: Mapping[tuple[str, ...], Durations]) -> Iterator[str]:
    for family in HISTOGRAMS:
        yield from _head(family.name, family.doc, "histogram")
        for (name, *values), seen in sorted(durations.items()):
            if name != family.name:
                continue
            labels = dict(zip(family.labels, values, strict=True))
            counts = tuple(seen.counts)
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), accumulate(counts), strict=True):
                both = {**labels, "le": bound}
                yield f"{name}_bucket{_labels(tuple(both), tuple(both.values()))} {count}"
            own = _labels(tuple(labels), tuple(labels.values()))
            yield f"{name}_sum{own} {seen.total!r}"
            yield f"{name}_count{own} {sum(counts)}"


def _head(name: str, doc: str, kind: str) -> Iterator[str]:
    text = doc.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = ",".join(
        f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)
    )
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
