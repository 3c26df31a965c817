"""What the kit needs of Trio that Trio does not promise, all of it in this file.

Theory. Three things have no public door:

* *The order of ready tasks.* Each pass of the loop takes all tasks that are ready as a batch. With
  `trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING` set, which Trio has for test plugins, it sorts the batch by
  creation and lets `trio._core._run._r.shuffle` order it, then takes tasks from its *end*. We put our own `_r` there.
* *Stepping the loop.* `setup_runner` makes a run and `unrolled_run` is its loop as a generator: it yields the seconds it
  would sleep and is sent what happened meanwhile. Sending it "nothing" until it would sleep lets everything ready run.
* *Ending a task that shields itself for ever*, so that a failed test is not in the way of the next: `Task._cancel_status` leads to
  its scopes.

Where the first is missing, tasks run in Trio's own order and one warning says so. Where the second is missing, the kit
uses guest mode, which is public and gives the same traces, more slowly. Without the third such a task is left behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import inf
from typing import Any, Final, Protocol

import outcome
import trio
from trio.testing import MockClock

from supervision.testing.errors import KitWarning, Livelock

__all__ = ["HandLoop", "Orders", "can_order", "can_step", "ordered", "unshield"]

_run: Any = import_module("trio._core._run")

_FOR_ORDER: Final = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING")
_FOR_STEPS: Final = ("setup_runner", "unrolled_run", "sniffio_library")


class Orders(Protocol):
    """Who decides in which order ready tasks run."""

    def arrange(self, batch: list[trio.lowlevel.Task]) -> list[trio.lowlevel.Task]:
        """`batch`, given in order of creation, in the order to run it. Must not raise."""
        ...


class _Shuffler:
    """Stands in for Trio's `random.Random`."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        if len(batch) > 1:
            batch[:] = reversed(self._orders.arrange(batch))

    def random(self) -> float:
        return 0.0

    def uniform(self, low: float, _high: float) -> float:
        return low


def can_order() -> bool:
    """True if this Trio lets us decide the order of tasks."""
    return all(hasattr(_run, name) for name in _FOR_ORDER)


def can_step() -> bool:
    """True if this Trio's loop can be pulled by hand."""
    return all(hasattr(_run, name) for name in _FOR_STEPS)


@contextmanager
def ordered(orders: Orders) -> Generator[None]:
    """Inside, tasks run in the order that `orders` decides."""
    if not can_order():
        warnings.warn(
            f"Trio {trio.__version__} does not let the order of tasks be chosen: they run in its own order, so"
            " schedules are neither explored nor replayed; everything else of supervision.testing works",
            KitWarning,
            stacklevel=3,
        )
        yield
        return
    before = _run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING
    _run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING = _Shuffler(orders), True
    try:
        yield
    finally:
        _run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING = before


def unshield(tasks: Iterable[trio.lowlevel.Task]) -> None:
    """Let the cancellation that is under way reach `tasks` through their shields, as far as this Trio allows."""
    for task in tasks:
        status: Any = getattr(task, "_cancel_status", None)
        while status is not None:
            scope = getattr(status, "_scope", None)
            if isinstance(scope, trio.CancelScope):
                scope.shield = False
            status = getattr(status, "_parent", None)


class HandLoop:
    """A Trio run whose loop is pulled by hand. The twin of `guest.GuestLoop`."""

    def __init__(
        self,
        main: Callable[[], Awaitable[None]],
        clock: MockClock,
        instruments: Sequence[trio.abc.Instrument],
        passes: int,
    ) -> None:
        self.end: outcome.Outcome[None] | None = None
        self._passes = passes
        self._runner: Any = _run.setup_runner(clock, list(instruments), False, True)
        self._loop: Any = _run.unrolled_run(self._runner, main, ())
        self._send(None)
        self.pump()

    def _send(self, happened: object) -> float:
        here = _run.sniffio_library
        before, here.name = here.name, "trio"
        try:
            seconds: float = self._loop.send(happened)
        except StopIteration:
            self.end = self._runner.main_task_outcome
            if getattr(self._runner, "ki_pending", False):
                self.end = outcome.Error(KeyboardInterrupt())
            return inf
        finally:
            here.name = before
        return seconds

    def pump(self, real: float = 0.0) -> None:
        """Go on until every task waits; wait `real` seconds for the world outside first."""
        runner = self._runner
        for _ in range(self._passes):
            if self.end is not None:
                return
            pause = self._send(runner.io_manager.get_events(real))
            real = 0.0
            if pause > 0 and not runner.waiting_for_idle:
                return
        raise Livelock(self._passes)

    def abandon(self) -> None:
        """Give the run up although tasks live: it must not be in the way of the next."""
        if self.end is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                self._loop.close()

    def next_deadline(self) -> float:
        """When the next timer is due, in seconds of the clock; inf if none is set."""
        deadline: float = self._runner.deadlines.next_deadline()
        return deadline
