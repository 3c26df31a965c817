"""The bulkhead against its model. The numbers H1 to H9 are those of the promises listed here.

H1 no more run than the limit says, except what ran before it shrank; H2 the line is bounded, and a caller beyond it is refused
without waiting; H3 when all is over every place is free, whatever was cancelled when; H4 first come, first served, and `enter`
overtakes nobody; H5 a cancelled waiter is never let in, also in the instant its place is handed over; H6 growing wakes exactly
as many as fit, shrinking cancels nobody; H8 a task that would wait for itself is told; H9 each place is given back once.
H7 (weights), H10 (one per key) and H11 (adaptive limits) speak of what this bulkhead does not have.
"""

from __future__ import annotations

from math import inf

import pytest
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.errors import BulkheadFull
from actors.resilience import Bulkhead
from tests.properties.driver import Driver
from tests.properties.looking import looking


class Abrupt(BaseException):
    """Leaves a call like KeyboardInterrupt would."""


class Flight:
    """One call of the test."""

    def __init__(self, machine: BulkheadMachine) -> None:
        self.machine = machine
        self.go = trio.Event()
        self.end = ""
        self.ran = False
        self.until = inf
        self.call = machine.driver.start(self.guarded)

    async def guarded(self) -> object:
        try:
            return await self.machine.bulkhead.call(self.work)
        except Abrupt:
            return "abrupt"

    async def work(self) -> object:
        self.ran = True
        self.machine.order.append(self)
        await self.go.wait()
        if self.end == "error":
            raise OSError
        if self.end == "abrupt":
            raise Abrupt
        return self.end

    def finish(self, end: str) -> None:
        self.end = end
        if end == "cancelled":
            self.call.cancel()
        else:
            self.go.set()


class BulkheadMachine(RuleBasedStateMachine):
    """Calls run, wait, leave and are cancelled before, in and after every step; the limit changes under them."""

    @initialize(
        limit=st.integers(0, 3), room=st.integers(0, 4), wait=st.sampled_from([inf, 2.0, 0.0])
    )
    def build(self, limit, room, wait) -> None:
        self.driver = Driver()
        self.limit, self.room, self.wait = limit, room, wait
        self.bulkhead = Bulkhead("x", limit, max_waiting=room, max_wait=wait)
        self.running: list[object] = []  # flights, and tickets held by hand
        self.line: list[Flight] = []
        self.order: list[Flight] = []  # in which calls began
        self.expected: list[Flight] = []
        self.confirmed: list[Flight] = []
        self.refused = 0

    def do(self, fn, *args):
        async def act():
            return fn(*args)

        return self.driver.call(act)

    # -- the model's only two moves

    def begins(self, flight: Flight) -> None:
        self.running.append(flight)
        self.expected.append(flight)

    def place_is_free(self) -> None:
        while self.line and len(self.running) < self.limit:
            self.begins(self.line.pop(0))

    # -- rules

    @rule()
    def start(self) -> None:
        flight = Flight(self)
        if len(self.running) < self.limit and not self.line:
            self.begins(flight)
        elif len(self.line) < self.room and self.wait > 0:
            flight.until = self.driver.now + self.wait
            self.line.append(flight)
        else:  # H2
            self.refused += 1
            self.driver.settle()
            assert isinstance(flight.call.error, BulkheadFull)
            assert flight.call.error.waited == (None if len(self.line) >= self.room else 0)
            assert not flight.ran
        self.driver.settle()

    @rule()
    def start_cancelled(self) -> None:
        flight = Flight(self)
        flight.call.cancel()
        free = len(self.running) < self.limit and not self.line
        if free:
            self.expected.append(
                flight
            )  # as any call in a cancelled scope: up to its first checkpoint
        elif len(self.line) >= self.room:
            self.refused += 1
        self.driver.settle()
        assert flight.call.done
        assert flight.ran == free

    def pick(self, number: int) -> Flight | None:
        flights = [flight for flight in self.running if isinstance(flight, Flight)]
        return flights[number % len(flights)] if flights else None

    @rule(number=st.integers(0, 9), end=st.sampled_from(["ok", "error", "abrupt", "cancelled"]))
    def finish(self, number, end) -> None:
        flight = self.pick(number)
        if flight is not None:
            flight.finish(end)
            self.running.remove(flight)
            self.place_is_free()
            self.driver.settle()
            assert flight.call.done

    @precondition(lambda self: self.line)
    @rule(number=st.integers(0, 9))
    def cancel_waiting(self, number) -> None:
        flight = self.line.pop(number % len(self.line))
        flight.call.cancel()
        self.driver.settle()
        assert flight.call.cancelled
        assert not flight.ran

    @rule()
    def enter_by_hand(self) -> None:
        free = len(self.running) < self.limit and not self.line
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

    @rule(limit=st.integers(0, 4))
    def resize(self, limit) -> None:
        grown = max(0, limit - len(self.running))
        waiting = len(self.line)
        self.limit = limit
        self.place_is_free()
        assert waiting - len(self.line) == min(grown, waiting)  # H6
        self.do(self.bulkhead.resize, limit)

    @rule(halves=st.integers(1, 5))
    def time_passes(self, halves) -> None:
        self.driver.advance(halves / 2)
        gone = [flight for flight in self.line if flight.until <= self.driver.now]
        self.line = [flight for flight in self.line if flight not in gone]
        self.refused += len(gone)
        for flight in gone:
            assert isinstance(flight.call.error, BulkheadFull)
            assert flight.call.error.waited == self.wait
            assert not flight.ran

    # -- what holds always

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "driver"):
            return
        stats = self.bulkhead.statistics()
        assert stats.running == len(self.running)
        assert stats.waiting == len(self.line) <= self.room
        assert stats.free == max(0, self.limit - len(self.running))  # H1, H3
        assert stats.limit == self.bulkhead.limit == self.limit
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
