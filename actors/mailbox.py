"""The mailbox: a bounded queue with one reader, which outlives the runs that read it.

Floor: above office. Theory:

* A channel pays one scheduler pass a message. Here the reader drains what is there (`actor.py`) and a sender only
  appends, waking the reader if it sleeps; so the price of a message is a deque's.
* A waiting sender's message is moved into the queue by whoever makes room, never by the sender when it wakes. So
  a cancelled sender has either sent or not, and no wake-up can be lost. A cancelled reader takes nothing: items
  are popped by a running reader only.
* Most messages lie in the queue bare. Those that need more (an ask, a timer's tick, a traced or redelivered message)
  lie there as a `Letter`.
* Accounting, true between any two checkpoints:
  `sent = handled + rejected + dropped + dead_lettered + queued + in hand`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Final, Protocol

import outcome
import trio
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from actors.deadletters import DeadLetter
from actors.errors import ActorStopped, HandlerFailed, MailboxFull
from actors.letters import NOTHING, Letter, Tick
from actors.mailbox_spec import MailboxSpec, MailboxStatistics, Overflow
from actors.office import Office

__all__ = ["Mailbox", "Reader"]


_DROPS: Final = (Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)
_UNUSED: Final[deque[object]] = deque(maxlen=0)
"""Stands for the empty queue of a mailbox that nobody has written to yet: a deque of its own would be 760 bytes."""


class Reader(Protocol):
    """What a mailbox must know of the run that reads it."""

    def between_messages(self) -> bool:
        """The run has none in hand: True if it may take another. A run that was asked to stop ends here."""
        ...


class Mailbox:
    """The queue of one replica. Senders use an `ActorRef`; a run reads it.

    An async function that is a worker reads its own with `await ctx.mailbox.receive()` or `async for`.
    """

    __slots__ = (
        "capacity",
        "closed",
        "dead_lettered",
        "drop",
        "dropped",
        "handled",
        "in_hand",
        "office",
        "path",
        "peak",
        "queue",
        "read_by",
        "reader",
        "redeliver",
        "rejected",
        "run",
        "sent",
        "skipped",
        "ticks",
        "waiters",
    )

    def __init__(self, path: str, spec: MailboxSpec, office: Office) -> None:
        self.path = path
        self.office = office
        self.capacity = spec.capacity
        self.drop = spec.overflow
        self.redeliver = spec.redeliver
        self.queue: deque[object] = _UNUSED  # most mailboxes are never written to
        self.waiters: OrderedDict[object, object] | None = None  # task, or an ask itself -> item
        self.reader: trio.lowlevel.Task | None = None
        self.read_by: trio.lowlevel.Task | None = None
        """The task that last waited as the reader of a function: it need not be the run's own."""
        self.run: Reader | None = None
        """The run that reads it now (a `Context`), or None between runs."""
        self.in_hand: object = NOTHING
        self.closed: str | None = None
        """Why nobody will read it again; None while it is open."""
        self.ticks = 0
        self.sent = self.handled = self.rejected = self.dropped = self.skipped = 0
        self.dead_lettered = self.peak = 0

    # -- sending ---------------------------------------------------------------------------------

    def put_nowait(self, item: object) -> None:
        """Queue `item`, or do what the overflow policy says.

        Raises:
            MailboxFull: no room, and the policy is to wait or to reject.
            ActorStopped: nobody will read it again.
        """
        queue = self.queue
        if self.closed is not None or len(queue) - self.ticks >= self.capacity:
            self._no_room(item)
            return
        if self.reader is not None:
            self.wake()  # first: from a thread without Trio it raises, and nothing was sent
        if queue is _UNUSED:
            queue = self.queue = deque()
        self.sent += 1
        queue.append(item)

    async def put(self, item: object) -> None:
        """Queue `item`, waiting for room if the policy is to wait. A cancelled `put` has not sent."""
        await checkpoint()
        if not self.must_wait():
            self.put_nowait(item)
            return
        task = current_task()
        self.enqueue_waiter(task, item)

        def leave(_: object) -> Abort:
            self.withdraw(task)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(leave)

    def put_anyway(self, item: object) -> None:
        """Queue `item` beyond the user's capacity: timers' ticks and `Down` notices. Ignored when closed."""
        if self.closed is not None:
            return
        self.wake()
        self.sent += 1
        self.ticks += 1
        self.open_queue().append(item)

    def open_queue(self) -> deque[object]:
        """The queue, made on first use."""
        if self.queue is _UNUSED:
            self.queue = deque()
        return self.queue

    def must_wait(self) -> bool:
        """True if a sender has to wait for room now."""
        if len(self.queue) - self.ticks < self.capacity and not self.waiters:
            return False
        if self.closed is not None or self.drop is not Overflow.WAIT:
            return False
        return bool(self.waiters) or not self._handing_over()

    def put_ask(self, ask: Letter) -> None:
        """Queue `ask`, whose sender waits for the answer anyway; without room it waits in line for it."""
        queue = self.queue
        if (
            queue
            and len(queue) - self.ticks < self.capacity
            and not self.waiters
            and self.closed is None
        ):
            self.sent += 1  # `put_nowait` when nothing is in the way, as in `ActorRef.tell_nowait`
            queue.append(ask)
        elif self.must_wait():
            self.enqueue_waiter(ask, ask)
        else:
            self.put_nowait(ask)

    def enqueue_waiter(self, key: object, item: object) -> None:
        """Let `item` wait for room under `key`: a task to wake, or an ask that waits for its answer."""
        if self.waiters is None:
            self.waiters = OrderedDict()
        self.waiters[key] = item

    def withdraw(self, key: object) -> bool:
        """Give up waiting for room; True if it had not been admitted yet."""
        if self.waiters and key in self.waiters:
            del self.waiters[key]
            return True
        return False

    def _handing_over(self) -> bool:
        return self.capacity == 0 and self.reader is not None and not self.queue

    def _no_room(self, item: object) -> None:
        message = item.message if isinstance(item, Letter) else item
        if self.closed is None and self._handing_over():
            self.wake()
            self.sent += 1
            self.open_queue().append(item)
            return
        self.sent += 1
        if self.closed is not None:
            self.rejected += 1
            raise ActorStopped(self.path, message, why=self.closed)
        if self.drop is Overflow.DROP_OLDEST and len(self.queue) > self.ticks:
            self._discard(self._pop_oldest())
            self.open_queue().append(item)
        elif self.drop in _DROPS and not (isinstance(item, Letter) and item.waits):
            self._discard(item)
        else:
            self.rejected += 1
            raise MailboxFull(self.path, message, queued=len(self.queue), capacity=self.capacity)

    def _pop_oldest(self) -> object:
        """Take out the oldest message of a user: ticks are beyond the capacity and not subject to its policy."""
        queue = self.queue
        index = next(i for i, item in enumerate(queue) if not isinstance(item, Tick))
        item = queue[index]
        del queue[index]
        return item

    def _discard(self, item: object) -> None:
        self.dropped += 1
        if isinstance(item, Letter):
            item.returned(
                MailboxFull(self.path, item.message, queued=len(self.queue), capacity=self.capacity)
            )

    def wake(self) -> None:
        """Let a waiting reader look again. Called from a thread without Trio it raises, and the reader waits on."""
        task, self.reader = self.reader, None
        if task is not None:
            try:
                reschedule(task)
            except RuntimeError:
                self.reader = task
                raise

    # -- receiving -------------------------------------------------------------------------------

    def admit(self, taken: object = NOTHING) -> None:
        """Move waiting messages into the room there is, now that `taken` was popped, or that the reader found nothing.

        Where there never is room (capacity 0) one comes in when the reader finds nothing, or takes a tick: else timers could
        keep senders out for ever.
        """
        waiters = self.waiters
        tick = isinstance(taken, Tick)  # not accepted yet, so still counted
        limit = max(self.capacity, tick or taken is NOTHING)
        while waiters and len(self.queue) - self.ticks + tick < limit:
            key, item = waiters.popitem(last=False)
            self.sent += 1
            self.open_queue().append(item)
            if isinstance(key, trio.lowlevel.Task):
                reschedule(key)

    async def wait(self) -> None:
        """Park until the queue holds something. Only one task may wait."""
        self.park()
        await wait_task_rescheduled(self.unpark)

    def park(self) -> None:
        """The current task is about to wait as the reader.

        Raises:
            trio.BusyResourceError: another task already does.
        """
        if self.reader is not None:
            raise trio.BusyResourceError(f"another task already reads the mailbox of {self.path}")
        self.reader = self.read_by = current_task()

    def unpark(self, _: object) -> Abort:
        """The waiting reader is cancelled."""
        self.reader = None
        return Abort.SUCCEEDED

    def take(self) -> object:
        """The next item, now in hand, or NOTHING. Stale letters are skipped and counted."""
        while True:
            if self.waiters and not self.queue:
                self.admit()
            if not self.queue:
                return NOTHING
            self.peak = max(self.peak, len(self.queue))
            item = self.queue.popleft()
            if self.waiters:
                self.admit(item)
            if not isinstance(item, Letter):
                self.in_hand = item
                return item
            if self.accept(item):
                return item

    def accept(self, item: Letter) -> bool:
        """Take in hand a letter that was popped; False if it is stale, which is counted."""
        if isinstance(item, Tick):
            self.ticks -= 1
        if item.stale():
            self.skip(item)
            return False
        self.in_hand = item
        return True

    def skip(self, item: Letter) -> None:
        """Count `item` as dropped because nobody wants it any more."""
        self.dropped += 1
        if not isinstance(item, Tick):
            self.skipped += 1

    def done(self) -> None:
        """What was in hand has been handled."""
        item = self.in_hand
        if item is not NOTHING:
            self.in_hand = NOTHING
            self.handled += 1
            if isinstance(item, Letter):
                item.finished(self.run)

    def receive_nowait(self) -> Any:
        """The next message for an async-function worker; what it took before counts as handled.

        Raises:
            trio.WouldBlock: there is none.
        """
        self.done()
        item = self.take() if self.run is None or self.run.between_messages() else NOTHING
        if item is NOTHING:
            raise trio.WouldBlock
        return item.message if isinstance(item, Letter) else item

    async def receive(self) -> Any:
        """Wait for the next message. A cancelled `receive` takes nothing; what was taken before counts as handled."""
        self.done()
        if self.run is not None:
            self.run.between_messages()
        await checkpoint()
        while True:
            try:
                return self.receive_nowait()
            except trio.WouldBlock:
                await self.wait()

    def __aiter__(self) -> Mailbox:
        return self

    async def __anext__(self) -> Any:
        return await self.receive()

    # -- the ends of runs ------------------------------------------------------------------------

    def run_ended(self, run: int, error: BaseException | None) -> None:
        """Settle what was in hand when a run ended, and drop the ticks of its timers.

        `error` is what the run raised, or None if it was cancelled. A worker that returns has handled its last message.
        """
        item, self.in_hand = self.in_hand, NOTHING
        self.read_by = None
        if item is not NOTHING:
            self._settle(item, run, error)
        if self.ticks:
            kept = deque(item for item in self.queue if not isinstance(item, Tick))
            self.dropped += len(self.queue) - len(kept)
            self.queue = kept
            self.ticks = 0

    def _settle(self, item: object, run: int, error: BaseException | None) -> None:
        letter = item if isinstance(item, Letter) else Letter(item)
        deliveries = letter.deliveries + (1 if error is not None else 0)
        answer = (
            ActorStopped(self.path, letter.message, why="interrupted")
            if error is None
            else HandlerFailed(self.path, letter.message, error=error)
        )
        if isinstance(item, Tick):
            self.dropped += 1
        elif letter.returned(answer):
            reason = "interrupted" if error is None else "failed"
            self.dead_letter(letter, reason, run, error, keep=False)
        elif self.redeliver and deliveries <= self.redeliver:
            letter.deliveries = deliveries
            self.open_queue().appendleft(letter)
        else:
            failed = "poison" if self.redeliver else "failed"
            reason = "interrupted" if error is None else failed
            letter.deliveries = max(deliveries, 1)
            self.dead_letter(letter, reason, run, error)

    def dead_letter(
        self,
        letter: Letter,
        reason: str,
        run: int,
        error: BaseException | None,
        *,
        keep: bool = True,
    ) -> None:
        """Count a message as dead; `keep` it for a person unless its sender has been told."""
        self.dead_lettered += 1
        if keep:
            self.office.letters.add(
                DeadLetter(
                    path=self.path,
                    message=letter.message,
                    reason=reason,
                    time=trio.current_time(),
                    run=run,
                    error=error,
                    deliveries=letter.deliveries,
                )
            )

    def refuse(self, why: str) -> None:
        """Take no more messages, keep those queued: the beginning of a drain."""
        self.closed = why
        self._dismiss_waiters()

    def close(self, why: str) -> None:
        """Nobody will read it again: queued messages become dead letters, waiting senders get `ActorStopped`."""
        self.closed = why
        self._dismiss_waiters()
        queue, self.queue = self.queue, _UNUSED
        self.ticks = 0
        for item in queue:
            letter = item if isinstance(item, Letter) else Letter(item)
            if isinstance(letter, Tick):
                self.dropped += 1
            elif letter.returned(ActorStopped(self.path, letter.message, why=why)):
                self.rejected += 1
            elif letter.stale():
                self.skip(letter)
            else:
                self.dead_letter(letter, "stopped", 0, None)

    def _dismiss_waiters(self) -> None:
        while self.waiters:
            key, item = self.waiters.popitem(last=False)
            message = item.message if isinstance(item, Letter) else item
            error = ActorStopped(self.path, message, why=self.closed or "stopped")
            self.sent += 1
            self.rejected += 1
            if isinstance(key, trio.lowlevel.Task):
                reschedule(key, outcome.Error(error))
            elif isinstance(key, Letter):
                key.returned(error)

    # -- looking ---------------------------------------------------------------------------------

    def statistics(self) -> MailboxStatistics:
        """One look, at no cost to the reader."""
        queued = len(self.queue)
        return MailboxStatistics(
            capacity=self.capacity,
            queued=queued,
            in_hand=int(self.in_hand is not NOTHING),
            peak=max(self.peak, queued),
            sent=self.sent,
            handled=self.handled,
            rejected=self.rejected,
            dropped=self.dropped,
            skipped=self.skipped,
            dead_lettered=self.dead_lettered,
            waiting=len(self.waiters or ()),
        )

    def __repr__(self) -> str:
        state = self.closed or "open"
        return f"<Mailbox {self.path} {state} {len(self.queue)}/{self.capacity:g} queued>"
