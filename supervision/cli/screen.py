"""Screen: what `top` knows and shows: frames in, keys in, lines of text out.

Floor: above lines. Pure: no terminal, no clock, no connection. The rule: counters of the wire only grow, so rates are made here; a frame
of another process, or of one that began again, begins the rates again and is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from actors.records import Record, record
from supervision.cli.frames import rows
from supervision.cli.lines import SORTS, Line, lines
from supervision.cli.tables import age, cut, number, spark
from supervision.cli.words import some

__all__ = ["KEYS", "Ask", "Screen"]

KEPT: Final = 60
SPARK: Final = 8
SIGNS: Final = {"running": "●", "pending": "◌", "restarting": "◐", "stopped": "○", "failed": "✕", "disabled": "⊘"}  # fmt: skip
COLOURS: Final = {"running": "32", "pending": "90", "restarting": "33", "stopped": "90", "failed": "31;1", "disabled": "34"}  # fmt: skip
VERBS: Final = {
    "R": "restart",
    "S": "stop",
    "D": "drain",
    "X": "disable",
    "E": "enable",
    "A": "start",
}
KEYS: Final = (
    ("j k, arrows", "move"),
    ("space", "fold or unfold"),
    ("enter", "inspect; again, or q, to go back"),
    ("/", "show only paths with a text in them; escape shows all"),
    *((key, f"sort by {name}") for key, name in SORTS.items()),
    *((key, verb) for key, verb in VERBS.items()),
    ("p", "pause the picture"),
    ("+ -", "look more, or less often"),
    ("? q", "this help; quit"),
)
"""The keys of `top`."""


@record
class Ask(Record):
    """What a key wants of the terminal: a verb for a path, a detail, another interval, or the end."""

    what: str
    """`do`, `detail`, `every` or `quit`."""
    verb: str = ""
    path: str = ""
    factor: float = 1.0


class Screen:
    """The state of one viewer."""

    def __init__(self) -> None:
        self.frame: dict[str, Any] = {}
        self.message = ""
        self.paused = False
        self.lost: float | None = None
        """Seconds since a frame came, if that is too long ago."""
        self._last: dict[str, Any] = {}
        self._handled: dict[str, int] = {}
        self._rates: dict[str, deque[float]] = {}
        self._whole: deque[float] = deque(maxlen=KEPT)
        self._restarts: deque[tuple[float, int]] = deque()
        self._chosen = ""
        self._first = 0
        self._folded: set[str] = set()
        self._order = "tree"
        self._wanted = ""
        self._mode = "tree"
        self._asked: Ask | None = None
        self._detail: list[str] = []
        self._scrolled = 0

    # -- frames ----------------------------------------------------------------------------------

    def take(self, frame: dict[str, Any]) -> None:
        """A new frame has come."""
        last, self._last = self._last, frame
        self.lost = None
        again = bool(last) and (frame["pid"] != last["pid"] or frame["uptime"] < last["uptime"])
        if again:
            self.message = f"the process began again: pid {frame['pid']}"
            self._handled.clear()
            self._rates.clear()
            self._whole.clear()
            self._restarts.clear()
        self._measure(frame, 0.0 if again or not last else frame["time"] - last["time"])
        if not self.paused:
            self.frame = frame

    def _measure(self, frame: dict[str, Any], passed: float) -> None:
        found = [row for row in rows(frame) if row.kind == "worker"]
        handled = {row.path: row.handled or 0 for row in found}
        if passed > 0:
            total = 0.0
            for path, count in handled.items():
                rate = max(0, count - self._handled.get(path, count)) / passed
                self._rates.setdefault(path, deque(maxlen=KEPT)).append(rate)
                total += rate
            self._whole.append(total)
        for path in self._rates.keys() - handled.keys():
            del self._rates[path]
        self._handled = handled
        self._restarts.append((frame["time"], frame["totals"]["restarts"]))
        while frame["time"] - self._restarts[0][0] > 60:
            self._restarts.popleft()

    def detail(self, lines_of_it: Sequence[str]) -> None:
        """What was asked for by `enter` has come."""
        self._detail, self._scrolled = list(lines_of_it), 0
        self._mode = "detail"

    # -- keys ------------------------------------------------------------------------------------

    def key(self, key: str) -> Ask | None:
        """A key was pressed: what has to be done outside, if anything."""
        self.message = ""
        if self._mode == "filter":
            self._filter_key(key)
            return None
        if self._mode == "confirm":
            asked, self._asked, self._mode = self._asked, None, "tree"
            if key.lower() == "y":
                return asked
            self.message = "nothing was done"
            return None
        if self._mode in ("help", "detail"):
            if key in ("q", "enter", "escape", "?"):
                self._mode = "tree"
            most = max(0, len(self._detail) - 1)
            self._scrolled = min(max(0, self._scrolled + _STEPS.get(key, 0)), most)
            return None
        return self._tree_key(key)

    def _filter_key(self, key: str) -> None:
        if key in ("enter", "escape"):
            self._mode = "tree"
            self._wanted = "" if key == "escape" else self._wanted
        elif key == "backspace":
            self._wanted = self._wanted[:-1]
        elif len(key) == 1:
            self._wanted += key

    def _tree_key(self, key: str) -> Ask | None:
        line = self._line()
        if key == "q":
            return Ask(what="quit")
        if key in _STEPS:
            self._move(_STEPS[key])
        elif key in SORTS:
            self._order = SORTS[key]
        elif key == "p":
            self.paused = not self.paused
            self.frame = self._last
        elif key in ("+", "-"):
            return Ask(what="every", factor=0.5 if key == "+" else 2.0)
        elif key == "?":
            self._mode = "help"
        elif key == "/":
            self._mode, self._wanted = "filter", ""
        elif line is not None and key == " ":
            self._folded ^= {line.path} if line.kind != "replica" else set[str]()
        elif line is not None and key == "enter":
            return Ask(
                what="detail", path=line.path if line.kind == "supervisor" else line.rows[0].path
            )
        elif line is not None and key in VERBS:
            self._asked = Ask(what="do", verb=VERBS[key], path=line.path)
            self._mode = "confirm"
        return None

    def _lines(self) -> list[Line]:
        rates = {path: values[-1] for path, values in self._rates.items()}
        return lines(
            rows(self.frame),
            folded=self._folded,
            wanted=self._wanted,
            order=self._order,
            rates=rates,
        )

    def _line(self) -> Line | None:
        found = self._lines() if self.frame else []
        return next(
            (line for line in found if line.path == self._chosen), found[0] if found else None
        )

    def _move(self, by: int) -> None:
        paths = [line.path for line in self._lines()]
        if paths:
            at = paths.index(self._chosen) if self._chosen in paths else 0
            self._chosen = paths[min(max(0, at + by), len(paths) - 1)]

    # -- text ------------------------------------------------------------------------------------

    def text(self, width: int, height: int, *, bright: bool, live: bool = True) -> list[str]:
        """The screen as lines, `height` at most.

        Args:
            bright: whether escape sequences for colour may be in it.
            live: whether it is a screen with keys, or a print of it.
        """
        if not self.frame:
            return [cut("waiting for the first frame", width)]
        out = [cut(text, width) for text in self._head(width)]
        if self._mode == "help":
            out += [cut(f"  {keys:14} {meaning}", width) for keys, meaning in KEYS]
            return out[: height - 1] + ([self._foot(width)] if live else [])
        if self._mode == "detail":
            return [
                *[*out, *(cut(line, width) for line in self._detail[self._scrolled :])][
                    : height - 1
                ],
                self._foot(width),
            ]
        looks = self.frame["look"]
        room = max(1, min(5, height // 5))
        for look in looks[:room]:
            text = cut(f"! {look['path']} {look['text']}", width)
            out.append(
                _paint(
                    text, COLOURS["failed" if look["kind"] in _BAD else "restarting"], bright=bright
                )
            )
        more = max(self.frame.get("looks", 0), len(looks)) - room
        if more > 0:
            out.append(cut(f"! and {more} more that need a look", width))
        out.append(_paint(cut(_row(width, "NAME", "STATE", "MAILBOX", "MSG/S", "", "RST", "SINCE", "LAST ERROR"), width), "7" if live else "1", bright=bright))  # fmt: skip
        space = max(0, height - len(out) - 1) if live else 10**9
        out += self._body(width, space, bright=bright, live=live)
        return [*out[: height - 1], self._foot(width)] if live else out

    def _head(self, width: int) -> list[str]:
        frame = self.frame
        totals, health = frame["totals"], frame["health"]
        counts = " ".join(f"{n}{SIGNS.get(state, '?')}" for state, n in frame["counts"].items())
        how = "" if frame["mode"] == "live" else f"  {frame['mode'].upper()}"
        probes = f"live {'OK' if health['live']['ok'] else 'NO'}  ready {'OK' if health['ready']['ok'] else 'NO'}"
        first = f"{frame['tree']}  up {age(frame['uptime'])}  pid {frame['pid']}{how}  {probes}"
        rate = f"{number(self._whole[-1])} msg/s  " if self._whole else ""
        recent = self._restarts[-1][1] - self._restarts[0][1] if self._restarts else 0
        second = (
            f"{some(sum(frame['counts'].values()), 'replica')}  {counts}  {rate}{number(totals['queued'])} queued"
            f"  {recent} restarts/min"
        )
        letters = totals["dead_letters"]
        tail = f"  {number(letters)} dead letters" if letters else ""
        if len(first) + len(second) + 3 <= width:
            return [f"{first}   {second}{tail}"]
        return [first, f"{second}{tail}"]

    def _body(self, width: int, space: int, *, bright: bool, live: bool) -> list[str]:
        found = self._lines()
        chosen = self._line()
        at = found.index(chosen) if chosen is not None else 0
        self._first = max(min(self._first, at), at - space + 1, 0)
        most = max((rate for values in self._rates.values() for rate in values), default=0.0)
        out: list[str] = []
        for line in found[self._first : self._first + space]:
            text = cut(self._cells(line, width, most), width)
            if live and line is chosen:
                out.append(_paint(text.ljust(width), "7", bright=bright) if bright else text)
            else:
                before, state, after = text.partition(f" {line.state}")
                out.append(f"{before} {_paint(state[1:], COLOURS.get(line.sort, ''), bright=bright)}{after}" if state else text)  # fmt: skip
        return out

    def _cells(self, line: Line, width: int, most: float) -> str:
        values = [self._rates[row.path] for row in line.rows if row.path in self._rates]
        rate = sum(history[-1] for history in values)
        one = line.rows[0] if line.kind == "replica" else None
        history = list(values[0]) if one is not None and values else []
        box = f"{one.queued}/{'inf' if one.capacity is None else one.capacity}" if one is not None else number(line.queued or None)  # fmt: skip
        full = one is not None and one.capacity and (one.queued or 0) >= 0.8 * one.capacity
        return _row(
            width,
            line.label,
            line.state,
            f"{box}!" if full else box,
            number(rate) if values else "",
            spark(history, most, SPARK) if most else "",
            number(sum(row.restarts for row in line.rows)),
            age(one.since) if one is not None else "",
            (one.error or "") if one is not None else "",
        )

    def _foot(self, width: int) -> str:
        if self._mode == "confirm" and self._asked is not None:
            return cut(f"{self._asked.verb} {self._asked.path}? y/n", width)
        if self._mode == "filter":
            return cut(f"/{self._wanted}_", width)
        if self.lost is not None:
            return cut(f"lost the connection {age(self.lost)} ago, the picture is frozen", width)
        if self.message:
            return cut(self.message, width)
        if self._mode == "detail":
            return cut("j/k scroll  q back", width)
        state = "PAUSED  " if self.paused else ""
        only = f"only '{self._wanted}'  " if self._wanted else ""
        keys = "j/k move  space fold  enter inspect  / filter  R restart  S stop  ? help  q quit"
        return cut(f"{state}{only}{keys}", width)


_STEPS: Final = {"j": 1, "down": 1, "k": -1, "up": -1, "page down": 10, "page up": -10}
_BAD: Final = ("failed", "stuck", "loop")


def _row(width: int, name: str, state: str, box: str, rate: str, bars: str, restarts: str, since: str, error: str) -> str:  # fmt: skip
    """One line; names get what is left of the width, errors what is beyond 100 columns."""
    wide = max(16, min(width, 100) - 58)
    text = (
        f"{cut(name, wide):{wide}}  {cut(state, 13):13}  {cut(box, 9):>9}  {cut(rate, 6):>6} {bars:{SPARK}}"
        f"  {cut(restarts, 4):>4}  {cut(since, 6):>6}"
    )
    return f"{text}  {error}".rstrip() if width > 100 else text.rstrip()


def _paint(text: str, sign: str, *, bright: bool) -> str:
    return f"\x1b[{sign}m{text}\x1b[0m" if bright and sign and text else text
