"""The screen: a bar, the processes and what happens to them, live in a terminal; or a line every few seconds where there is none."""

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

from examples.payments.board import Board, Line
from supervision import Pool, WorkerInfo

__all__ = ["LiveScreen", "PlainScreen", "Screen"]

FRAME: Final = 0.2
"""Seconds between two looks."""
_COLOURS: Final = {
    "ready": "green", "running": "green", "starting": "yellow", "restarting": "yellow", "draining": "cyan", "stopping": "cyan",
    "failed": "bold red", "stopped": "dim",
}  # fmt: skip
_BREAKERS: Final = {"open": "bold red", "half_open": "yellow", "closed": "green"}


@attrs.define
class Screen:
    """What both kinds share."""

    console: Console
    board: Board
    began: float = attrs.field(factory=trio.current_time)
    at_first: int = -1
    """Orders that an earlier run of the program had settled."""

    async def show(self, pool: Pool) -> None:
        """Show until the tree has ended."""
        raise NotImplementedError

    def rate(self) -> tuple[float, float]:
        """Orders a second, in the whole, and seconds that are left."""
        if self.at_first < 0:
            self.at_first = self.board.numbers.settled
        settled, seconds = self.board.numbers.settled, max(0.1, trio.current_time() - self.began)
        rate = (settled - self.at_first) / seconds
        return rate, (self.board.orders - settled) / rate if rate else float("inf")

    def summary(self) -> str:
        """The numbers in one line."""
        n = self.board.numbers
        return (
            f"charged {n.booked:,}, declined {n.declined:,}, malformed {n.poison:,}, for a person {n.held:,};"
            f" in work {n.in_work:,}, waiting {n.waiting:,}"
        )


@attrs.define
class PlainScreen(Screen):
    """Lines, for a log."""

    every: float = 2.0

    async def show(self, pool: Pool) -> None:
        self.board.say = self._say
        while pool.stop_report is None:
            self._line()
            with trio.move_on_after(self.every):
                await pool.wait_stopped()
        self._line()

    def _say(self, line: Line) -> None:
        self.console.print(
            f"  {line.who}: {line.text}", highlight=False, soft_wrap=True, markup=False
        )

    def _line(self) -> None:
        settled, orders = self.board.numbers.settled, self.board.orders
        rate, _ = self.rate()
        self.console.print(
            f"{settled:,} of {orders:,} ({rate:.0f}/s): {self.summary()}",
            highlight=False,
            soft_wrap=True,
        )


@attrs.define
class LiveScreen(Screen):
    """The whole picture, drawn anew several times a second. With `keep`, the busiest frame is remembered, for `save_svg`."""

    keep: bool = False
    _best: tuple[int, RenderableType] | None = None

    async def show(self, pool: Pool) -> None:
        # Rich's own refresh runs in a thread; here a task does it, and nothing can change while it looks.
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            while pool.stop_report is None:
                frame = self.frame(pool, rows=self.console.height)
                live.update(frame, refresh=True)
                if self.keep:
                    self._remember(pool)
                await trio.sleep(FRAME)

    def frame(self, pool: Pool, *, rows: int) -> RenderableType:
        """One picture, at most `rows` lines high."""
        table = self._table(pool, rows - 13)
        left = max(1, min(12, rows - table.row_count - 8))
        parts = [
            self._bar(pool),
            Text(self.summary()),
            self._pages(),
            "",
            table,
            "",
            self._latest(left),
        ]
        return Group(*parts)

    def _pages(self) -> RenderableType:
        links = Text("in a browser: ", "dim", no_wrap=True)
        for path in sorted(self.board.pages):
            links.append(self.board.url(path), f"cyan link {self.board.url(path)}")
            links.append("  ")
        return links if self.board.pages else Text("")

    def _bar(self, pool: Pool) -> RenderableType:
        settled, orders = self.board.numbers.settled, self.board.orders
        rate, left = self.rate()
        grid = Table.grid(padding=(0, 2))
        text = f"{settled:,} of {orders:,} orders · {rate:.0f}/s"
        if self.board.stopped_by.startswith("SIG"):
            text += f" · {self.board.stopped_by}: finishing what is in work"
        elif left < 3600:
            text += f" · {left:.0f} s left"
        grid.add_row(
            Text("payments", style="bold"),
            ProgressBar(total=orders, completed=settled, width=40),
            Text(text, no_wrap=True),
        )
        return grid

    def _table(self, pool: Pool, most: int) -> Table:
        table = Table(
            box=None, pad_edge=False, expand=True, header_style="dim", padding=(0, 2, 0, 0)
        )
        table.add_column("process and its workers", no_wrap=True, min_width=24)
        table.add_column("state", no_wrap=True, min_width=20)
        table.add_column("restarts", justify="right", no_wrap=True)
        table.add_column("last error", no_wrap=True, ratio=1, overflow="ellipsis")
        database = [] if self.board.database is None else self.board.database.workers()
        workers = [worker for worker in pool.workers() if worker.name in ("provider", "office")]
        now, processes = trio.current_time(), [*database, *workers]
        inside = [row for process in processes for row in self._inside(process)]
        for process in processes:
            table.add_row(*self._process(process, now))
            # Many processes in a small window: then only those inside of them are shown with whom something is wrong.
            for trouble, row in self._inside(process):
                if trouble or len(processes) + len(inside) <= most:
                    table.add_row(*row)
        return table

    def _process(self, worker: WorkerInfo, now: float) -> tuple[RenderableType, ...]:
        name = {"office": f"office {worker.replica}", "server": "database"}.get(
            worker.name, worker.name
        )
        pid = self.board.pids.get(worker.path)
        state = str(worker.phase or worker.state)
        if worker.next_restart is not None:
            state += f" in {max(0.0, worker.next_restart - now):.1f} s"
        text = f"{name}  (pid {pid})" if pid else name
        return _row(text, state, worker.restarts, str(worker.error or ""), bold=True)

    def _inside(self, worker: WorkerInfo) -> Iterator[tuple[bool, tuple[RenderableType, ...]]]:
        """The workers and breakers inside of a process, and of each if it is in trouble."""
        for row in self.board.rows.get(worker.path, []):
            inner = "/".join(part for part in row["path"].split("/")[1:] if not part.isdigit())
            shown = _row(f"  {inner}", row["state"], row["restarts"], row["error"])
            yield row["state"] in ("restarting", "failed"), shown
        for breaker, how in self.board.breakers.get(worker.path, {}).items():
            state = Text(f"● {how.replace('_', ' ')}", _BREAKERS[how])
            yield how != "closed", (Text(f"  breaker {breaker}", "dim"), state, "", "")

    def _latest(self, rows: int) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("ago", justify="right", no_wrap=True, min_width=6)
        table.add_column("where", no_wrap=True, min_width=9)
        table.add_column("what happened", no_wrap=True, overflow="ellipsis")
        now = trio.current_time()
        for line in list(self.board.lines)[-rows:][::-1]:
            table.add_row(
                f"{now - line.time:.1f} s",
                line.who,
                Text(line.text, "red" if line.bad else "yellow"),
            )
        return table

    def save_svg(self, path: Path) -> None:
        """Write the busiest frame as a picture."""
        if self._best is None:
            return
        paper = Console(record=True, width=118, file=io.StringIO(), force_terminal=True)
        paper.print(self._best[1])
        svg = paper.export_svg(title="python -m examples.payments", unique_id="payments")
        # Some viewers drop the spaces that indent the tree, unless they are told.
        svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
        # Rich asks for a font from the network, which a picture in a page cannot load.
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
        path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")

    def _remember(self, pool: Pool) -> None:
        if not 0.25 < self.board.numbers.settled / self.board.orders < 0.9:
            return
        down = [worker for worker in pool.workers() if worker.state == "restarting"]
        opened = sum("open" in states.values() for states in self.board.breakers.values())
        score = 3 * len(down) + 2 * opened
        if self._best is None or score > self._best[0]:
            self._best = score, self.frame(pool, rows=30)


def _row(
    name: str, state: str, restarts: int, error: str, *, bold: bool = False
) -> tuple[RenderableType, ...]:
    word = state.split(maxsplit=1)[0]
    return (
        Text(name, "bold" if bold else ""),
        Text(f"● {state}", _COLOURS.get(word, "")),
        Text(str(restarts), "yellow" if restarts else "dim"),
        Text(error.partition("\n")[0], "red" if word == "restarting" else "dim"),
    )
