"""The outbox example, run as a person runs it: in a process of its own, in real time."""

from __future__ import annotations

import signal
import sys
from functools import partial

import pytest
import trio

from tests.examples import kit

pytestmark = pytest.mark.slow
run = partial(kit.run, "outbox")


async def test_nothing_is_lost_and_nothing_doubled():
    """With crashes, hangs, lost answers and refusals, every order arrives, is booked once, and the exit code is 0."""
    code, output = await run("--seed", "7", "--orders", "100")

    assert code == 0, output
    assert "The proof holds: 100 of 100 orders received, each applied once." in output
    for happened in (
        "answers 503",
        "then crashes",
        "then hangs",
        "WatchdogExpired",
        "TimeoutError",
    ):
        assert happened in output
    assert "Traceback" not in output


async def test_ctrl_c_stops_in_order_and_the_next_run_goes_on(tmp_path):
    """A stop half way leaves a sound outbox, says so with exit code 130, and another run delivers the rest."""
    options = ("--db", str(tmp_path / "outbox.sqlite"), "--orders", "60")
    code, output = await run(*options, stop_at=b" failed: ")

    assert code == 130, output
    assert "SIGINT came first. The proof is partial, and sound" in output
    assert "in order: " in output
    code, output = await run(*options, "--no-chaos")
    assert code == 0, output
    assert "60 of 60 orders received" in output


async def test_sigterm_stops_in_order():
    """What a container sends is the same ordered stop, with its own exit code."""
    code, output = await run("--no-chaos", stop_at=b"received 0 of", by=signal.SIGTERM)

    assert code == 143, output
    assert "SIGTERM came first" in output


@pytest.mark.parametrize("name", ["quickstart", "embedded", "armour"])
async def test_the_small_examples_run_to_their_end(name):
    """Each prints something, and its exit code is 0."""
    with trio.fail_after(kit.LONGEST):
        done = await trio.run_process(
            [sys.executable, "-m", f"examples.{name}", "--fast"],
            capture_stdout=True,
            capture_stderr=True,
            cwd=kit.ROOT,
        )

    assert done.stdout
