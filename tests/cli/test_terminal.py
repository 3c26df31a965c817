"""`serve` and `top` in a real terminal: what is seen, and what Ctrl-C does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.kit import LONGEST, ROOT

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
    pytest.mark.slow,
]
APP = """
import trio
from actors import Actor
from supervision import Supervisor, Worker, RestartPolicy

async def idle(ctx):
    print("idle runs", flush=True)
    await ctx.sleep(float("inf"))
    print("idle is done", flush=True)

async def stubborn(ctx):
    with ctx.busy():
        print("stubborn runs", flush=True)
        await trio.sleep_forever()

class Fetch(Actor):
    async def handle(self, message):
        pass

async def feed(ctx):
    while await ctx.sleep(0.01):
        ctx.find("fetch").tell_nowait("x")

async def broken(ctx):
    raise ValueError("bad payload")

ONCE = RestartPolicy(max_restarts=1, initial_backoff=0)
calm = Supervisor("shop", [Worker("idle", idle)])
busy = Supervisor("shop", [Worker("stubborn", stubborn, shutdown=3600)])
tree = Supervisor("shop", [
    Worker("fetch", Fetch, replicas=4),
    Worker("feed", feed),
    Worker("smtp", broken, restart=ONCE, on_failed="hold"),
])
"""


class Terminal:
    """One terminal of 80 columns, in a tmux server of its own."""

    def __init__(self, where: Path, columns: int = 80, lines: int = 24) -> None:
        self.name = f"tw-{uuid.uuid4().hex[:8]}"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TREEWARDEN_", "TMUX"))}
        self.environment = {
            **clean,
            "PYTHONPATH": str(ROOT),
            "TERM": "screen-256color",
            "LC_ALL": "C.UTF-8",
        }
        self.where = where
        size = ("-x", str(columns), "-y", str(lines))
        self("-f", "/dev/null", "new-session", "-d", *size, "-s", "t", "env PS1='$ ' sh")

    def __call__(self, *args: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self.name, *args],
            cwd=self.where,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=True,
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        """Press keys, as tmux names them."""
        self("send-keys", "-t", "t", *keys)

    def run(self, *args: str) -> None:
        """Run a command of ours, and say its exit code when it ends."""
        command = shlex.join([sys.executable, "-m", "supervision", *args])
        self.type(f"{command}; echo exit code $?", "Enter")

    def screen(self) -> str:
        """What is to be seen."""
        return self("capture-pane", "-p", "-t", "t")

    def history(self) -> str:
        """All that was printed, joined where the terminal broke it."""
        return self("capture-pane", "-p", "-J", "-S", "-500", "-t", "t")

    def until(self, shown: str | Callable[[str], bool], *, history: bool = False) -> str:
        """Wait until a pattern is on the screen, or something is true of it."""
        end = time.monotonic() + LONGEST
        while True:
            text = self.history() if history else self.screen()
            if shown(text) if callable(shown) else re.search(shown, text):
                return text
            assert time.monotonic() < end, f"waited for {shown!r}; on the screen is:\n{text}"
            time.sleep(0.05)

    def close(self) -> None:
        """End it with all that runs in it."""
        subprocess.run(["tmux", "-L", self.name, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def terminals(app) -> Iterator[Callable[..., Terminal]]:
    """Makes terminals in the folder of the application."""
    (app / "app.py").write_text(APP)
    made: list[Terminal] = []

    def open_terminal(**size: int) -> Terminal:
        made.append(Terminal(app, **size))
        return made[-1]

    yield open_terminal
    for terminal in made:
        terminal.close()


def test_ctrl_c_stops_in_order(terminals) -> None:
    """The first Ctrl-C says what it does, workers end by themselves, and the exit code is 0."""
    terminal = terminals()
    terminal.run("serve", "app:calm")
    terminal.until("idle runs", history=True)
    terminal.type("C-c")
    text = terminal.until(r"exit code \d", history=True)

    assert "SIGINT: stopping in order within 15 s; a second signal cancels at once" in text
    assert text.index("stopping in order") < text.index("idle is done")
    assert "exit code 0" in text


def test_ctrl_c_twice_cancels(terminals) -> None:
    """The second Ctrl-C says so, does not wait for work in hand, and the exit code is 130."""
    terminal = terminals()
    terminal.run("serve", "app:busy", "--stop-timeout", "inf")
    terminal.until("stubborn runs", history=True)
    terminal.type("C-c")
    terminal.until("stopping in order; a second signal cancels at once", history=True)
    terminal.type("C-c")
    text = terminal.until(r"exit code \d", history=True)

    assert "SIGINT again: cancelling whatever still runs" in text
    assert "exit code 130" in text


def test_top_shows_the_tree_live(terminals) -> None:
    """In 80 columns: the tree, what needs a look, messages per second; keys work; `q` leaves the terminal as it was."""
    first, second = terminals(), terminals()
    first.run("serve", "app:tree")
    first.until(r"can be seen at unix:", history=True)
    second.run("top", "--every", "0.25")

    text = second.until(r"[1-9]\d* msg/s")
    assert re.search(
        r"^! shop/smtp/0 failed after 2 failures: ValueError: bad payload", text, re.MULTILINE
    )
    assert re.search(r"^├─ fetch x4 +running", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80

    second.type("j", "Space")
    second.until(r"├─ \+ fetch x4")
    second.type("j", "j", "Enter")
    second.until(r"run 2 failed at [\s\S]*raise ValueError")
    second.type("q", "X")
    second.until(r"disable shop/smtp/0\? y/n")
    second.type("y")
    second.until(r"smtp +disabled")
    second.type("q")
    assert "fetch" not in second.until(r"exit code 0").partition("exit code")[2]
    second.run("status", "smtp")
    assert "exit code 3" in second.until(r"exit code 3")
    first.type("C-c")
    first.until(r"exit code 0", history=True)


def test_top_says_when_the_process_is_gone(terminals) -> None:
    """The picture stays and says that it is frozen; when the tree is back, it goes on."""
    first, second = terminals(), terminals(columns=100)
    first.run("serve", "app:calm")
    first.until(r"can be seen at unix:", history=True)
    second.run("top", "--every", "0.25")
    second.until(r"└─ idle +running")
    first.type("C-c")
    second.until(r"lost the connection .* ago, the picture is frozen")
    first.run("serve", "app:tree")
    second.until(r"the process began again: pid \d+")
    second.until(r"├─ fetch x4")
    second.type("C-c")
    second.until(r"exit code 0")


def test_top_once_and_where_there_is_no_terminal(terminals) -> None:
    """`--once` prints one screen and ends; so it does where its output is no terminal."""
    first, second, third = terminals(), terminals(), terminals()
    first.run("serve", "app:tree")
    first.until(r"can be seen at unix:", history=True)
    second.run("top", "--once")
    text = second.until(r"exit code 0")
    assert re.search(r"^├─ fetch x4 +running", text, re.MULTILINE)
    assert "j/k move" not in text

    command = shlex.join([sys.executable, "-m", "supervision", "top"])
    third.type(f"{command} | cat -A; echo all", "Enter")
    text = third.until(r"(?m)^all$")
    assert "feed" in text
    assert "^[" not in text
    assert "this is no terminal" in text


def test_stopping_the_whole_tree_asks_first(terminals) -> None:
    """On a terminal it asks: anything but y leaves the tree alone, y stops it."""
    first, second, third = terminals(), terminals(), terminals()
    first.run("serve", "app:calm")
    first.until("idle runs", history=True)
    second.run("stop")
    second.until("Go on", history=True)
    second.type("Enter")
    assert "nothing was done" in second.until(r"exit code 1", history=True)
    third.run("stop")
    third.until("Go on", history=True)
    third.type("y", "Enter")
    third.until(r"exit code 0", history=True)
    first.until(r"exit code 0", history=True)


def test_a_stop_that_takes_long_says_what_it_waits_for(terminals) -> None:
    """While a person waits, a line from time to time tells for what, and how long it may take."""
    terminal = terminals()
    terminal.run("serve", "app:busy", "--stop-timeout", "40")
    terminal.until("stubborn runs", history=True)
    terminal.type("C-c")
    terminal.until(
        r"stopping: waiting for shop/stubborn/0, \d+ s left; a second signal cancels", history=True
    )
    terminal.type("C-c")
    terminal.until(r"exit code 130", history=True)
