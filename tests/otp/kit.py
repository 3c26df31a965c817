"""What the conformance tests share: workers that do as they are told, a log of their lives, and a way to count work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import trio
from trio.testing import wait_all_tasks_blocked

from actors import Context, Event
from supervision import (
    Pool,
    RestartPolicy,
    RestartType,
    Supervisor,
    TreeFailed,
    Worker,
    WorkerInfo,
    supervisor,
)

TYPES = [str(kind) for kind in RestartType]
STRATEGIES = ["one_for_one", "one_for_all", "rest_for_one"]
KILL = "kill"
"""Order to hang for ever: the watchdog cancels the run and counts it as failed, the nearest to a kill there is."""
FINISH = "finish"
"""Order to return."""
LEAVE = "leave"
"""Order to ask for its own end, which is what an exit with reason shutdown is in OTP."""
CRASH = "crash"
"""Order to raise."""
WATCHDOG = 3.0


class Crashed(Exception):
    """What a worker raises when it is told to crash."""


def otp(kind: str = "permanent", *, wait: float = 0.0, limit: int = 0) -> RestartPolicy:
    """OTP's restarts: at once, and limited by the supervisor alone."""
    return RestartPolicy(type=kind, max_restarts=limit, initial_backoff=wait, factor=1, jitter=0)


def group(*children: Worker | Supervisor, **options: object) -> Supervisor:
    """A supervisor that never ends only because its children have, as OTP's do not by default."""
    return Supervisor(options.pop("name", "top"), children, **{"auto_shutdown": "never", **options})


running = partial(supervisor.running, log=False)
settle = wait_all_tasks_blocked


class Stage:
    """Makes workers, notes who started (`+a`) and who ended (`-a`), and gives them orders."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refusing: dict[str, Exception | None] = {}
        """Workers whose next starts fail with this error, or, for None, end before they are ready."""
        self.starting: dict[str, float] = {}
        """Seconds that a worker needs to get ready."""
        self._orders: dict[str, tuple[trio.Event, list[str]]] = {}

    def worker(
        self, name: str, kind: str = "permanent", *, linger: float = 0.0, **options: object
    ) -> Worker:
        """A worker that waits for orders; it stays `linger` seconds after it was asked to stop, whatever it is told."""

        async def run(ctx: Context) -> None:
            await self._run(ctx, linger)

        options.setdefault("restart", otp(kind))
        return Worker(name, run, ready="signal", **options)

    async def _run(self, ctx: Context, linger: float) -> None:
        self.log.append(f"+{ctx.name}")
        try:
            await trio.sleep(self.starting.get(ctx.name, 0))
            if ctx.name in self.refusing:
                if (error := self.refusing[ctx.name]) is not None:
                    raise error
                return
            ctx.started()
            event, orders = self._orders[ctx.path] = (trio.Event(), [])
            await event.wait()
            match orders[0]:
                case "crash":
                    raise Crashed(ctx.path)
                case "kill":
                    await trio.sleep_forever()
                case "leave":
                    ctx.stop()
                    await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(linger if ctx.stopping else 0)
            self.log.append(f"-{ctx.name}")

    def order(self, path: str, order: str) -> None:
        """Tell the run at `path` (of the only replica, if it names a worker) what to do."""
        event, orders = self._orders.get(path) or self._orders[f"{path}/0"]
        orders.append(order)
        event.set()

    async def tell(self, path: str, order: str) -> None:
        """Give an order and wait until all that follows from it has happened."""
        self.order(path, order)
        if order == KILL:
            await trio.sleep(WATCHDOG)
        await settle()

    def take(self) -> str:
        """What happened since the last call, as one line."""
        log, self.log[:] = " ".join(self.log), []
        return log


def info(pool: Pool, path: str) -> WorkerInfo:
    """The one replica of the worker at `path`."""
    found = pool.info(path)
    assert isinstance(found, WorkerInfo)
    return found


def runs(pool: Pool) -> dict[str, int]:
    """Which run every worker has now."""
    return {worker.name: worker.run for worker in pool.workers()}


def states(pool: Pool) -> dict[str, str]:
    """Which state every worker has now."""
    return {worker.name: worker.state for worker in pool.workers()}


def active(pool: Pool, path: str | None = None) -> tuple[int, int]:
    """Specs and active children of a supervisor."""
    counts = pool.counts(path)
    return counts.specs, counts.active


def of(events: list[Event], *kinds: str) -> list[str]:
    """The events of some kinds, each as `Kind path`."""
    return [f"{event.kind} {event.path}" for event in events if event.kind in kinds]


async def failure(tree: Supervisor, **options: object) -> TreeFailed:
    """Run `tree` until it fails."""
    try:
        await supervisor.serve(tree, log=False, signals=False, **options)
    except TreeFailed as error:
        return error
    raise AssertionError("the tree did not fail")


HOUSE = {
    str(Path(__file__).parent.parent.parent / package) for package in ("actors", "supervision")
}


class Work(trio.abc.Instrument):
    """How much was done: turns of the scheduler, and calls of functions of the two packages."""

    def __init__(self) -> None:
        self.steps = 0
        self.calls = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1

    def profile(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(tuple(HOUSE)):
            self.calls += 1

    def linear(self, more: Work, times: int) -> bool:
        """True if `more`, for `times` as many children, did at most twice what is in proportion.

        Counts do not depend on the machine, so the bound can be narrow: OTP's own suite, which measures time, allows ten times.
        """
        return 0 < more.steps <= 2 * times * self.steps and 0 < more.calls <= 2 * times * self.calls

    def __repr__(self) -> str:
        return f"<Work {self.steps} steps, {self.calls} calls>"


@contextmanager
def counting() -> Iterator[Work]:
    """Count the work done in the block."""
    work = Work()
    before = sys.getprofile()
    trio.lowlevel.add_instrument(work)
    sys.setprofile(work.profile)
    try:
        yield work
    finally:
        sys.setprofile(before)
        trio.lowlevel.remove_instrument(work)
