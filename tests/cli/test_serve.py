"""`serve` in a process of its own: exit codes, signals, and the hard exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kit import LONGEST, command, environment, run, start

FULL = Path("/dev/full")
SECOND = "a second signal cancels at once"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


def test_a_tree_that_is_done_exits_with_0(app) -> None:
    """When every child has ended for good the process ends well."""
    done = run(app, "serve", "app:brevity")

    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_tree_that_fails_exits_with_1(app) -> None:
    """The last line says in one sentence what failed; the log has the failures before it."""
    done = run(app, "serve", "app:breaking")
    *log, last = done.stderr.splitlines()

    assert done.returncode == 1
    assert last.startswith("treewarden: the tree shop failed: shop/work/0 used up its limit")
    assert "out of paper" in last
    assert any("shop/work/0 restarts at once" in line for line in log)


def test_a_strict_start_that_fails_exits_with_1(app) -> None:
    """With --start strict the first failure ends it, without a restart."""
    done = run(app, "serve", "app:unready", "--start", "strict", "--log-level", "error")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("treewarden: shop/work/0 failed to start")
    assert "restarts" not in done.stderr


def test_a_bad_configuration_exits_with_2(app) -> None:
    """Nothing starts, and each problem is named."""
    done = run(app, "serve", "app:brevity", TREEWARDEN_WORKER_WORKERS__WORK__REPLICAS="x")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "treewarden: variable TREEWARDEN_WORKER_WORKERS__WORK__REPLICAS:"
        " worker.workers.WORK.replicas must be a whole number, not 'x'\n"
    )


def test_services_come_from_the_command_line(app) -> None:
    """With --services constructors get what they need."""
    done = run(app, "serve", "app:needy", "--services", "app:registry")

    assert done.stdout == "settings: {'a': 1}\n"


@pytest.mark.parametrize(("name", "code"), [("interrupting", 130), ("leaving", 7)])
def test_what_ends_a_program_ends_it_here_too(app, name: str, code: int) -> None:
    """A worker's KeyboardInterrupt and SystemExit keep their meaning."""
    done = run(app, "serve", f"app:{name}")

    assert done.returncode == code
    assert "Traceback" not in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_stops_in_order(app, number: signal.Signals) -> None:
    """One signal is an ordered stop: said on stderr, and exit code 0."""
    child = start(app, "serve", "app:idling")
    child.send_signal(number)
    out, err = child.communicate(timeout=LONGEST)

    assert (child.returncode, out) == (0, "stopped\n")
    assert f"treewarden: {number.name}: stopping in order within 15 s; {SECOND}\n" in err


def test_the_second_signal_cancels(app) -> None:
    """Work in hand that the first signal waits for is cancelled by the second: both speak, and the exit code is 130."""
    child = start(
        app,
        "serve",
        "app:busying",
        "--stop-timeout",
        "inf",
        TREEWARDEN_WORKER_WORKERS__WORK__SHUTDOWN="inf",
    )
    child.send_signal(signal.SIGTERM)
    assert child.stderr is not None
    lines = [child.stderr.readline()]
    while SECOND not in lines[-1]:
        lines.append(child.stderr.readline())
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=LONGEST)

    assert child.returncode == 130
    assert "treewarden: SIGINT again: cancelling whatever still runs\n" in err


def test_a_run_that_ignores_its_end_is_left_by_a_hard_exit(app) -> None:
    """With --kill-after a stuck run is named and the process exits with 1."""
    child = start(app, "serve", "app:deafness", "--stop-timeout", "0.1", "--kill-after", "0.2")
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=LONGEST)

    assert child.returncode == 1
    assert (
        "treewarden: exiting hard, 0.2 s after the stop deadline; still running: shop/work/0\n"
        in err
    )


def test_a_blocked_event_loop_is_left_by_a_hard_exit(app) -> None:
    """Even if a worker blocks everything, the signal speaks and the process ends, saying where it was."""
    child = start(app, "serve", "app:block", "--stop-timeout", "0.1", "--kill-after", "0.2")
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=LONGEST)

    assert child.returncode == 1
    assert "treewarden: SIGTERM: stopping in order" in err
    assert "still running: shop/work/0; the event loop is held up by blocking (app.py:" in err


FILE = """
import os, signal
from supervision import Supervisor, Worker

first = open("data", "wb", buffering=0)

async def work(ctx):
    os.kill(os.getpid(), signal.SIGTERM)
    await ctx.sleep(60)

tree = Supervisor("shop", [Worker("work", work)])
"""


@pytest.mark.parametrize("closed", [(2,), (1, 2), (0, 1, 2)])
def test_what_is_said_goes_into_no_file_of_the_program(app, closed) -> None:
    """Started without stderr, the next file that is opened does not become it; the exit code is that of the tree."""
    (app / "other.py").write_text(FILE)

    def close() -> None:
        for number in closed:
            os.close(number)

    done = subprocess.run(
        command("serve", "other:tree"),
        preexec_fn=close,
        timeout=LONGEST,
        env=environment({}),
        check=False,
    )

    assert done.returncode == 0
    assert (app / "data").read_bytes() == b""


@pytest.mark.skipif(not FULL.exists(), reason="needs a disk that is full")
def test_output_that_is_lost_is_an_error(app) -> None:
    """A full disk is one sentence and exit code 1, not a traceback."""
    with FULL.open("w") as full:
        done = subprocess.run(
            command("check", "app:tree"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LONGEST,
            env=environment({}),
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "treewarden: the output cannot be written: No space left on device\n"
