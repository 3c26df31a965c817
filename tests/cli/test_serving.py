"""`serve` as others see it: the control socket, the observer, the process manager."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from functools import partial
from math import inf
from pathlib import Path

import pytest
import trio

from supervision import Supervisor, Worker, supervisor
from supervision.__main__ import main
from supervision.cli import serving
from supervision.cli.parser import understand
from tests.cli.kit import LONGEST, idle, run, start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


def stop(child) -> str:
    """Stop it in order; returns what it said on stderr."""
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=LONGEST)
    assert child.returncode == 0, err
    return err


def folder() -> Path:
    return Path(os.environ["XDG_RUNTIME_DIR"]) / "treewarden"


def test_serve_opens_a_control_socket(app) -> None:
    """It lies in the run folder, for this user alone, named after tree and process; it goes with the process."""
    child = start(app, "serve", "app:idling")
    (path,) = folder().iterdir()
    assert path.name == f"shop-{child.pid}.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    status = run(app, "status", "--json")
    assert json.loads(status.stdout)["pid"] == child.pid

    assert f"shop can be seen at unix:{path}" in stop(child)
    assert list(folder().iterdir()) == []


def test_stop_from_another_terminal(app) -> None:
    """`treewarden stop --yes` stops it in order, and `serve` ends well."""
    child = start(app, "serve", "app:idling")
    assert run(app, "stop", "--yes").returncode == 0
    out, _ = child.communicate(timeout=LONGEST)

    assert (child.returncode, out) == (0, "stopped\n")


def test_no_control_opens_none(app) -> None:
    """With --no-control nothing is opened, and nobody can ask."""
    child = start(app, "serve", "app:idling", "--no-control")
    assert not folder().exists()
    assert run(app, "status").returncode == 4
    assert "can be seen" not in stop(child)


def test_a_socket_of_ones_own_choice(app) -> None:
    """--socket says where it is, for `serve` and for those who ask."""
    child = start(app, "serve", "app:idling", TREEWARDEN_SOCKET="here.sock")
    assert run(app, "health", "ready", TREEWARDEN_SOCKET="here.sock").returncode == 0
    second = run(app, "serve", "app:idling", TREEWARDEN_SOCKET="here.sock")
    assert second.returncode == 2
    assert "here.sock" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    stop(child)
    assert not (app / "here.sock").exists()


def test_an_observer_for_others(app) -> None:
    """--observer shows the tree at an address too; to act there takes the token."""
    child = start(
        app, "serve", "app:idling", "--observer", "127.0.0.1:0", "--token", "a-long-secret"
    )
    where = run(app, "events", "--level", "debug")
    assert where.returncode == 0
    assert child.stderr is not None
    line = child.stderr.readline()
    url = next(word for word in line.replace(",", " ").split() if word.startswith("http://"))

    assert run(app, "status", "--url", url).returncode == 0
    assert run(app, "restart", "work", "--url", url).returncode == 5
    assert run(app, "restart", "work", "--url", url, "--token", "a-long-secret").returncode == 0
    stop(child)


def test_the_observer_gets_its_options(app, monkeypatch) -> None:
    """Flags and variables that may hold several words reach it; over the socket its user may act without a token."""
    monkeypatch.setenv("TREEWARDEN_ALLOW_HOST", "ops.example.org, shop.example.org")
    args = understand(["serve", "--require", "bank", "--require", "mail stripe", "--show-messages"])
    seen = serving._observer(args, Path("/run/s"))

    assert seen.address == ("unix:/run/s",)
    assert seen.required == ("bank", "mail", "stripe")
    assert seen.allowed_hosts == ("ops.example.org", "shop.example.org")
    assert (seen.show_messages, seen.actions, seen.token) == (True, True, None)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--observer", "nowhere"], "an address is"),
        (
            ["--observer", "127.0.0.1:0", "--token", "short"],
            "token is a text of 8 plain characters",
        ),
    ],
)
def test_an_observer_that_cannot_be(app, args: list[str], says: str) -> None:
    """A wrong address or token is one sentence, exit code 2, and nothing starts."""
    done = run(app, "serve", "app:idling", *args)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_address_in_use(app) -> None:
    """The tree is not started; the address is named."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = run(app, "serve", "app:idling", "--observer", address)

    assert (done.returncode, done.stdout) == (2, "")
    assert address in done.stderr.splitlines()[-1]


def test_without_the_extra_a_tree_is_served_all_the_same(app, capfd, monkeypatch) -> None:
    """Where the web stack is not installed there is no socket; who asks for one is told what to install."""
    monkeypatch.setattr(serving, "find_spec", lambda name: None)

    assert main(["serve", "app:brevity"]) == 0
    assert not folder().exists()
    capfd.readouterr()
    assert main(["serve", "app:brevity", "--socket", "s"]) == 2
    assert "pip install 'treewarden[observer]'" in capfd.readouterr().err


def test_a_run_folder_that_is_not_ours(app, capfd) -> None:
    """It is said, and the tree is served without a control socket."""
    folder().symlink_to(app)

    assert main(["serve", "app:brevity"]) == 0
    err = capfd.readouterr().err
    assert "there is no control socket" in err
    assert "remove it, or give --socket PATH" in err


def test_the_process_manager_is_told(app, tmp_path) -> None:
    """READY, STATUS, WATCHDOG and STOPPING reach the socket in NOTIFY_SOCKET, from a real process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "n"))
        manager.settimeout(LONGEST)
        told: list[str] = []

        def until(line: str) -> None:
            while line not in told:
                told.extend(manager.recv(4096).decode().splitlines())

        child = start(
            app,
            "serve",
            "app:idling",
            NOTIFY_SOCKET=str(tmp_path / "n"),
            WATCHDOG_USEC="300000",
        )
        until("READY=1")
        until("STATUS=1 running; ok")
        until("WATCHDOG=1")
        child.send_signal(signal.SIGTERM)
        until("STOPPING=1")
        until("STATUS=stopped")
        child.communicate(timeout=LONGEST)

    assert child.returncode == 0
    assert told.index("READY=1") < told.index("STOPPING=1")


async def test_a_start_that_takes_long_says_what_it_waits_for(autojump_clock, capfd) -> None:
    """Every ten seconds a line on stderr tells how far it is, and the end of it is silent."""

    async def slow(ctx):
        await ctx.sleep(25)
        ctx.started()
        await ctx.sleep(100)

    tree = Supervisor("shop", [Worker("a", idle), Worker("slow", slow, ready="signal")])
    async with (
        supervisor.running(tree, wait_ready=False, log=False) as pool,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(partial(serving.narrate, pool, stop_timeout=15))
        await trio.sleep(95)
        pool.request_stop()

    line = "treewarden: started 1 of 2, waiting for shop/slow/0\n"
    assert capfd.readouterr().err == line * 2


async def test_a_stop_that_takes_long_counts_down(autojump_clock, capfd) -> None:
    """What is waited for, and how long it may take; nothing of that if there is no limit."""

    async def lingering(ctx):
        with ctx.busy():
            await trio.sleep(25)

    for limit, rest in ((40, [", 30 s left", ", 20 s left"]), (inf, ["", ""])):
        tree = Supervisor("shop", [Worker("a", lingering, shutdown=inf)])
        async with supervisor.running(tree, log=False, stop_timeout=limit) as pool:
            pool.request_stop()
            await serving.narrate(pool, stop_timeout=limit)
        assert capfd.readouterr().err.splitlines() == [
            f"treewarden: stopping: waiting for shop/a/0{text}; a second signal cancels"
            for text in rest
        ]


def test_kill_after_0_speaks_of_the_deadline(app) -> None:
    """A hard exit at the very deadline is not told as 0 seconds after it."""
    child = start(app, "serve", "app:deafness", "--stop-timeout", "0.3", "--kill-after", "0")
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=LONGEST)

    assert child.returncode == 1
    assert "treewarden: exiting hard at the stop deadline; still running: shop/work/0\n" in err
