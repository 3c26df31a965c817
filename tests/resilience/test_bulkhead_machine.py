"""The bulkhead against its model: calls that take one place or several, wait, leave and are cancelled, while the limit changes.

Which promise is shown where:

| number | promise | here | elsewhere |
|---|---|---|---|
| H1 | no more run than the limit says, except what ran before it shrank | `agrees` | |
| H2 | the line is bounded; a caller beyond it is refused without waiting | `start` | |
| H3 | when all is over every place is free, whatever was cancelled when | `agrees`, `teardown` | test_sharing |
| H4 | first come, first served; `enter` overtakes nobody | `agrees`: order, `enter_by_hand` | |
| H5 | a cancelled waiter is never let in, also as its place is handed over | `release_and_cancel_in_one_instant`, `start_cancelled` | |
| H6 | growing wakes exactly as many as fit, shrinking cancels nobody | `resize` | |
| H7 | several places are given in one step; more than there are is refused; big ones do not starve | `start(places=...)`, `resize` | below |
| H8 | a task that would wait for itself is told | | below |
| H9 | each place is given back once | `agrees` | below |
| H10 | keys are independent; idle ones are forgotten, and no place with them | | test_bulkheads |
| H11 | an adaptive limit keeps its bounds; only calls that say something move it, none that took no time; low use does not | `agrees`, `tells`, `low_use` | test_vegas, test_adaptive |
"""

from __future__ import annotations

from math import inf
from random import Random

import pytest
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.errors import BulkheadFull
from actors.options import OptionError
from actors.resilience import Bulkhead, VegasLimit
from actors.resilience.vegas import Vegas
from supervision.testing import Sim
from tests.properties.looking import looking
from tests.resilience.kit import known


class Abrupt(BaseException):
    """Leaves a call like KeyboardInterrupt would."""


class Flight:
    """One call of the test."""

    def __init__(self, machine: BulkheadMachine, places: int = 1) -> None:
        self.machine = machine
        self.places = places
        self.go = trio.Event()
        self.end = ""
        self.ran = False
        self.until = inf
        self.law: Vegas | None = None  # that it was admitted under, as the model has it
        self.round, self.began = 0, 0.0
        self.call = machine.driver.start(self.guarded)

    async def guarded(self) -> object:
        try:
            bulkhead = self.machine.bulkhead
            guard = bulkhead if self.places == 1 else bulkhead.take(self.places)
            return await guard.call(self.work)
        except Abrupt:
            return "abrupt"

    async def work(self) -> object:
        self.ran, self.began = True, trio.current_time()
        self.machine.order.append(self)
        await self.go.wait()
        if self.end == "error":
            raise OSError
        if self.end == "abrupt":
            raise Abrupt
        if self.end == "late":
            raise ExceptionGroup("both", [OSError(), trio.TooSlowError()])
        return self.end

    def finish(self, end: str) -> None:
        self.end = end
        if end == "cancelled":
            self.call.cancel()
        else:
            self.go.set()


TICK = 2.0**-20
LAWS = [
    # Rounds are as short as can be, so that a limit changes within the steps of one example.
    VegasLimit(initial=3, maximum=4, samples=1, probe_after=2),
    VegasLimit(initial=2, minimum=2, maximum=3, samples=2, probe_after=1),
    VegasLimit(initial=1, maximum=2, samples=1),
]


class BulkheadMachine(RuleBasedStateMachine):
    """Calls run, wait, leave and are cancelled before, in and after every step; the limit changes under them."""

    @initialize(
        limit=st.integers(0, 3) | st.sampled_from(LAWS),
        room=st.integers(0, 4),
        wait=st.sampled_from([inf, 2.0, 0.0]),
    )
    def build(self, limit, room, wait) -> None:
        self.driver = Sim()
        self.origin = self.do(trio.current_time) - self.driver.now
        self.room, self.wait = room, wait
        self.bulkhead = Bulkhead("x", limit, max_waiting=room, max_wait=wait, random=Random(1))
        self.random = Random(1)
        self.given(limit)
        self.running: list[object] = []  # flights, and tickets held by hand
        self.line: list[Flight] = []
        self.order: list[Flight] = []  # in which calls began
        self.expected: list[Flight] = []
        self.confirmed: list[Flight] = []
        self.refused = 0

    def do(self, fn, *args):
        async def act():
            return fn(*args)

        return self.driver.run(act)

    # -- the model's only moves

    def given(self, limit: int | VegasLimit) -> None:
        self.law = Vegas(limit, self.random) if isinstance(limit, VegasLimit) else None
        self.fixed = limit

    @property
    def limit(self) -> int:
        return self.fixed if self.law is None else self.law.limit

    def never(self, places: int) -> bool:
        return 0 < (self.limit if self.law is None else self.fixed.maximum) < places

    def begins(self, flight: Flight) -> None:
        self.running.append(flight)
        self.expected.append(flight)
        if self.law is not None:
            flight.law, flight.round = self.law, self.law.round

    def tells(self, flight: Flight, end: str) -> None:
        """H11: only a result and a timeout say something, to the law under which the call was admitted, if it still holds."""
        if flight.law is not None and flight.law is self.law and end in ("ok", "late"):
            took = self.driver.now - (flight.began - self.origin)
            self.law.told(flight.round, took, self.taken(), dropped=end == "late")

    def taken(self) -> int:
        return sum(getattr(one, "places", 1) for one in self.running)

    def room_for(self, places: int) -> bool:
        alone = self.law is not None and not self.taken() and not self.never(places)
        return alone or self.taken() + places <= self.limit

    def fits(self, places: int) -> bool:
        return not self.line and self.room_for(places)

    def place_is_free(self) -> None:
        while self.line and self.room_for(self.line[0].places):
            self.begins(self.line.pop(0))

    # -- rules

    @rule(places=st.sampled_from([1, 1, 1, 2, 3]))
    def start(self, places) -> None:
        flight = Flight(self, places)
        never = self.never(places)  # H7
        if self.fits(places):
            self.begins(flight)
        elif len(self.line) < self.room and self.wait > 0 and not never:
            flight.until = self.driver.now + self.wait
            self.line.append(flight)
        else:  # H2
            self.refused += 1
            self.driver.settle()
            assert isinstance(flight.call.error, BulkheadFull)
            at_once = never or len(self.line) >= self.room
            assert flight.call.error.waited == (None if at_once else 0)
            assert flight.call.error.places == places
            assert not flight.ran
        self.driver.settle()
        if flight in self.line:
            # No two lose patience in one instant: Trio would choose who is first by where their scopes lie in memory.
            self.driver.advance(TICK)
            self.patience_ends(self.driver.now)

    @precondition(lambda self: self.limit > 1 and self.room > 1)
    @rule(leaves=st.booleans())
    def a_small_one_stands_behind_a_big_one(self, leaves) -> None:
        """H7: it is let in the moment the big one gives up."""
        if not self.running:
            self.start(1)
        if not self.line and self.wait > 0:
            self.start(self.limit)
            self.start(1)
            if leaves and self.line:
                self.cancel_waiting(0)

    @rule(places=st.sampled_from([1, 1, 2]))
    def start_cancelled(self, places) -> None:
        flight = Flight(self, places)
        flight.call.cancel()
        free = self.fits(places)
        if free:
            self.expected.append(
                flight
            )  # as any call in a cancelled scope: up to its first checkpoint
        elif len(self.line) >= self.room or self.never(places):
            self.refused += 1
        self.driver.settle()
        assert flight.call.done
        assert flight.ran == free

    def pick(self, number: int) -> Flight | None:
        flights = [flight for flight in self.running if isinstance(flight, Flight)]
        return flights[number % len(flights)] if flights else None

    @rule(
        number=st.integers(0, 9),
        end=st.sampled_from(["ok", "ok", "late", "error", "abrupt", "cancelled"]),
    )
    def finish(self, number, end) -> None:
        flight = self.pick(number)
        if flight is not None:
            flight.finish(end)
            self.tells(flight, end)
            self.running.remove(flight)
            self.place_is_free()
            self.driver.settle()
            assert flight.call.done

    @precondition(lambda self: self.line)
    @rule(number=st.integers(0, 9))
    def cancel_waiting(self, number) -> None:
        flight = self.line.pop(number % len(self.line))
        flight.call.cancel()
        self.place_is_free()  # for who wants less than the one that has gone
        self.driver.settle()
        assert flight.call.cancelled
        assert not flight.ran

    @rule()
    def enter_by_hand(self) -> None:
        free = self.fits(1)
        try:
            self.running.append(self.do(self.bulkhead.enter))
        except BulkheadFull:
            self.refused += 1
            assert not free  # H4
        else:
            assert free

    @precondition(lambda self: any(not isinstance(one, Flight) for one in self.running))
    @rule(
        number=st.integers(0, 9), first=st.sampled_from(["release", "cancel"]), twice=st.booleans()
    )
    def release_and_cancel_in_one_instant(self, number, first, twice) -> None:
        """H5: the place goes to the next that still wants it, in the same instant, in both orders."""
        ticket = next(one for one in self.running if not isinstance(one, Flight))
        self.running.remove(ticket)
        leaving = self.line[: 2 if twice else 1]

        def act() -> None:
            steps = [lambda: self.bulkhead.left(ticket)]
            steps += [flight.call.cancel for flight in leaving]
            for step in steps if first == "release" else reversed(steps):
                step()

        del self.line[: len(leaving)]
        self.place_is_free()
        self.do(act)
        self.driver.settle()
        assert all(flight.call.cancelled and not flight.ran for flight in leaving)

    @precondition(lambda self: self.law is not None and not self.line)
    @rule(calls=st.integers(1, 5), halves=st.integers(0, 2))
    def low_use(self, calls, halves) -> None:
        """H11: with less than half of the places in use, calls that take what they took move nothing."""
        limit, law = self.limit, self.law
        low = not self.running and limit == law.settled > 2 > law._most
        for _ in range(calls):
            if self.fits(1):
                self.start(1)
                self.time_passes(halves)
                self.finish(sum(isinstance(one, Flight) for one in self.running) - 1, "ok")
        assert self.limit == limit or not low

    @rule(limit=st.integers(0, 4) | st.sampled_from(LAWS))
    def resize(self, limit) -> None:
        self.given(limit)
        never = [flight for flight in self.line if self.never(flight.places)]
        self.line = [flight for flight in self.line if flight not in never]
        self.refused += len(never)
        grown, waiting = max(0, self.limit - self.taken()), len(self.line)
        single = all(flight.places == 1 for flight in self.line)
        self.place_is_free()
        assert waiting - len(self.line) == min(grown, waiting) or not single  # H6
        self.do(self.bulkhead.resize, limit)
        for flight in never:  # H7: or nobody behind it would ever be let in
            assert isinstance(flight.call.error, BulkheadFull)
            assert not flight.ran

    @rule(halves=st.integers(1, 5))
    def time_passes(self, halves) -> None:
        began = self.driver.now
        self.driver.advance(halves / 2)
        for half in range(1, halves + 1):
            self.patience_ends(began + half / 2)

    def patience_ends(self, now: float) -> None:
        over = [flight for flight in self.line if flight.until <= now]
        self.line = [flight for flight in self.line if flight not in over]
        for number, flight in enumerate(over):
            if flight.ran:
                # In one instant the one before it gave up, which wanted more: the place was handed over a moment before.
                assert any(other.places > 1 for other in over[:number])
                self.begins(flight)
                assert self.taken() <= self.limit
                continue
            self.refused += 1
            assert isinstance(flight.call.error, BulkheadFull)
            assert flight.call.error.waited == self.wait
        self.place_is_free()

    # -- what holds always

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "driver"):
            return
        stats = self.bulkhead.statistics()
        assert stats.running == self.taken()
        assert stats.waiting == len(self.line) <= self.room
        assert stats.free == max(0, self.limit - self.taken())  # H1, H3
        assert stats.limit == self.bulkhead.limit == self.limit
        assert stats.adaptive == (self.law is not None)
        if self.law is not None:  # H11
            assert self.fixed.minimum <= stats.limit <= self.fixed.maximum
            assert stats.alone == self.law.alone
            assert known(self.bulkhead._law) == known(self.law)
        assert stats.rejected == self.refused
        # H4: exactly these ran, in this order; those let in at one instant are run by Trio in any order.
        assert set(self.order) == set(self.expected)
        assert len(self.order) == len(self.expected)
        assert self.order[: len(self.confirmed)] == self.confirmed
        self.confirmed = list(self.order)
        for flight in self.running:
            assert not isinstance(flight, Flight) or not flight.call.done

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            for one in list(self.running):
                if not isinstance(one, Flight):
                    self.running.remove(one)
                    self.do(self.bulkhead.left, one)
                    self.place_is_free()
            self.resize(4)
            while self.running:
                self.finish(0, "ok")
                self.agrees()
            assert self.bulkhead._holders == {}
            assert not self.line
        finally:
            self.driver.close()


TestBulkheadMachine = BulkheadMachine.TestCase
TestBulkheadMachine.settings = looking(150, steps=50)


async def test_h7_a_big_call_does_not_starve(autojump_clock):
    """H7: small calls that come later, however many, do not overtake one that waits for three places."""
    bulkhead, order = Bulkhead("x", 3, max_waiting=50), []

    async def work(name, seconds):
        order.append(name)
        await trio.sleep(seconds)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bulkhead.call, work, "first", 5)
        await trio.sleep(1)
        nursery.start_soon(bulkhead.take(3).call, work, "big", 1)
        await trio.sleep(1)
        for number in range(20):
            nursery.start_soon(bulkhead.call, work, f"small {number}", 1)
    assert order[:2] == ["first", "big"]
    assert len(order) == 22
    assert bulkhead.statistics().free == 3
    assert bulkhead.statistics().admitted == 22


async def test_h7_when_a_big_call_gives_up_those_behind_it_are_let_in(autojump_clock):
    """H7: a call that waits for more places than are free holds up others only as long as it waits."""
    bulkhead, began = Bulkhead("x", 2, max_waiting=5), []

    async def small():
        began.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bulkhead.call, trio.sleep, 10)
        await trio.sleep(1)
        with trio.move_on_after(3):
            nursery.start_soon(later, 1, bulkhead, small)
            await bulkhead.take(2).call(trio.sleep, 1)
    assert began == [4]


async def later(seconds, bulkhead, fn):
    await trio.sleep(seconds)
    await bulkhead.call(fn)


async def test_h7_all_forms_take_several_places(autojump_clock):
    """H7: as a block, by a call, as a decorator and by hand it is so many places, given back whatever happens."""
    bulkhead = Bulkhead("x", 3)
    three = bulkhead.take(3)

    async def work():
        assert bulkhead.statistics().free == 0
        raise OSError

    for form in (lambda: three.call(work), three(work)):
        with pytest.raises(OSError):
            await form()
    async with three:
        assert bulkhead.statistics().running == 3
        with pytest.raises(
            BulkheadFull, match=r"is full .3 running, 0 waiting., not 3 places at once came free"
        ):
            three.enter()
    with trio.move_on_after(1):
        await three.call(trio.sleep_forever)
    three.left(three.enter())
    assert bulkhead.statistics().free == 3
    with pytest.raises(
        BulkheadFull, match="bulkhead x has 3 places, and 4 are wanted; the call was"
    ):
        await bulkhead.take(4).call(work)


@pytest.mark.parametrize("places", [0, -1, True, 1.5, None])
def test_h7_places_are_counted_in_whole_numbers(places):
    """H7: no call takes no place, a part of one, or fewer."""
    with pytest.raises(OptionError, match="bulkhead 'x': places must be a whole number, 1 or more"):
        Bulkhead("x", 3).take(places)


async def test_h8_a_task_that_would_wait_for_itself_is_told(autojump_clock):
    """H8: a task that holds the only place and asks for another gets an error, not a deadlock."""
    bulkhead = Bulkhead("x", 1, max_waiting=5)

    async def again():
        await bulkhead.call(trio.sleep, 1)

    with pytest.raises(RuntimeError, match="bulkhead x and would wait for itself"):
        await bulkhead.call(again)
    assert bulkhead.statistics().free == 1


async def test_h9_a_place_that_was_not_taken_cannot_be_given_back(autojump_clock):
    """H9: giving back twice is an error and makes no place."""
    bulkhead = Bulkhead("x", 1)
    ticket = bulkhead.enter()
    bulkhead.left(ticket)

    with pytest.raises(KeyError):
        bulkhead.left(ticket)
    assert bulkhead.statistics().free == 1


@pytest.mark.parametrize("several", [False, True])
def test_h3_outside_of_trio_no_place_is_lost(several):
    """H3: a call from a thread, or from another event loop, is refused by Trio and has taken nothing."""
    bulkhead = Bulkhead("x", 2)
    guard = bulkhead.take(2) if several else bulkhead

    for enter in (guard.enter, guard.enter_at_once, guard.call(trio.sleep, 1).__await__().__next__):
        with pytest.raises(RuntimeError, match="async context"):
            enter()
    assert bulkhead.statistics().free == 2
