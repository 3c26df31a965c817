"""What is measured beside what, and which figure is wanted: the benchmarks as data.

A side is one function, run with `n` things (`quick` of them for a smoke run). A row compares two
sides; its ratio is always written so that the wanted direction is plain: *rate* says how many times
as many per CPU second ours does, *cost* how many times as much one of ours takes, *more* how much longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import attrs

__all__ = ["FIGURES", "ROWS", "SIDES", "Block", "Kind", "Row", "Side"]


class Kind(StrEnum):
    """How a row's figure is made of its two sides' values."""

    RATE = "rate"
    """Other / ours: more is better."""
    COST = "cost"
    """Ours / other: less is better."""
    MORE = "more"
    """Ours - other, in µs: less is better."""
    BYTES = "bytes"
    """Ours alone: less is better."""
    PACE = "pace"
    """Ours / other, of how many came in a second: more is better."""


@attrs.frozen
class Side:
    """One measurement, `module.function`."""

    name: str
    label: str
    n: int
    quick: int
    unit: str = "µs"
    most: int = 99
    """Repetitions that are enough, for what takes long."""
    function: str = ""
    """The function, where the same one is measured at several sizes."""
    needs: str = ""
    """The server that it works on."""
    patience: float = 300.0
    """Seconds after which it hangs."""

    @property
    def target(self) -> str:
        return self.function or self.name


@attrs.frozen
class Row:
    """One comparison; `goal` is the figure to reach, or None if it is only shown."""

    title: str
    ours: str
    other: str
    kind: Kind
    goal: float | None = None

    def figure(self, ours: float, other: float) -> float:
        match self.kind:
            case Kind.RATE:
                return other / ours
            case Kind.COST | Kind.PACE:
                return ours / other
            case Kind.MORE:
                return ours - other
            case Kind.BYTES:
                return ours

    def reached(self, figure: float) -> bool:
        assert self.goal is not None
        return figure >= self.goal if self.more_is_better else figure <= self.goal

    @property
    def more_is_better(self) -> bool:
        return self.kind in (Kind.RATE, Kind.PACE)

    def missed_by(self, figure: float) -> float:
        """How much of the goal is missing, as a share of it."""
        assert self.goal is not None
        return abs(figure - self.goal) / self.goal

    def show(self, figure: float) -> str:
        match self.kind:
            case Kind.BYTES:
                return f"{figure:,.0f} B"
            case Kind.MORE:
                return f"{figure:+.2f} µs"
            case _:
                return f"{figure:.2f}x"

    def show_goal(self) -> str:
        if self.goal is None:
            return "none"
        match self.kind:
            case Kind.RATE | Kind.PACE:
                return f"≥ {self.goal:g}x"
            case Kind.COST:
                return f"≤ {self.goal:g}x"
            case Kind.MORE:
                return f"≤ {self.goal:+g} µs"
            case Kind.BYTES:
                return f"≤ {self.goal:,.0f} B"


@attrs.frozen
class Block:
    """A table of the page: it is measured as a whole, and stands between markers of its own."""

    name: str
    sides: Mapping[str, Side]
    rows: Sequence[Row]
    apart: bool = False
    """It takes long, and runs only where it is asked for by name, or on a small scale."""


MANY: Final = 100_000

# In the order they run: the two sides of a row stand near each other, so that they meet the same
# neighbours on a shared machine.
SIDES: Final = {
    side.name: side
    for side in (
        Side("tell.ours", "`tell_nowait` to an actor", 200_000, 20_000),
        Side("tell.channel", "an item of a Trio memory channel", 200_000, 20_000),
        Side("tell.asyncio_queue", "an item of an `asyncio.Queue`", 200_000, 20_000),
        Side("ask.ours", "`ask` with its timeout, one after the other", 50_000, 2_000),
        Side("ask.ping_pong", "a ping-pong over two bare channels", 50_000, 2_000),
        Side("ask.ours_in_flight", "`ask`, 100 in flight", 50_000, 2_000),
        Side("life.replicas", "an actor, started and stopped", 10_000, 500),
        Side("life.tasks", "a bare task, started and cancelled", 10_000, 500),
        Side("life.functions", "a worker that is a function", 10_000, 500),
        Side("life.workers", "an actor declared as a worker of its own", 10_000, 500),
        Side(
            "life.replicas_many",
            "an actor among 100,000, started and stopped",
            MANY,
            1_000,
            most=5,
            function="life.replicas",
        ),
        Side(
            "life.tasks_many",
            "a bare task among 100,000, started and cancelled",
            MANY,
            1_000,
            most=5,
            function="life.tasks",
        ),
        Side("life.memory", "an idle actor", 10_000, 500, "B"),
        Side("life.memory_of_tasks", "a bare task that waits on a channel", 10_000, 500, "B"),
        Side("restart.ours", "a restart", 5_000, 200),
        Side("restart.loop", "a turn of a try/except loop", 5_000, 200),
        Side("restart.loop_with_scope", "the same, in a cancel scope each", 5_000, 200),
        Side("imports.ours", "`import supervision`", 5, 1),
        Side("imports.trio_alone", "`import trio`", 5, 1),
    )
}

ROWS: Final = (
    Row("one-way `tell`, beside a Trio channel", "tell.ours", "tell.channel", Kind.RATE, 10.0),
    Row("one-way `tell`, beside asyncio", "tell.ours", "tell.asyncio_queue", Kind.COST, 1.0),
    Row("`ask`, one after the other", "ask.ours", "ask.ping_pong", Kind.COST, 1.0),
    Row("`ask`, 100 in flight", "ask.ours_in_flight", "ask.ping_pong", Kind.RATE, 3.0),
    Row("start + stop of 10,000", "life.replicas", "life.tasks", Kind.COST, 2.5),
    Row("start + stop of 100,000", "life.replicas_many", "life.tasks_many", Kind.COST, 2.5),
    Row("one of 100,000 beside one of 10,000", "life.replicas_many", "life.replicas", Kind.COST),
    Row("the same of bare tasks", "life.tasks_many", "life.tasks", Kind.COST),
    Row("start + stop, function workers", "life.functions", "life.tasks", Kind.COST),
    Row("start + stop, a worker each", "life.workers", "life.tasks", Kind.COST),
    Row("memory of an idle actor", "life.memory", "life.memory_of_tasks", Kind.BYTES, 5000.0),
    Row("restart, beside a try/except loop", "restart.ours", "restart.loop", Kind.RATE, 0.5),
    Row(
        "restart, beside one with a scope each",
        "restart.ours",
        "restart.loop_with_scope",
        Kind.RATE,
    ),
    Row("`import supervision`", "imports.ours", "imports.trio_alone", Kind.COST, 1.25),
)

FIGURES: Final = Block("figures", SIDES, ROWS)
