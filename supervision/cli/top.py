"""Top: a running tree in the terminal, live.

Floor: above screen and client. The rule: it asks for a frame, draws, and waits for a key or for the next frame; whatever happens, the
terminal is left as it was found.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from supervision.cli.client import Client, client
from supervision.cli.detail import shown_detail
from supervision.cli.screen import Ask, Screen
from supervision.cli.words import DONE, Ended, colour, put, write
from supervision.signals import say

__all__ = ["keys_in", "top"]

FASTEST, SLOWEST = 0.25, 60.0
LOOK: Final = 0.5
"""Seconds at most until a changed size of the terminal is seen."""
_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}


def top(args: argparse.Namespace) -> int:
    """Show it until `q`, or once."""
    if args.once or args.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        if not (args.once or args.json):
            say("this is no terminal, so here is one screen")
        frame = client(args).get("/api/snapshot")
        if args.json:
            put(json.dumps(frame))
            return DONE
        screen = Screen()
        screen.take(frame)
        size = shutil.get_terminal_size((80, 24))
        for line in screen.text(size.columns, size.lines, bright=colour(sys.stdout), live=False):
            put(line)
        return DONE
    tree = client(args)  # said before the screen is taken
    with _terminal() as fd:
        try:
            _Loop(tree, args, fd).run()
        except KeyboardInterrupt:
            pass  # as good as q
    return DONE


class _Loop:
    """The live screen."""

    def __init__(self, tree: Client, args: argparse.Namespace, fd: int) -> None:
        self.tree = tree
        self.args = args
        self.fd = fd
        self.screen = Screen()
        self.every = min(max(args.every, FASTEST), SLOWEST)
        self.seen = time.monotonic()
        self.drawn: list[str] = []

    def run(self) -> None:
        due = 0.0
        while True:
            now = time.monotonic()
            if now >= due:
                self.look()
                due = time.monotonic() + self.every
            self.draw()
            wait = max(0.0, min(due - time.monotonic(), LOOK))
            if not select.select([self.fd], [], [], wait)[0]:
                continue
            data = os.read(self.fd, 1024)
            if not data:
                return  # the terminal is gone
            for key in keys_in(data.decode(errors="ignore")):
                ask = self.screen.key(key)
                if ask is not None and not self.obey(ask):
                    return
                due = due if ask is None else 0.0

    def look(self) -> None:
        try:
            self.screen.take(self.tree.get("/api/snapshot"))
            self.seen = time.monotonic()
        except Ended as end:
            self.screen.lost = time.monotonic() - self.seen
            self.screen.message = str(end)
            self.find_again()

    def find_again(self) -> None:
        # The same tree in a new process has a new socket.
        try:
            self.tree = client(self.args)
        except Ended:
            return

    def obey(self, ask: Ask) -> bool:
        """Do what a key asked for; False to end."""
        if ask.what == "quit":
            return False
        if ask.what == "every":
            self.every = min(max(self.every * ask.factor, FASTEST), SLOWEST)
            self.screen.message = f"every {self.every:g} s"
            return True
        try:
            if ask.what == "detail":
                detail: dict[str, Any] = self.tree.get("/api/detail", path=ask.path)
                self.screen.detail(shown_detail(detail))
            else:
                answer = self.tree.do(ask.verb, path=ask.path)
                failed = "; ".join(map(str, answer.get("failed", {}).values()))
                self.screen.message = failed or str(answer["said"])
        except Ended as end:
            self.screen.message = str(end)
        return True

    def draw(self) -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        text = self.screen.text(size.columns, size.lines, bright=colour(sys.stdout))
        if text == self.drawn:
            return
        self.drawn = text
        body = "".join(f"\x1b[{n};1H{line}\x1b[K" for n, line in enumerate(text, start=1))
        write(f"{body}\x1b[J" if len(text) < size.lines else body)
        sys.stdout.flush()


def keys_in(text: str) -> list[str]:
    """The keys that a terminal has sent."""
    found: list[str] = []
    while text:
        known = next(
            (s for s in _SEQUENCES if text.startswith(s) and (s != "\x1b" or len(text) == 1)), None
        )
        if known is not None:
            found.append(_SEQUENCES[known])
            text = text[len(known) :]
        elif text[0] == "\x1b":  # a sequence that means nothing here
            end = next(
                (n for n, c in enumerate(text[2:], start=2) if c.isalpha() or c == "~"), len(text)
            )
            text = text[end + 1 :]
        else:
            found.append(text[0])
            text = text[1:]
    return found


@contextmanager
def _terminal() -> Generator[int]:
    """A screen of its own and every key at once; afterwards all is as before."""
    try:
        import termios
        import tty
    except ImportError:
        raise Ended("live keys need a POSIX terminal here: use --once") from None
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[2J")
        sys.stdout.flush()
        yield fd
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
