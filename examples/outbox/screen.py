"""The screen: the tree, live in a terminal, or a line now and then where there is none.

It only looks: a snapshot of the tree, the journal, and one number from the receiver's database. It is no part of the tree,
so that it shows the stop to its end.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import trio
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.outbox.journal import Journal, Line, brief
from examples.outbox.shop import Shop
from supervision import Pool, SupervisorInfo, WorkerInfo

__all__ = ["LiveScreen", "PlainScreen", "Screen"]

FRAME: Final = 0.1
"""Seconds between two looks."""
_COLOURS: Final = {
    "ready": "green",
    "starting": "yellow",
    "restarting": "yellow",
    "draining": "cyan",
    "stopping": "cyan",
    "failed": "bold red",
    "stopped": "dim",
}


@attrs.define
class Screen:
    """What both kinds share."""

    console: Console
    shop: Shop
    journal: Journal

    async def show(self, pool: Pool) -> None:
        """Show until the tree has ended."""
        raise NotImplementedError

    def say(self, line: Line) -> None:
        """Something happened; the journal calls this."""


@attrs.define
class PlainScreen(Screen):
    """Lines, for a log."""

    every: float = 2.0

    async def show(self, pool: Pool) -> None:
        while pool.stop_report is None:
            self.console.print(await self._line(pool), highlight=False)
            with trio.move_on_after(self.every):
                await pool.wait_stopped()
        self.console.print(await self._line(pool), highlight=False)

    def say(self, line: Line) -> None:
        self.console.print(f"  {line.text}", highlight=False, soft_wrap=True)

    async def _line(self, pool: Pool) -> str:
        received = await self.shop.ledger.received()
        states = ", ".join(f"{n} {state}" for state, n in pool.snapshot().counts.items() if n)
        restarts = sum(worker.restarts for worker in pool.workers())
        return f"received {received} of {self.shop.settings.orders}; {states}; {restarts} restarts"


@attrs.define
class LiveScreen(Screen):
    """The whole picture, drawn anew several times a second.

    With `keep`, the busiest frame is remembered, for `save_svg`.
    """

    keep: bool = False
    _best: tuple[int, RenderableType] | None = None

    async def show(self, pool: Pool) -> None:
        # Rich's own refresh runs in a thread; here a task does it, and the tree cannot change while it looks.
        with Live(console=self.console, auto_refresh=False, screen=True) as live:
            while pool.stop_report is None:
                received = await self.shop.ledger.received()
                frame = self.frame(pool, received, rows=self.console.height)
                live.update(frame, refresh=True)
                if self.keep:
                    self._remember(pool, received)
                await trio.sleep(FRAME)

    def frame(self, pool: Pool, received: int, *, rows: int) -> RenderableType:
        """One picture, at most `rows` lines high."""
        tree = self._tree(pool)
        left = max(1, rows - tree.row_count - 6)
        return Group(self._progress(pool, received), "", tree, "", self._latest(left))

    def save_svg(self, path: Path) -> None:
        """Write the busiest frame as a picture."""
        if self._best is None:
            return
        paper = Console(record=True, width=110, file=io.StringIO(), force_terminal=True)
        paper.print(self._best[1])
        svg = paper.export_svg(title="python -m examples.outbox", unique_id="outbox")
        # Some viewers drop the spaces that indent the tree, unless they are told.
        svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
        # Rich asks for a font from the network, which a picture in a page cannot load.
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
        path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")

    def _remember(self, pool: Pool, received: int) -> None:
        if not 0.4 < received / self.shop.settings.orders < 0.9:
            return
        busy = {worker.name for worker in pool.workers() if worker.state == "restarting"}
        score = len(busy) + 3 * ("receiver" in busy)
        if self._best is None or score > self._best[0]:
            self._best = score, self.frame(pool, received, rows=26)

    def _progress(self, pool: Pool, received: int) -> RenderableType:
        orders = self.shop.settings.orders
        grid = Table.grid(padding=(0, 2))
        health = pool.health()
        waiting = f"{len(health.waiting_for)} not ready" if health.waiting_for else str(health)
        grid.add_row(
            Text("outbox", style="bold"),
            ProgressBar(total=orders, completed=received, width=40),
            f"{received} of {orders} orders received",
            Text(waiting, style="green" if health.ready else "yellow", no_wrap=True),
        )
        return grid

    def _tree(self, pool: Pool) -> Table:
        table = Table(
            box=None, pad_edge=False, expand=True, header_style="dim", padding=(0, 2, 0, 0)
        )
        table.add_column("tree", no_wrap=True)
        table.add_column("state", no_wrap=True, min_width=16)
        for name in ("run", "restarts", "queued", "handled"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("last error", no_wrap=True, ratio=1, overflow="ellipsis")
        now = trio.current_time()
        for label, info in self._rows(pool):
            worker = isinstance(info, WorkerInfo)
            messages = worker and info.mailbox.sent > 0
            table.add_row(
                Text(label, style="" if worker else "bold"),
                _state(info, now),
                str(info.run),
                Text(str(info.restarts), style="yellow" if info.restarts else "dim"),
                str(info.mailbox.queued) if messages else "",
                str(info.mailbox.handled) if messages else "",
                Text(brief(info.error), style="red" if info.state == "restarting" else "dim"),
            )
        return table

    def _rows(self, pool: Pool) -> Iterator[tuple[str, WorkerInfo | SupervisorInfo]]:
        """Parents first, in the order of the declaration."""
        supervisors = {info.path: info for info in pool.supervisors()}
        workers = pool.workers()
        for path, spec in self.shop.tree().walk():
            label = "  " * path.count("/") + spec.name
            if path in supervisors:
                yield label, supervisors[path]
                continue
            replicas = [info for info in workers if info.path.rpartition("/")[0] == path]
            for info in replicas:
                yield label if len(replicas) == 1 else f"{label} {info.replica}", info

    def _latest(self, rows: int) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("ago", justify="right", no_wrap=True, min_width=6)
        table.add_column("latest failures and restarts", no_wrap=True, overflow="ellipsis")
        now = trio.current_time()
        for line in list(self.journal.lines)[-rows:][::-1]:
            failure = " failed: " in line.text or line.level == "error"
            table.add_row(
                f"{now - line.time:.1f} s", Text(line.text, "red" if failure else "yellow")
            )
        return table


def _state(info: WorkerInfo | SupervisorInfo, now: float) -> Text:
    text = str(info.phase or info.state)
    style = _COLOURS.get(text, "")
    if info.next_restart is not None:
        text += f" in {max(0.0, info.next_restart - now):.1f} s"
    return Text(f"● {text}", style)
