"""Context: what a run is handed.

Floor: above registry, routing, timers, watching. The rule: everything here belongs to one run and ends with it.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Protocol

import outcome
import trio

from actors.impairment import RunDegraded, RunRestored
from actors.letters import NOTHING
from actors.mailbox import Mailbox
from actors.options import is_wait
from actors.ref import ActorRef, Answer, Ask, Ref
from actors.registry import Registry
from actors.timers import Reminder
from actors.watching import Watch, Watches

__all__ = ["Busy", "Context", "Host"]


class Host(Protocol):
    """What a context needs from whoever keeps the run alive."""

    def run_is_set_up(self) -> None:
        """The run has come as far as to work, as seen from outside it."""

    def run_is_ready(self) -> None:
        """The run itself said that it can work."""

    def run_is_idle(self) -> None:
        """The last `busy` block of the run ended."""

    def stop_self(self, run: int) -> None:
        """Run number `run` asks to be stopped, without waiting."""

    def find(self, name: str) -> Ref:
        """An actor of the tree by path, name or registered name."""
        ...

    def stop_deadline(self) -> float:
        """Until when clean-up may take, in seconds of Trio's clock."""
        ...

    @property
    def registry(self) -> Registry:
        """The tree's names and groups."""
        ...

    @property
    def watches(self) -> Watches:
        """The tree's watches."""
        ...


class Busy:
    """The block `with ctx.busy():`, work that a stop lets finish."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def __enter__(self) -> None:
        self._ctx.busy_blocks += 1

    def __exit__(self, *_: object) -> None:
        ctx = self._ctx
        ctx.busy_blocks -= 1
        if ctx.stopping and not ctx.busy_blocks:
            ctx.host.run_is_idle()

    def __repr__(self) -> str:
        return f"<Busy {self._ctx.path} run {self._ctx.run}>"


class Context:
    """One run's view of its world.

    Attributes:
        path: where it is in the tree, such as `shop/orders/0`.
        name: the worker's name.
        replica: which replica of the worker, from 0.
        run: which run of this replica, from 1.
        mailbox: the replica's queue; it outlives the run.
        stopping: true once the run has been asked to stop.
    """

    __slots__ = (
        "_asked",
        "_idle",
        "_reminders",
        "alive",
        "asking",
        "beat_at",
        "busy_blocks",
        "cleaning",
        "deferred",
        "draining",
        "faults",
        "host",
        "mailbox",
        "name",
        "one_at_a_time",
        "path",
        "replica",
        "run",
        "stopping",
        "task",
    )

    def __init__(
        self, host: Host, mailbox: Mailbox, *, path: str, name: str, replica: int, run: int
    ) -> None:
        self.host = host
        self.mailbox = mailbox
        self.path = path
        self.name = name
        self.replica = replica
        self.run = run
        self.stopping = False
        self.draining = False
        self.alive = True
        self.one_at_a_time = False
        self.task: trio.lowlevel.Task | None = None
        self.asking: list[Ask] | None = None
        self.busy_blocks = 0
        self.beat_at: float | None = None
        self.cleaning: trio.CancelScope | None = None
        self.deferred: list[Ask] | None = None
        self.faults: dict[str, str] | None = None
        self._asked: Ask | None = None
        self._idle: set[trio.lowlevel.Task] | None = None
        self._reminders: list[Reminder] | None = None

    # -- life ------------------------------------------------------------------------------------

    def started(self) -> None:
        """Say that this run can work. Needed when the spec says `ready="signal"`; otherwise it is ready by itself."""
        if self.alive:  # else a task that outlived this run would speak for the next one
            self.host.run_is_ready()

    def heartbeat(self) -> None:
        """Say that this run makes progress. Needed at least every `watchdog` seconds, if the spec has one; a message that an `Actor` takes counts too."""
        self.beat_at = trio.current_time()

    def degraded(self, what: str, why: str) -> None:
        """Say that this run cannot do its work and goes on trying: it is not ready, and `why` is shown, until `restored(what)`.

        For what ends by itself and needs no restart, such as a server that is down. Saying it again only changes `why`.
        """
        if not self.alive:
            return
        if self.faults is None:
            self.faults = {}
        new = what not in self.faults
        self.faults[what] = why
        if new:
            emit = self.mailbox.office.events.emit
            emit(RunDegraded, self.path, self.run, what=what, why=why)

    def restored(self, what: str) -> None:
        """Say that `what` is no longer wrong. Nothing happens if it was not."""
        if self.faults and self.faults.pop(what, None) is not None:
            self.mailbox.office.events.emit(RunRestored, self.path, self.run, what=what)

    def busy(self) -> Busy:
        """`with ctx.busy():` marks work in hand: a stop lets the block finish, until the stop deadline."""
        return Busy(self)

    def stop(self) -> None:
        """Ask for the end of this run, as an operator's stop would, and do not wait for it. Any thread may."""
        self.host.stop_self(self.run)

    async def sleep(self, seconds: float) -> bool:
        """Sleep, but not longer than until a stop is asked for. True if the whole time has passed.

        After False the run goes on to its next checkpoint, where it is cancelled unless it is `busy`.
        """
        if not is_wait(seconds):
            raise ValueError(f"seconds must be 0 or more, not {seconds!r}")
        if self.stopping or not seconds:
            await trio.lowlevel.checkpoint()
            return not self.stopping
        # Woken, not cancelled: a cancellation of the sleep alone would be lost in that of the run, which follows at once.
        task = trio.lowlevel.current_task()
        sleepers = self._idle = self._idle if self._idle is not None else set()
        sleepers.add(task)
        end = trio.current_time() + seconds
        timer = self.mailbox.office.timers.call_at(end, lambda: self._wake(task, whole=True))

        def leave(_: object) -> trio.lowlevel.Abort:
            sleepers.discard(task)
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            return bool(await trio.lowlevel.wait_task_rescheduled(leave))
        finally:
            sleepers.discard(task)
            timer.cancel()

    def _wake(self, task: trio.lowlevel.Task, *, whole: bool) -> None:
        if self._idle is not None and task in self._idle:
            self._idle.discard(task)
            trio.lowlevel.reschedule(task, outcome.Value(whole))

    # -- messages --------------------------------------------------------------------------------

    @property
    def ref(self) -> ActorRef:
        """This actor's own address."""
        return ActorRef(self.mailbox)

    @property
    def deadline(self) -> float:
        """Until when the caller of the ask in hand waits, in seconds of Trio's clock; inf if nobody does."""
        item = self.mailbox.in_hand
        return item.deadline if self.alive and isinstance(item, Ask) else inf

    def answer_later(self) -> Answer:
        """Take over the ask in hand: what `handle` returns is ignored, `send()` on the result answers.

        Raises:
            RuntimeError: no ask is in hand.
        """
        item = self.mailbox.in_hand
        if not isinstance(item, Ask) or not self.alive:
            raise RuntimeError(f"{self.path} has no ask in hand to answer later")
        self._asked = item
        if self.deferred is None:
            self.deferred = []
        self.deferred[:] = [ask for ask in self.deferred if ask.task is not None]
        self.deferred.append(item)
        return Answer(item)

    def taken_over(self, ask: Ask) -> bool:
        """True if the handler will answer `ask` later. Called by the receive loop."""
        asked, self._asked = self._asked, None
        return asked is ask

    def after(self, seconds: float, message: object) -> Reminder:
        """Send `message` to this actor in `seconds`, if this run still lives then."""
        return self._remind(message, seconds, None)

    def every(self, seconds: float, message: object, *, first: float | None = None) -> Reminder:
        """Send `message` to this actor every `seconds`, while this run lives; the first after `first` or `seconds`."""
        return self._remind(message, seconds if first is None else first, seconds)

    def _remind(self, message: object, delay: float, period: float | None) -> Reminder:
        reminder = Reminder(self.mailbox, message, delay=delay, period=period, alive=self._is_alive)
        if self._reminders is None:
            self._reminders = []
        self._reminders[:] = [old for old in self._reminders if old.active]
        self._reminders.append(reminder)
        return reminder

    # -- others ----------------------------------------------------------------------------------

    def find(self, name: str) -> Ref:
        """The address of another actor: a path, a worker's name, or a registered name.

        Raises:
            NoSuchActor: none, or several, have it; the message lists them.
        """
        return self.host.find(name)

    def register(self, name: str) -> None:
        """Take a name for as long as this run lives.

        Raises:
            NameTaken: another actor has it.
            RuntimeError: this run has ended.
        """
        self._require_alive("register")
        self.host.registry.register(name, self.ref)

    def join(self, group: str) -> None:
        """Join a group for as long as this run lives.

        Raises:
            RuntimeError: this run has ended.
        """
        self._require_alive("join")
        self.host.registry.join(group, self.ref)

    def members(self, group: str) -> tuple[ActorRef, ...]:
        """The members of a group now."""
        return self.host.registry.members(group)

    def watch(self, target: Ref) -> Watch:
        """Be told by a `Down` message when the run of `target` ends; at once if it has none.

        Raises:
            TypeError: `target` is a router; watch each of its `refs()`.
        """
        if not isinstance(target, ActorRef):
            raise TypeError(
                f"a watch is for one actor, not for {target!r}; watch each of its refs()"
            )
        watch = Watch(target, self.mailbox, self._is_alive)
        run = target.mailbox.run
        host = run.host if isinstance(run, Context) else self.host  # it may be of another tree
        host.watches.add(watch, run=getattr(run, "run", 0), alive=run is not None)
        return watch

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger `supervision.worker.NAME`; its records carry path and run as extra fields."""
        return logging.LoggerAdapter(
            logging.getLogger(f"supervision.worker.{self.name}"),
            {"actor_path": self.path, "actor_run": self.run},
        )

    # -- for whoever hosts the run ---------------------------------------------------------------

    def in_work(self) -> bool:
        """True while a stop must wait: a busy block, a message in hand, or a drain under way."""
        if self.busy_blocks:
            return True
        return self.mailbox.in_hand is not NOTHING or (self.draining and bool(self.mailbox.queue))

    def between_messages(self) -> bool:
        """Called by the mailbox when a function comes back for its next message."""
        if not self.stopping:
            return True
        self.host.run_is_idle()
        return self.draining

    def wake_idle(self) -> None:
        """End `ctx.sleep` at once: a stop was asked for."""
        for task in tuple(self._idle or ()):
            self._wake(task, whole=False)

    def end(self) -> None:
        """The run has ended: cancel all that belongs to it."""
        self.alive = False
        for reminder in self._reminders or ():
            reminder.cancel()
        self._reminders = None

    def _is_alive(self) -> bool:
        return self.alive

    def _require_alive(self, verb: str) -> None:
        if not self.alive:  # what it took now would never be freed, or be that of the next run
            raise RuntimeError(
                f"run {self.run} of {self.path} has ended, so '{verb}' cannot be done;"
                " a task that outlives its run uses no context of it"
            )

    def __repr__(self) -> str:
        return f"<Context {self.path} run {self.run}{' stopping' if self.stopping else ''}>"
