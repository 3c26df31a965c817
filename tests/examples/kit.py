"""Running an example as a person runs it: in a process of its own, in real time."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import trio

ROOT = Path(__file__).parents[2]
LONGEST = 120
"""Seconds after which a run hangs; a good one takes a tenth of it."""


async def run(
    name: str, *options: str, stop_at: bytes | None = None, by: signal.Signals = signal.SIGINT
) -> tuple[int | None, str]:
    """Run the example, send it a signal when `stop_at` is printed; returns exit code and output."""
    command = [sys.executable, "-u", "-m", f"examples.{name}", "--fast", *options]
    output = b""
    with trio.fail_after(LONGEST):
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    check=False,
                    cwd=ROOT,
                )
            )
            assert process.stdout is not None
            async for chunk in process.stdout:
                output += chunk
                if stop_at is not None and stop_at in output:
                    stop_at = None
                    process.send_signal(by)
    return process.returncode, output.decode()
