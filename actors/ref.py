"""ActorRef: the address of an actor, and what can be sent to it.

Floor: above mailbox. The rule: a ref is an address, not a run; it stays valid across restarts, and once nobody will
ever read the mailbox again every send raises `ActorStopped` at once.

An ask parks its caller and lays an `Ask` into the mailbox; whoever settles it (the answer, the handler's failure, the
timeout, the end of the actor, the caller's own cancellation) takes the caller out of it in the same step, so it is
settled exactly once. Its timeout is a timer of the tree's one queue, not a cancel scope.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from math import inf
from typing import Any, Final, Protocol

import outcome
import trio
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from actors.clock import Timer
from actors.deadletters import LateReply
from actors.errors import ActorStopped, AskCycle, AskTimeout
from actors.letters import NOTHING, Letter
from actors.mailbox import Mailbox
from actors.options import is_wait

__all__ = ["ActorRef", "Answer", "Ask", "Asker", "Ref", "running"]


class Asker(Protocol):
    """What `ask` must know of the run it is called from, to find circles."""

    mailbox: Mailbox
    task: trio.lowlevel.Task | None
    one_at_a_time: bool
    asking: list[Ask] | None


running: ContextVar[Asker | None] = ContextVar("running", default=None)
"""The run whose code is executing, if any."""


class Ask(Letter):
    """A message whose sender waits for an answer."""

    __slots__ = ("end", "mailbox", "task", "timeout", "timer")

    def __init__(self, message: object, mailbox: Mailbox, timeout: float, end: float) -> None:
        self.message = message
        self.context: object = None
        self.deliveries = 0
        self.mailbox = mailbox
        self.timeout = timeout
        self.end = end
        """When its timeout ends."""
        self.task: trio.lowlevel.Task | None = current_task()
        self.timer: Timer | None = None

    @property
    def deadline(self) -> float:
        """Until when the caller waits: its timeout, or a nearer deadline round its call."""
        # Trio says this only of the task that asks, and to look at every ask, whether the handler wants to know or not, would
        # make each a fifth dearer. Without the attribute the timeout alone is told.
        status = getattr(self.task, "_cancel_status", None)
        return self.end if status is None else min(self.end, status.effective_deadline())

    def stale(self) -> bool:
        return self.task is None

    @property
    def waits(self) -> bool:
        return self.task is not None

    def answer(self, value: object) -> None:
        """Wake the caller with `value`; too late is reported, not raised."""
        task = self.task
        if task is None:
            self.mailbox.office.events.emit(LateReply, self.mailbox.path)
            return
        self.task = None
        try:
            reschedule(task, outcome.Value(value))
        except (
            RuntimeError
        ):  # from a thread without Trio: nothing was answered, and the caller waits on
            self.task = task
            raise
        if self.timer is not None:
            self.timer.cancel()

    def returned(self, error: Exception) -> bool:
        task = self.task
        if task is None:
            return False
        failed = outcome.Error(error)
        self.task = None
        try:
            reschedule(task, failed)
        except RuntimeError:
            self.task = task
            raise
        if self.timer is not None:
            self.timer.cancel()
        return True

    def finished(self, run: object) -> None:
        if self.task is not None and self not in (getattr(run, "deferred", None) or ()):
            self.answer(None)

    def expire(self) -> None:
        """Called by the timer."""
        box = self.mailbox
        if box.withdraw(self):
            doing = f"its mailbox has been full ({box.capacity:g}) all the time"
        elif box.in_hand is self:
            doing = "its handler is still working on it"
        elif self in (getattr(box.run, "deferred", None) or ()):
            doing = "its handler took it over with answer_later(), and no answer has come"
        elif box.in_hand is not NOTHING:
            doing = f"its handler is busy with another message, {len(box.queue)} are queued"
        else:
            doing = f"no run has taken it, {len(box.queue)} are queued"
        self.returned(AskTimeout(box.path, self.message, timeout=self.timeout, doing=doing))

    def leave(self, _: object) -> Abort:
        """The caller is cancelled."""
        self.task = None
        if self.timer is not None:
            self.timer.cancel()
        self.mailbox.withdraw(self)
        return Abort.SUCCEEDED


class Answer:
    """The right to answer one ask later, from `ctx.answer_later()`. A second answer is a late one."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @property
    def wanted(self) -> bool:
        """True while the caller still waits."""
        return self._ask.task is not None

    def send(self, value: object) -> None:
        """Answer. If nobody waits any more a `LateReply` is reported."""
        self._ask.answer(value)

    def fail(self, error: Exception) -> None:
        """Raise `error` in the caller.

        Raises:
            TypeError: `error` is no exception that was made: `ValueError` instead of `ValueError("why")`. The caller still waits.
        """
        if not isinstance(error, Exception):
            raise TypeError(f"fail() takes an exception, such as ValueError('why'), not {error!r}")
        if not self._ask.returned(error):
            self._ask.answer(None)

    def __repr__(self) -> str:
        return f"<Answer to {self._ask.mailbox.path}{'' if self.wanted else ' (settled)'}>"


class Ref:
    """Anything a message can be sent to: one actor, or several behind a router."""

    __slots__ = ()

    def pick(self, message: object) -> Mailbox:
        """The mailbox this message goes to."""
        raise NotImplementedError

    def tell_nowait(self, message: object) -> None:
        """Send without waiting.

        Raises:
            MailboxFull: no room; the message is in the exception.
            ActorStopped: the actor has ended for good; the message is in the exception.
        """
        box = self.pick(message)
        office = box.office
        if office.capture is not None:
            context = office.capture()
            if context is not None:
                message = Letter(message, context)
        box.put_nowait(message)

    async def tell(self, message: object) -> None:
        """Send, waiting for room if the mailbox is full. If cancelled, nothing was sent.

        Raises:
            ActorStopped: the actor has ended for good; the message is in the exception.
            MailboxFull: only if its overflow policy is to reject.
        """
        box = self.pick(message)
        office = box.office
        if office.capture is not None:
            context = office.capture()
            if context is not None:
                message = Letter(message, context)
        await box.put(message)

    async def ask(self, message: object, timeout: float = 5.0) -> Any:
        """Send and wait at most `timeout` seconds for the answer (what `handle` returns).

        The handler sees the remaining time as `ctx.deadline`. If the caller is cancelled or late while the
        message is still queued, it is skipped unhandled; an ask queued during a restart waits for the next run.

        Raises:
            AskTimeout: no answer in time (a `trio.TooSlowError`).
            HandlerFailed: the handler raised; its error is the cause.
            ActorStopped: the actor has ended for good, or ended while handling this.
            AskCycle: the actors would wait for each other.
            MailboxFull: only if its overflow policy is to reject or to drop.
        """
        box = self.pick(message)
        if box.closed is not None:
            box.sent += 1
            box.rejected += 1
            await checkpoint()
            raise ActorStopped(box.path, message, why=box.closed)
        if not is_wait(timeout):
            raise ValueError(
                f"timeout must be seconds, 0 or more (math.inf waits for ever), not {timeout!r}"
            )
        office = box.office
        end = trio.current_time() + timeout
        ask = Ask(message, box, timeout, end)
        if office.capture is not None:
            ask.context = office.capture()
        asker = running.get()
        if asker is None or not blocks(asker, ask.task):
            return await _wait_for_answer(ask, box, end)
        check_circle(asker, box)
        if asker.asking is None:
            asker.asking = []
        asker.asking.append(ask)
        try:
            return await _wait_for_answer(ask, box, end)
        finally:
            asker.asking.remove(ask)


def _wait_for_answer(ask: Ask, box: Mailbox, end: float) -> Awaitable[object]:
    """Send `ask` and return what its caller has to await."""
    box.put_ask(ask)
    if end < inf:
        timers = box.office.timers
        lane = timers.lanes.get(ask.timeout)
        if lane is None:
            lane = timers.lane(ask.timeout)
        if lane is not None:
            lane.add(ask)
        else:
            ask.timer = timers.call_at(end, ask.expire)
    return wait_task_rescheduled(ask.leave)  # noqa: ASYNC105 - awaited by the caller: a coroutine less


class ActorRef(Ref):
    """The address of one replica, such as `shop/orders/0`. Compare and hash it like the path it stands for."""

    __slots__ = ("_mailbox",)

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    @property
    def path(self) -> str:
        """Where the actor is in its tree."""
        return self._mailbox.path

    @property
    def mailbox(self) -> Mailbox:
        """The queue behind this address, for its statistics."""
        return self._mailbox

    def pick(self, message: object) -> Mailbox:
        return self._mailbox

    def tell_nowait(self, message: object) -> None:
        box = self._mailbox
        office = box.office
        if office.capture is not None:
            context = office.capture()
            if context is not None:
                message = Letter(message, context)
        queue = box.queue
        if not queue or box.closed is not None or len(queue) - box.ticks >= box.capacity:
            box.put_nowait(message)
            return
        # `put_nowait` when nothing is in the way: its call alone would be a tenth of what a message costs. The reader of a
        # queue that is not empty is awake or about to be.
        box.sent += 1
        queue.append(message)

    tell_nowait.__doc__ = Ref.tell_nowait.__doc__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorRef) and other._mailbox is self._mailbox

    def __hash__(self) -> int:
        return hash(self._mailbox)

    def __repr__(self) -> str:
        return f"<ActorRef {self._mailbox.path}>"


_DEPTH: Final = 32


def blocks(asker: Asker, task: trio.lowlevel.Task | None) -> bool:
    """True if the asker's own reading of messages stands still while `task` waits.

    That is so for the run's own task, or the one in which a function reads them instead; and, while an `Actor` has a message in
    hand, for tasks its handler started.
    """
    if task is (asker.mailbox.read_by or asker.task):
        return True
    if not asker.one_at_a_time or asker.mailbox.in_hand is NOTHING:
        return False
    for _ in range(_DEPTH):
        nursery = task.parent_nursery if task is not None else None
        if nursery is None:
            return False
        task = nursery.parent_task
        if task is asker.task:
            return True
    return False


def check_circle(asker: Asker, target: Mailbox) -> None:
    """Raise `AskCycle` if `target` waits, directly or through others, for `asker`."""
    trail: list[tuple[Mailbox, tuple[str, ...]]] = [(target, (asker.mailbox.path, target.path))]
    seen: set[Mailbox] = set()
    while trail:
        box, circle = trail.pop()
        if box is asker.mailbox:
            raise AskCycle(circle)
        if box in seen:
            continue
        seen.add(box)
        run = box.run
        asking: list[Ask] | None = getattr(run, "asking", None)
        trail.extend(
            (ask.mailbox, (*circle, ask.mailbox.path))
            for ask in asking or ()
            if ask.task is not None
        )
