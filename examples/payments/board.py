"""The board: what the processes tell and what happens to them, kept for the screen, the chaos and the report."""

from __future__ import annotations

import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import attrs
import trio

from actors import Event
from examples.payments.books import Numbers
from supervision import Pool
from supervision.events import Failed, StopRequested

__all__ = ["Board", "Line"]


@attrs.frozen
class Line:
    """One thing that happened."""

    time: float
    who: str
    text: str
    bad: bool


@attrs.define
class Board:
    """Filled by `Program` and by the demo's own tree, read by everybody."""

    numbers: Numbers = attrs.field(factory=Numbers)
    orders: int = 0
    """How many there are to come, as far as is known."""
    port: int = 0
    """Of the provider; 0 until it was there for the first time."""
    pages: dict[str, int] = attrs.field(factory=dict)
    """Ports at which processes show their trees, by the path of their workers; the same in all of their lives."""
    pids: dict[str, int] = attrs.field(factory=dict)
    """Of the processes that live, by the path of their workers."""
    rows: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict)
    """The workers inside of each process, as it last told."""
    breakers: dict[str, dict[str, str]] = attrs.field(factory=dict)
    lines: deque[Line] = attrs.field(factory=lambda: deque(maxlen=100))
    counts: Counter[str] = attrs.field(factory=Counter)
    database: Pool | None = None
    """The tree that keeps a PostgreSQL server, if this demonstration has one of its own."""
    crash: Callable[[], None] | None = None
    """Ends that server as a power cut would."""
    stopped_by: str = ""
    """Who or what asked the demonstration to stop."""
    say: Callable[[Line], object] | None = None

    def page(self, path: str) -> int:
        """The port at which a process is to show its tree."""
        if path not in self.pages:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.pages[path] = free.getsockname()[1]
            self.happened(path, f"shows its tree at {self.url(path)}")
        return self.pages[path]

    def url(self, path: str) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.pages[path]}"

    def began(self, path: str, pid: int) -> None:
        """A process was started."""
        self.pids[path] = pid

    def ended(self, path: str) -> None:
        """It is gone."""
        self.pids.pop(path, None)
        self.rows.pop(path, None)
        self.breakers.pop(path, None)

    def heard(self, path: str, message: dict[str, Any]) -> None:
        """It told something."""
        if "port" in message:
            self.port = message["port"]
        if "rows" in message:
            self.rows[path] = message["rows"]
            self.breakers[path] = message["breakers"]
        if "kind" in message:
            self.counts[message["kind"]] += 1
        if "happened" in message:
            self.happened(path, message["happened"])

    def listen(self, event: Event) -> None:
        """What happens in the trees of this process."""
        if isinstance(event, Failed):
            self.happened(event.path, f"failed: {event.error}".partition(" (")[0])
        elif isinstance(event, StopRequested) and event.path == "demo":
            self.stopped_by = event.why
            self.happened(
                event.path,
                f"is asked to stop ({event.why}): what is in work is finished, a second signal does not wait for it",
            )

    def happened(self, path: str, text: str) -> None:
        """Something to show."""
        tree, name, number = (*path.split("/"), "", "")[:3]
        who = (
            f"office {number}"
            if name == "office"
            else "database"
            if tree == "database"
            else name or tree
        )
        line = Line(trio.current_time(), who, text, bad="fail" in text or "kill" in text)
        self.lines.append(line)
        if self.say is not None:
            self.say(line)
