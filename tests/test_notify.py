"""What the process manager is told: ready, how it is, pings, stopping."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from supervision import Pool, RestartPolicy, Supervisor, Worker, supervisor
from supervision.notify import Notifier, notifier, notify


class Manager:
    """The other end of the socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{address[1:]}" if address[0] == "@" else address)
        self.socket.setblocking(False)
        self.address = address

    def heard(self) -> list[str]:
        """What has come since the last look."""
        found: list[str] = []
        while True:
            try:
                found += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path: Path) -> Iterator[Manager]:
    """A process manager that listens, at a path and at an abstract address."""
    address = (
        f"@tw-{os.getpid()}-{id(request)}" if request.param == "abstract" else str(tmp_path / "n")
    )
    made = Manager(address)
    yield made
    made.socket.close()


async def idle(ctx):
    await ctx.sleep(float("inf"))


async def broken(ctx):
    await trio.sleep(5)
    raise ValueError("out of paper")


@asynccontextmanager
async def told(manager: Manager, *workers: Worker, watchdog: float | None = None):
    """A tree that tells `manager` how it is."""
    tree = Supervisor("shop", workers)
    async with (
        trio.open_nursery() as nursery,
        supervisor.running(tree, log=False, wait_ready=False) as pool,
    ):
        nursery.start_soon(notify, pool, Notifier(address=manager.address, watchdog=watchdog))
        yield pool


async def test_ready_comes_with_the_first_complete_start(manager, autojump_clock) -> None:
    """READY is told once, when every worker is ready, and not before."""

    async def slow(ctx):
        await trio.sleep(3)
        ctx.started()
        await idle(ctx)

    async with told(manager, Worker("slow", slow, ready="signal")):
        await trio.sleep(2.9)
        assert "READY=1" not in manager.heard()
        await trio.sleep(0.2)
        assert manager.heard().count("READY=1") == 1
        await trio.sleep(60)
        assert "READY=1" not in manager.heard()


async def test_the_status_is_a_sentence(manager, autojump_clock) -> None:
    """It is told when it changes: how many are in which state, and what is wrong."""
    policy = RestartPolicy(max_restarts=1, initial_backoff=2, jitter=0)
    async with told(
        manager, Worker("a", idle), Worker("b", broken, restart=policy, on_failed="hold")
    ):
        await trio.sleep(1)
        assert "STATUS=2 running; ok" in manager.heard()
        await trio.sleep(3)
        assert manager.heard() == []
        await trio.sleep(2.1)
        assert "STATUS=1 running, 1 restarting; not ready: shop/b/0" in manager.heard()
        await trio.sleep(10)
        last = manager.heard()[-1]
        assert last == "STATUS=1 running, 1 failed; worker b (replica 0) failed: out of paper"


async def test_pings_come_in_time(manager, autojump_clock) -> None:
    """The watchdog is told at least twice in its time, also while the tree starts."""

    async def never(ctx):
        await trio.sleep_forever()

    async with told(manager, Worker("never", never, ready="signal", shutdown=0), watchdog=6):
        for _ in range(5):
            await trio.sleep(3)
            assert "WATCHDOG=1" in manager.heard()


async def test_a_tree_that_is_not_live_does_not_ping(manager, autojump_clock) -> None:
    """Once a worker has failed for good the pings end, so that the manager restarts the process."""
    policy = RestartPolicy(max_restarts=1, initial_backoff=0)
    async with told(manager, Worker("b", broken, restart=policy, on_failed="hold"), Worker("a", idle), watchdog=3):  # fmt: skip
        await trio.sleep(4)
        assert "WATCHDOG=1" in manager.heard()
        await trio.sleep(7)
        manager.heard()
        await trio.sleep(60)
        assert "WATCHDOG=1" not in manager.heard()


async def test_stopping_is_told_before_it_is_done(manager, autojump_clock) -> None:
    """STOPPING comes when the stop begins; pings go on through it, and the end is told."""

    async def lingering(ctx):
        with ctx.busy():
            await trio.sleep(30)

    async with told(manager, Worker("a", lingering, shutdown=10), watchdog=6) as pool:
        await trio.sleep(1)
        manager.heard()
        pool.request_stop()
        await trio.sleep(0.1)
        first = manager.heard()
        assert "STOPPING=1" in first
        await trio.sleep(5)
        seen = manager.heard()
        assert "WATCHDOG=1" in seen
        assert any(line.startswith("STATUS=1 running; stopping") for line in first + seen)
        await pool.wait_stopped()
    assert manager.heard()[-1] == "STATUS=stopped"


async def test_a_manager_that_is_gone_disturbs_nobody(manager, autojump_clock) -> None:
    """A socket at which nobody listens, or whose queue is full, is no error."""
    to = Notifier(address=manager.address)
    while to.send(status="x" * 1000):
        pass
    assert not to.send(ready=1)
    manager.socket.close()
    async with told(manager, Worker("a", idle)) as pool:
        await trio.sleep(5)
        assert pool.health().ready


@pytest.mark.parametrize(
    ("environment", "address", "watchdog"),
    [
        ({}, None, None),
        ({"NOTIFY_SOCKET": ""}, None, None),
        ({"NOTIFY_SOCKET": "relative"}, None, None),
        ({"NOTIFY_SOCKET": "vsock:1:2"}, None, None),
        ({"NOTIFY_SOCKET": "/run/n"}, "/run/n", None),
        ({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "2500000"}, "@n", 2.5),
        ({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "1"}, "@n", None),
        (
            {"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "2500000", "WATCHDOG_PID": str(os.getpid())},
            "@n",
            2.5,
        ),
        ({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "soon"}, "@n", None),
        ({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "0"}, "@n", None),
    ],
)
def test_the_environment_says_who_listens(environment: dict[str, str], address: str | None, watchdog: float | None) -> None:  # fmt: skip
    """The standard variables are read; a watchdog that is meant for another process is none of ours."""
    found = notifier(environment)

    assert (found and found.address) == address
    assert (found and found.watchdog) == watchdog


def test_pools_are_only_looked_at() -> None:
    """Nothing of a pool that changes it is used."""
    source = Path(notify.__code__.co_filename).read_text()
    changing = [name for name in vars(Pool) if name[0] != "_" and callable(vars(Pool)[name])]

    assert [name for name in changing if f"pool.{name}(" in source] == []


async def test_an_error_is_no_message_of_its_own(manager, autojump_clock) -> None:
    """The lines of an error's text are one line of status, and what is no character is shown escaped."""

    async def fails(ctx):
        raise ValueError("no file caf\udce9\nMAINPID=1\n\nSTOPPING=1")

    policy = RestartPolicy(max_restarts=1, initial_backoff=0)
    async with told(manager, Worker("b", fails, restart=policy, on_failed="hold"), Worker("a", idle)):  # fmt: skip
        await trio.sleep(5)
        heard = manager.heard()

    assert {line.partition("=")[0] for line in heard} <= {"READY", "STATUS"}
    assert heard[-1].endswith(r"failed: no file caf\udce9 MAINPID=1 STOPPING=1")
