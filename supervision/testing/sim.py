"""Sim: a Trio run in virtual time that plain, synchronous code steps by hand.

Theory. The loop lives inside the calls of a `Sim`: each hands it a little work and lets it go on until every task waits (*settles*).
Time moves only by `advance`, from one timer to the next, so that nothing due in between is skipped or lumped together. What is
put in flight by `start` begins at the next settling, so several things can happen in one instant: that is where races live.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from typing import Any, Final, Literal, Self

import outcome
import trio
from trio.testing import MockClock

from supervision.errors import TreeFailed
from supervision.faults import ARMED
from supervision.pool import Pool
from supervision.specs import Supervisor
from supervision.stacks import await_stack, waits_for_socket, waits_for_thread
from supervision.supervisor import serve
from supervision.testing.errors import InjectedFault, Livelock, RealWorld, Survivors, TooLong
from supervision.testing.faulty import GRIPS, Grips
from supervision.testing.guest import GuestLoop
from supervision.testing.internals import HandLoop, can_step, ordered, unshield
from supervision.testing.life import Kind, Life
from supervision.testing.oracles import DEFAULT, Oracle, judge
from supervision.testing.schedule import Schedule, replay
from supervision.testing.timeline import explain
from supervision.testing.trace import Trace

__all__ = ["Backend", "Pending", "Sim"]

Backend = Literal["loop", "guest"]

PASSES: Final = 20_000
"""Passes of the loop without a pause that mean a livelock."""
FAREWELL: Final = 1_000
"""Timers that the clean-up at the end may wait for."""
_LAST_PASSES: Final = 10
"""Settlings in which a run whose tasks have ended comes to its own end: it wakes itself through a socket."""


class Pending:
    """An async call in flight."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scope = trio.CancelScope()
        self._result: outcome.Outcome[Any] | None = None

    async def carry(self, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        """Make the call. An `Exception` is kept for `value`; anything else ends the whole run."""
        result: outcome.Outcome[Any] = outcome.Value(None)
        with self.scope:
            try:
                result = outcome.Value(await fn(*args))
            except Exception as error:
                result = outcome.Error(error)
        self._result = result

    @property
    def done(self) -> bool:
        """True once it has returned, raised, or was cancelled."""
        return self._result is not None

    @property
    def error(self) -> BaseException | None:
        """What it raised; None if it has not, or not yet."""
        return self._result.error if isinstance(self._result, outcome.Error) else None

    @property
    def cancelled(self) -> bool:
        """True if `cancel` cut it short."""
        return self.scope.cancelled_caught

    def cancel(self) -> None:
        """Cancel it; it ends at the next settling."""
        self.scope.cancel()

    def value(self) -> Any:
        """What it returned; raises what it raised. May be asked again."""
        if isinstance(self._result, outcome.Error):
            raise self._result.error
        if not isinstance(self._result, outcome.Value):
            raise RuntimeError(f"{self.name} has not come to its end")
        return self._result.value

    def __repr__(self) -> str:
        return f"<Pending {self.name} {'done' if self.done else 'in flight'}>"


class Sim:
    """One Trio run in virtual time. Close it, best by `with`: only one can be open in a thread.

    Args:
        schedule: the order of ready tasks; first in, first out by default.
        backend: `loop` or `guest`; by default whichever this Trio allows.
        real: let real threads be used; time then waits for them. Without, they are an error, and so are sockets.
        instruments: Trio's own, for looking closer.
        invariants: what `judge` asks of the trace.
    """

    override: str | None = None
    """A schedule that replaces every other one: the option `--supervision-schedule`."""
    profile: str = ""
    """The profile of Hypothesis that the session was started with, if it is one of ours: its limits belong to what is run again."""

    def __init__(
        self,
        *,
        schedule: Schedule | None = None,
        backend: Backend | None = None,
        real: bool = False,
        instruments: Sequence[trio.abc.Instrument] = (),
        invariants: Iterable[Oracle] = DEFAULT,
        trace: Trace | None = None,
    ) -> None:
        if Sim.override is not None:
            schedule = replay(Sim.override)
        self.schedule = Schedule() if schedule is None else schedule
        self.clock = MockClock()
        self.trace = Trace() if trace is None else trace
        self.real = real
        self.invariants = tuple(invariants)
        self.grips = Grips()
        """The live runs of workers made `faulty`, by path: what a test moves them by."""
        self.nursery: trio.Nursery
        self.closed = False
        self._faults: dict[str, deque[Life]] = {}
        self._context = contextvars.copy_context()
        self._context.run(self._take_over)
        self._stack = ExitStack()
        self._stack.enter_context(ordered(self.schedule))
        chosen = backend or ("loop" if can_step() else "guest")
        make = HandLoop if chosen == "loop" else GuestLoop
        try:
            self._loop: HandLoop | GuestLoop = make(self._main, self.clock, instruments, PASSES)
        except BaseException:
            self._stack.close()
            raise
        self._sockets = _waiting_for_sockets()

    def _take_over(self) -> None:
        self.trace.listen()
        GRIPS.set(self.grips)
        ARMED.set(self._pass)

    async def _main(self) -> None:
        async with trio.open_nursery() as self.nursery:
            self.schedule.on_stop = self.nursery.cancel_scope.cancel
            await trio.sleep_forever()

    @property
    def now(self) -> float:
        """Seconds of the clock, from 0."""
        return self.clock.current_time()

    # -- work ------------------------------------------------------------------------------------

    def start(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Pending:
        """Put a call in flight. Nothing of it happens before the next settling."""
        name = getattr(fn, "__qualname__", repr(fn))
        pending = Pending(name)
        self._context.copy().run(
            partial(self.nursery.start_soon, name=name), pending.carry, fn, args
        )
        return pending

    def run(self, fn: Callable[..., Awaitable[Any]], *args: Any, within: float = 0.0) -> Any:
        """Make a call, give it `within` virtual seconds, and return its result.

        Raises:
            TooLong: it has not come to its end by then.
        """
        pending = self.start(fn, *args)
        self.settle()
        end = self.now + within
        while not pending.done and self.next_timer() <= end:
            self.advance_to_next()
        if not pending.done:
            self.advance(max(0.0, end - self.now))
            if not pending.done:
                pending.cancel()
                raise TooLong(pending.name, within)
        return pending.value()

    def supervise(self, tree: Supervisor, **options: Any) -> Pool:
        """Run a tree until the sim is closed; its first start goes as far as it can without time.

        Options are those of `supervisor.serve`. A tree that fails is a result like any other: look at `trace` or at the pool.
        """
        options = {
            "log": False,
            "telemetry": False,
            "signals": False,
            "wait_ready": False,
            **options,
        }
        pool: list[Pool] = []

        async def keep() -> None:
            status = _Status(pool)
            try:
                await serve(tree, task_status=status, **options)
            except TreeFailed:
                pass  # told by GaveUp, Failed and the pool's health

        pending = self.start(keep)
        self.settle()
        if not pool:
            pending.value()
            raise RuntimeError(f"{tree.name} did not start")
        return pool[0]

    def arm(self, name: str, *lives: Life) -> None:
        """Let the next passages of `fault_point(name)` fail, wait or hang, one life each; later ones do nothing."""
        self._faults.setdefault(name, deque()).extend(lives)

    async def _pass(self, name: str) -> None:
        lives = self._faults.get(name)
        if not lives:
            return
        life = lives.popleft()
        await trio.sleep(life.seconds)
        if life.kind is Kind.CRASHES:
            raise InjectedFault(f"at the fault point {name!r}")
        if life.kind is Kind.HANGS:
            await trio.sleep_forever()

    # -- time ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let the run go on until every task waits.

        Raises:
            Livelock: it never does.
            RealWorld: what is waited for is a thread or a socket.
        """
        try:
            self._loop.pump()
            self._check_world()
        finally:
            self._raise_stopped()

    def _raise_stopped(self) -> None:
        stop = self.schedule.stopped
        if stop is not None and not self.closed:
            raise stop

    def _check_world(self) -> None:
        if self._loop.end is not None:
            return
        busy = _threads_at_work()
        if not self.real:
            if busy:
                raise RealWorld("a thread is waited for", self.tasks(waits_for_thread))
            if _waiting_for_sockets() > self._sockets:
                raise RealWorld("a socket or pipe is waited for", self.tasks(waits_for_socket))
        while busy and self._loop.end is None:
            self._loop.pump(0.05)
            busy = _threads_at_work()

    def next_timer(self) -> float:
        """When the next timer is due; inf if none is set."""
        return inf if self._loop.end is not None else self._loop.next_deadline()

    def advance_to_next(self, n: int = 1) -> float:
        """Let time pass to the next timer, `n` times; returns the time. Without a timer nothing happens."""
        self.settle()
        for _ in range(n):
            due = self.next_timer()
            if due == inf:
                break
            self._jump(due)
        return self.now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, from timer to timer."""
        self.settle()
        target = self.now + seconds
        while self.next_timer() <= target:
            self._jump(self.next_timer())
        if target > self.now:
            self._jump(target)

    def _jump(self, when: float) -> None:
        # Added to the present time, a difference may fall short of `when` by a rounding error, and the timer would not fire.
        for _ in range(PASSES):
            self.clock.jump(max(0.0, when - self.now))
            self.settle()
            if self.now >= when or self._loop.end is not None:
                return
        raise Livelock(PASSES)

    # -- the end ---------------------------------------------------------------------------------

    def judge(self, *, quiescent: bool = True) -> None:
        """Ask all invariants of the trace so far. Call it when every task waits, or say `quiescent=False`.

        Raises:
            InvariantViolation: one does not hold.
        """
        judge(self.trace, self.invariants, quiescent=quiescent)

    def explain(self, error: BaseException) -> None:
        """Add the timeline and the line that replays it to an error, once."""
        explain(error, self.trace, self.schedule, Sim.profile)

    def tasks(self, which: Callable[[trio.lowlevel.Task], bool] | None = None) -> list[str]:
        """Where each task waits, for people; or each of which `which` is true and that waits for no other task."""
        found: list[str] = []
        for task in self._all_tasks():
            if which is not None and (_has_children(task) or not which(task)):
                continue
            stack = await_stack(task)
            found.append(f"{task.name}: {stack[-1] if stack else '?'}")
        return found

    def _all_tasks(self) -> Iterator[trio.lowlevel.Task]:
        todo = [] if self._loop.end is not None else list(self.nursery.child_tasks)
        while todo:
            task = todo.pop()
            todo.extend(child for n in task.child_nurseries for child in n.child_tasks)
            yield task

    def close(self) -> None:
        """Cancel what is left and wait for its end, in virtual time as long as clean-up takes.

        Raises:
            Survivors: tasks go on in spite of it.
            BaseException: what the run itself raised.
        """
        if self.closed:
            return
        self.closed = True  # from here on time has to pass, whatever a draw has raised before
        try:
            self._say_farewell()
        except BaseException:
            self._loop.abandon()
            raise
        finally:
            self._stack.close()
            self.trace.release()

    def _say_farewell(self) -> None:
        if self._loop.end is None:
            self.nursery.cancel_scope.cancel()
            self._loop.pump()
        for _ in range(FAREWELL):
            if self._loop.end is not None:
                self._loop.end.unwrap()
                return
            due = self.next_timer()
            self.clock.jump(10.0 if due == inf else max(0.0, due - self.now))
            # A thread cannot be cancelled: it is waited for, in real time.
            self._loop.pump(0.05 if _threads_at_work() else 0.0)
        survivors = Survivors(self.tasks())
        unshield(self._all_tasks())
        for _ in range(_LAST_PASSES):
            self._loop.pump()
        raise survivors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _tb: object) -> None:
        if isinstance(error, Exception):
            self.explain(error)
        self.close()

    def __repr__(self) -> str:
        return f"<Sim at {self.now:g} s{', closed' if self.closed else ''}, {self.trace!r}>"


class _Status(trio.TaskStatus[Pool]):
    """Takes the pool from `serve`."""

    def __init__(self, pool: list[Pool]) -> None:
        self._pool = pool

    def started(self, value: Pool | None = None) -> None:
        if value is not None:
            self._pool.append(value)


def _has_children(task: trio.lowlevel.Task) -> bool:
    return any(nursery.child_tasks for nursery in task.child_nurseries)


def _threads_at_work() -> float:
    return trio.to_thread.current_default_thread_limiter().borrowed_tokens


def _waiting_for_sockets() -> int:
    """Waits for the world outside. Which numbers there are differs by platform; the loop's own wake-up is among them."""
    io = trio.lowlevel.current_statistics().io_statistics
    names = (
        "tasks_waiting_read",
        "tasks_waiting_write",
        "tasks_waiting",
        "tasks_waiting_overlapped",
    )
    return sum(getattr(io, name, 0) for name in names)
