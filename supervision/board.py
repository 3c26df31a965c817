"""Board: the instruments of one OpenTelemetry meter provider, and the trees they show.

Floor: above metrics. The rule: instruments are made once for a provider, however many trees come and go.

When a tree has ended its levels are gone; its counters stay as they are, as those of a process do, and a tree of the same name
continues them. Only the last `REMEMBERED` trees are remembered, so that memory is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakSet

from actors.durations import Durations
from supervision.metrics import FAMILIES, HISTOGRAMS, Family, Reading, TreeMeter
from supervision.tree import Tree

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

__all__ = ["REMEMBERED", "Board", "board_of"]

REMEMBERED: Final = 64
"""How many ended trees keep counters of their own."""


class Board:
    """The instruments of one meter provider, and the trees they show.

    Exporters read in their own threads; the lock is held for as long as it takes to copy two lists.
    """

    def __init__(self, provider: MeterProvider) -> None:
        self._lock = Lock()
        self._live: WeakSet[TreeMeter] = WeakSet()
        self._past: OrderedDict[str, Reading] = OrderedDict()
        self._older = Reading()
        self._reading: tuple[Reading, set[str]] | None = None
        meter = provider.get_meter("supervision")
        self._histograms = {
            family.name: meter.create_histogram(family.name, unit="s", description=family.doc)
            for family in HISTOGRAMS
        }
        for family in FAMILIES:
            create: Callable[..., object] = (
                meter.create_observable_counter
                if family.counter
                else meter.create_observable_up_down_counter
            )
            create(family.name, [partial(self._observe, family)], description=family.doc)

    def add(self, tree: Tree) -> None:
        """Show `tree` until it has ended."""
        meter = TreeMeter(tree, self._ended)
        tree.office.on_durations = self._measure
        with self._lock:
            self._live.add(meter)

    def read(self) -> Reading:
        """The sum over all trees, those that have ended included."""
        with self._lock:
            live, past = list(self._live), [self._older, *self._past.values()]
        out = Reading()
        for reading in past:
            out.merge(reading)
        for meter in live:
            out.merge(meter.read())
        return out

    def _measure(self, key: tuple[str, ...], seen: Durations) -> None:
        name, *values = key
        family = next(family for family in HISTOGRAMS if family.name == name)
        labels = dict(zip(family.labels, values, strict=True))
        seen.also = partial(self._histograms[name].record, attributes=labels)

    def _ended(self, meter: TreeMeter) -> None:
        total = meter.read().counters()
        with self._lock:
            self._live.discard(meter)
            before = self._past.pop(meter.name, None)
            if before is not None:
                total.merge(before)
            self._past[meter.name] = total
            while len(self._past) > REMEMBERED:
                _, oldest = self._past.popitem(last=False)
                older = Reading()
                older.merge(self._older)
                older.merge(oldest, _OF_ALL_TREES)
                self._older = older

    def _observe(self, family: Family, _: CallbackOptions) -> Iterable[Observation]:
        """Called by an exporter. One reading serves each instrument once."""
        from opentelemetry.metrics import Observation

        if self._reading is None or family.name in self._reading[1]:
            self._reading = self.read(), set()
        reading, served = self._reading
        served.add(family.name)
        return [
            Observation(value, dict(zip(family.labels, labels, strict=True)))
            for labels, value in reading.values[family.name].items()
        ]


_OF_ALL_TREES: Final = frozenset(f.name for f in FAMILIES if "tree" not in f.labels)

_boards: Final[WeakKeyDictionary[MeterProvider, Board]] = WeakKeyDictionary()
_boards_lock: Final = Lock()


def board_of(provider: MeterProvider) -> Board:
    """The board of `provider`, made on first use."""
    with _boards_lock:
        board = _boards.get(provider)
        if board is None:
            board = _boards[provider] = Board(provider)
        return board
