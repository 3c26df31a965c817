"""Schedules: in which order ready tasks run, as values that can be drawn, shrunk, printed and replayed.

Theory. Trio promises no order among the tasks that are ready in one pass of its loop. A schedule makes that order a sequence
of numbered choices: for each batch, which of the tasks left runs next, counted in order of creation. All zeros is first in, first
out; any other order is "fifo except" some numbered choices, whoever decided it. That text is what a failure prints.

* *Uniform* draws every choice; it shrinks to few exceptions.
* *PCT* (Burckhardt and others, 2010) gives tasks priorities and moves the leader to the end at few points: a bug that needs d
  particular orderings is found with a known probability, and a counterexample has few large decisions.

A draw must never raise into Trio's loop: Hypothesis ends examples by exceptions, which there would wreck the run. So it is caught,
no more is drawn, the run is cancelled, and whoever steps the run raises it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import trio

__all__ = ["Drawn", "Pct", "Schedule", "replay"]

_DRAWS: Final = 2000
"""Choices after which a drawn schedule goes on in order: more would not fit into one example."""

Draw = Callable[[int], int]
"""Draws a whole number below the given one."""


class Schedule:
    """First in, first out: the plain order, and the base of all others."""

    def __init__(self) -> None:
        self.choices = 0
        """Choices made so far."""
        self.exceptions: dict[int, int] = {}
        """The choices that were not 0, by number."""
        self.stopped: BaseException | None = None
        """What a draw raised; whoever steps the run has to raise it."""
        self.on_stop: Callable[[], object] | None = None
        """Called when that happens."""

    def arrange(self, batch: list[trio.lowlevel.Task]) -> list[trio.lowlevel.Task]:
        """The tasks of one batch, given in order of creation, in the order to run them."""
        rest, order = list(batch), list[trio.lowlevel.Task]()
        while len(rest) > 1:
            chosen = self._choose(rest)
            if chosen:
                self.exceptions[self.choices] = chosen
            self.choices += 1
            order.append(rest.pop(chosen))
        return order + rest

    def _choose(self, rest: list[trio.lowlevel.Task]) -> int:
        return 0

    def __str__(self) -> str:
        if not self.exceptions:
            return "fifo"
        return "fifo except " + ", ".join(f"{at}:{to}" for at, to in self.exceptions.items())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}, {self.choices} choices>"


class Drawn(Schedule):
    """Every choice is drawn when it comes up.

    Args:
        draw: returns a whole number below the one it is given; 0 is the plainest.
    """

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self._draw = draw
        self._drawn = 0

    def draw(self, below: int) -> int:
        """Draw, without ever raising into the loop."""
        if self.stopped is not None or self._drawn >= _DRAWS:
            return 0
        self._drawn += 1
        try:
            return self._draw(below)
        # Hypothesis ends an example: whoever steps the run raises it again, outside of all tasks.
        except BaseException as stop:  # noqa: ASYNC103
            self.stopped = stop
            if self.on_stop is not None:
                self.on_stop()
            return 0  # noqa: ASYNC104

    def _choose(self, rest: list[trio.lowlevel.Task]) -> int:
        return self.draw(len(rest))


class Pct(Drawn):
    """Drawn priorities, and `depth - 1` drawn points among `steps` batches at which the leader falls to the end."""

    def __init__(self, draw: Draw, *, depth: int = 3, steps: int = 60) -> None:
        super().__init__(draw)
        self._priorities: dict[trio.lowlevel.Task, int] = {}
        self._falls = {self.draw(steps) for _ in range(depth - 1)}
        self._batches = 0
        self._lowest = 0

    def arrange(self, batch: list[trio.lowlevel.Task]) -> list[trio.lowlevel.Task]:
        for task in batch:
            if task not in self._priorities:
                self._priorities[task] = -self.draw(1000)
        self._batches += 1
        if self._batches in self._falls:
            self._lowest -= 1000
            leader = max(batch, key=lambda task: self._priorities[task])
            self._priorities[leader] = self._lowest
        return super().arrange(batch)

    def _choose(self, rest: list[trio.lowlevel.Task]) -> int:
        return max(range(len(rest)), key=lambda i: (self._priorities[rest[i]], -i))


class _Replay(Schedule):
    """The choices that a failure printed."""

    def __init__(self, exceptions: dict[int, int]) -> None:
        super().__init__()
        self._wanted = exceptions

    def _choose(self, rest: list[trio.lowlevel.Task]) -> int:
        return min(self._wanted.get(self.choices, 0), len(rest) - 1)


def replay(text: str) -> Schedule:
    """The schedule that `text` describes, as printed by a failure: `fifo`, or `fifo except 12:1, 30:2`.

    Raises:
        ValueError: it is not such a text.
    """
    if not re.fullmatch(r"\s*fifo(\s+except\s+\d+:\d+(\s*,\s*\d+:\d+)*)?\s*", text):
        raise ValueError(f"a schedule reads 'fifo' or 'fifo except 12:1, 30:2', not {text!r}")
    return _Replay({int(at): int(to) for at, to in re.findall(r"(\d+):(\d+)", text)})
