"""The mailbox as a state machine against a model: what is queued, who waits, what was counted, after each step."""

from __future__ import annotations

from collections import deque
from itertools import count
from math import inf

import pytest
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from actors import ActorStopped, Mailbox, MailboxFull, MailboxSpec, Overflow
from actors.mailbox import Tick
from actors.office import Office
from supervision.testing import Pending, Sim
from tests.properties.looking import looking
from tests.properties.world import Boom, check_account

FATES = ("handled", "rejected", "dropped", "dead_lettered")


class Model:
    """What a mailbox is, in plain lists. Items are numbers; negative ones are the library's own ticks."""

    def __init__(self, spec: MailboxSpec) -> None:
        self.spec = spec
        self.queue: deque[int] = deque()
        self.waiting: deque[int] = deque()
        self.reading = False
        self.hand: int | None = None
        self.given: dict[int, int] = {}
        self.counts = dict.fromkeys(FATES, 0)
        self.closed = False
        self.received: list[int] = []
        self.dead: list[int] = []

    def messages(self) -> int:
        """How much of the capacity is used: ticks need none."""
        return sum(item >= 0 for item in self.queue)

    def full(self) -> bool:
        room = self.spec.capacity - self.messages()
        handing_over = self.spec.capacity == 0 and self.reading and not self.queue
        return room <= 0 and not handing_over

    def tell(self, item: int) -> str:
        """`sent`, `waits`, or the error."""
        if (
            not self.closed
            and self.spec.overflow is Overflow.WAIT
            and (self.waiting or self.full())
        ):
            self.waiting.append(item)
            return "waits"
        return self.tell_nowait(item)

    def tell_nowait(self, item: int) -> str:
        if self.closed:
            self.counts["rejected"] += 1
            return "ActorStopped"
        if self.full():
            oldest = next((old for old in self.queue if old >= 0), None)
            if self.spec.overflow is Overflow.DROP_OLDEST and oldest is not None:
                self.queue.remove(oldest)
                self.counts["dropped"] += 1
            elif self.spec.overflow in (Overflow.DROP_OLDEST, Overflow.DROP_NEWEST):
                self.counts["dropped"] += 1
                return "sent"
            else:
                self.counts["rejected"] += 1
                return "MailboxFull"
        self.queue.append(item)
        self.read()
        return "sent"

    def tick(self, item: int) -> None:
        if not self.closed:
            self.queue.append(item)
            self.read()

    def admit(self, least: int = 0) -> None:
        while self.waiting and self.messages() < max(self.spec.capacity, least):
            self.queue.append(self.waiting.popleft())

    def read(self) -> None:
        """A reader that waits takes the first item."""
        if self.reading:
            if not self.queue:
                self.admit(1)
            if self.queue:
                self.reading = False
                self.hand = self.queue.popleft()
                self.received.append(self.hand)
                self.admit(int(self.hand < 0))

    def receive(self) -> None:
        self.done()
        self.reading = True
        self.read()

    def done(self) -> None:
        if self.hand is not None:
            self.hand = None
            self.counts["handled"] += 1

    def run_ended(self, failed: bool) -> None:
        item, self.hand = self.hand, None
        if item is not None:
            given = self.given[item] = self.given.get(item, 0) + failed
            if item < 0:
                self.counts["dropped"] += 1
            elif self.spec.redeliver and given <= self.spec.redeliver:
                self.queue.appendleft(item)
            else:
                self.counts["dead_lettered"] += 1
                self.dead.append(item)
        kept = [item for item in self.queue if item >= 0]
        self.counts["dropped"] += len(self.queue) - len(kept)
        self.queue = deque(kept)

    def close(self, *, keep: bool) -> None:
        self.closed = True
        self.counts["rejected"] += len(self.waiting)
        self.waiting.clear()
        if keep:
            return
        for item in self.queue:
            self.counts["dropped" if item < 0 else "dead_lettered"] += 1
            if item >= 0:
                self.dead.append(item)
        self.queue.clear()


specs = st.builds(
    MailboxSpec,
    capacity=st.sampled_from([0, 1, 2, 3, inf]),
    overflow=st.sampled_from(Overflow),
    redeliver=st.integers(0, 2),
)


class Mailboxes(RuleBasedStateMachine):
    """One mailbox, one reader, many senders."""

    @initialize(spec=specs)
    def open(self, spec) -> None:
        self.sim = Sim()
        self.office = Office()
        self.box = Mailbox("box/0", spec, self.office)
        self.model = Model(spec)
        self.reader: Pending | None = None
        self.got: list[int] = []
        self.senders: dict[int, Pending] = {}
        self.number = 0
        self.current = True

    def next(self) -> int:
        self.number += 1
        return self.number

    def check(self) -> None:
        self.sim.settle()
        if self.reader is not None and self.reader.done:
            self.got.append(self.reader.value())
            self.reader = None
        for number, call in list(self.senders.items()):
            if call.done:
                del self.senders[number]
                if call.error is not None:
                    assert isinstance(call.error, ActorStopped)
                    assert call.error.message == number
        seen, model = self.box.statistics(), self.model
        check_account(seen)
        assert self.got == model.received
        assert (self.reader is not None) == model.reading
        assert sorted(self.senders) == sorted(model.waiting)
        assert seen.waiting == len(model.waiting)
        assert seen.queued == len(model.queue)
        assert seen.in_hand == (model.hand is not None)
        assert {fate: getattr(seen, fate) for fate in FATES} == model.counts
        assert [letter.message for letter in self.office.letters] == model.dead

    @rule()
    def tell_nowait(self) -> None:
        number = self.next()
        answer = self.model.tell_nowait(number)
        refusal = {"ActorStopped": ActorStopped, "MailboxFull": MailboxFull}.get(answer)
        if refusal is None:
            self.box.put_nowait(number)
        else:
            with pytest.raises(refusal) as refused:
                self.box.put_nowait(number)
            assert refused.value.message == number
        self.check()

    @rule()
    def tell(self) -> None:
        number = self.next()
        answer = self.model.tell(number)
        call = self.sim.start(self.box.put, number)
        self.sim.settle()
        assert call.done == (answer != "waits")
        if call.error is not None:
            assert type(call.error).__name__ == answer
        elif answer == "waits":
            self.senders[number] = call
        self.check()

    @rule()
    def tick(self) -> None:
        number = -self.next()
        self.model.tick(number)
        self.box.put_anyway(Tick(number, lambda: True))
        self.check()

    @precondition(lambda self: self.reader is None)
    @rule()
    def receive(self) -> None:
        self.model.receive()
        self.reader = self.sim.start(self.box.receive)
        self.check()

    @precondition(lambda self: self.reader is None)
    @rule()
    def receive_nowait(self) -> None:
        self.model.receive()
        self.model.reading = False
        try:
            self.got.append(self.box.receive_nowait())
        except trio.WouldBlock:
            pass
        self.check()

    @precondition(lambda self: self.reader is not None)
    @rule()
    def reader_is_cancelled(self) -> None:
        self.model.reading = False
        self.cancel_reader()
        self.check()

    def cancel_reader(self) -> None:
        if self.reader is not None:
            self.reader.cancel()
            self.sim.settle()
            assert self.reader.cancelled
            self.reader = None

    @precondition(lambda self: self.senders)
    @rule(data=st.data())
    def sender_is_cancelled(self, data) -> None:
        number = data.draw(st.sampled_from(sorted(self.senders)))
        self.senders[number].cancel()
        self.sim.settle()
        assert self.senders.pop(number).cancelled
        self.model.waiting.remove(number)
        self.check()

    @rule(failed=st.booleans())
    def run_ends(self, failed) -> None:
        self.cancel_reader()
        self.model.reading = False
        self.model.run_ended(failed)
        self.box.run_ended(1, Boom() if failed else None)
        self.check()

    @precondition(lambda self: self.reader is None)
    @rule(keep=st.booleans())
    def close(self, keep) -> None:
        self.model.close(keep=keep)
        (self.box.refuse if keep else self.box.close)("stopped")
        self.check()

    @precondition(lambda self: self.model.closed)
    @rule()
    def reopen(self) -> None:
        self.model.closed = False
        self.box.closed = None
        self.check()

    def teardown(self) -> None:
        if hasattr(self, "sim"):
            self.sim.close()


TestMailboxes = Mailboxes.TestCase
TestMailboxes.settings = looking(250, steps=40)


@pytest.mark.parametrize("overflow", [Overflow.WAIT, Overflow.REJECT])
async def test_nothing_is_lost_between_many_hands(overflow, autojump_clock) -> None:
    """Senders and readers that are cancelled at any moment leave every message either unsent or received once."""
    box = Mailbox("box/0", MailboxSpec(capacity=2, overflow=overflow), Office())
    sent: set[int] = set()
    received: list[object] = []

    async def sender(first: int) -> None:
        for number in range(first, first + 50):
            with trio.move_on_after(0.3):
                try:
                    await box.put(number)
                except MailboxFull:
                    await trio.sleep(0.1)
                else:
                    sent.add(number)

    async def reader() -> None:
        for turn in count():
            with trio.move_on_after(0.1 * (turn % 3)):
                received.append(await box.receive())
            await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        async with trio.open_nursery() as senders:
            for first in range(0, 500, 100):
                senders.start_soon(sender, first)
        while box.queue:
            await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert len(received) == len(set(received))
    assert set(received) == sent
    check_account(box.statistics())
