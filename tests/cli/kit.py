"""A small application for the command line, and ways to run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from actors import Actor, Context
from supervision import Pool, RestartPolicy, Supervisor, Worker, supervisor
from supervision.__main__ import main
from supervision.observer import Observer

ROOT = Path(__file__).parent.parent.parent
LONGEST = 60
"""Seconds after which a child process is given up; none of them comes near."""

APP = """
import sys
import time

import trio

from actors import Actor
from supervision import RestartPolicy, Supervisor, Worker

ONCE = RestartPolicy(max_restarts=1, initial_backoff=0)


def say(text):
    print(text, flush=True)


async def idle(ctx):
    say("running")
    await ctx.sleep(float("inf"))
    say("stopped")


async def brief(ctx):
    say("done")


async def broken(ctx):
    raise ValueError("out of paper")


async def deaf(ctx):
    with trio.CancelScope(shield=True):
        say("running")
        await trio.sleep_forever()


async def blocking(ctx):
    for _ in range(50):  # until everything about the start is settled
        await trio.lowlevel.checkpoint()
    say("running")
    time.sleep(600)


async def busy(ctx):
    with ctx.busy():
        say("running")
        await trio.sleep_forever()


async def interrupt(ctx):
    raise KeyboardInterrupt


async def leave(ctx):
    sys.exit(7)


class Orders(Actor):
    pass


class Needy(Actor):
    def __init__(self, settings: dict):
        say(f"settings: {settings}")

    async def started(self, ctx):
        ctx.stop()


def registry():
    import svcs

    made = svcs.Registry()
    made.register_value(dict, {"a": 1})
    return made


def one(run, **options):
    return Supervisor("shop", [Worker("work", run, restart=ONCE, **options)])


tree = Supervisor(
    "shop",
    [
        Worker("outbox", idle, replicas=4),
        Supervisor("billing", [Worker("orders", Orders, watchdog=9)], strategy="one_for_all"),
    ],
)
idling, brevity, breaking, busying = one(idle), one(brief), one(broken), one(busy)
deafness, block, unready = one(deaf, shutdown=0), one(blocking), one(broken, ready="signal")
interrupting, leaving, needy = one(interrupt), one(leave), one(Needy)
number = 3


def make():
    return tree


def explode():
    raise RuntimeError("no database")


def wants(something):
    return tree


async def later():
    return tree


def wrong():
    return Worker("a b", idle)
"""


def environment(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """The variables of a child process: ours out, the packages in."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TREEWARDEN_")}
    return {**clean, "PYTHONPATH": str(ROOT), **extra}


def command(*args: str) -> list[str]:
    """The command line as a module of this very Python."""
    return [sys.executable, "-m", "supervision", *args]


def run(where: Path, *args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*args),
        cwd=where,
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


def start(where: Path, *args: str, **extra: str) -> subprocess.Popen[str]:
    """Start a command and come back when its worker says that it runs."""
    child = subprocess.Popen(
        command(*args),
        cwd=where,
        env=environment(extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    return child


class Work(Actor):
    """Handles texts; `fail` makes it fail, `hang` keeps it busy."""

    async def handle(self, message: object) -> None:
        if message == "fail":
            raise ValueError("out of paper")
        if message == "hang":
            await trio.sleep_forever()


async def idle(ctx: Context) -> None:
    """Waits for the stop."""
    await ctx.sleep(float("inf"))


def shop() -> Supervisor:
    """A tree for the commands that ask a running one."""
    once = RestartPolicy(max_restarts=1, initial_backoff=0)
    return Supervisor(
        "shop",
        [
            Worker("work", Work, replicas=2, restart=once, on_failed="hold", shutdown=0),
            Supervisor("mail", [Worker("smtp", idle), Worker("spare", idle, enabled=False)]),
        ],
    )


@asynccontextmanager
async def served(
    tree: Supervisor, where: str, *, wait_ready: bool = True, **options: Any
) -> AsyncIterator[Pool]:
    """`tree` with an observer at `where`, as the program that is asked."""
    seen = Observer(where, **{"actions": True, **options})
    with trio.fail_after(LONGEST):
        async with supervisor.running(
            tree, observer=seen, log=False, wait_ready=wait_ready
        ) as pool:
            yield pool


async def ask(*args: str) -> int:
    """Run a command beside the tree and return its exit code; what it says goes where the test reads it."""

    def command_line() -> int:
        try:
            return main(args)
        except SystemExit as end:
            return int(end.code or 0)

    return await trio.to_thread.run_sync(command_line)
