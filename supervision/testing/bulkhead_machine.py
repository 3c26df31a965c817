"""BulkheadMachine: calls that come, wait, end and are cancelled, several in one instant: no place is lost or doubled."""

from __future__ import annotations

from math import inf

import attrs
import trio
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from actors.errors import BulkheadFull
from actors.resilience import Bulkhead, VegasLimit
from supervision.testing.errors import InjectedFault
from supervision.testing.machine import TrioStateMachine, initialize, invariant, precondition, rule
from supervision.testing.sim import Pending

__all__ = ["BulkheadMachine"]


@attrs.define(eq=False)
class _Caller:
    """One call."""

    number: int
    go: trio.Event = attrs.field(factory=trio.Event)
    inside: bool = False
    fails: bool = False
    call: Pending | None = None


class BulkheadMachine(TrioStateMachine):
    """Give `make` for a bulkhead of your own, also one whose limit finds itself."""

    bulkhead: Bulkhead
    law: VegasLimit | None = None
    """How the limit of the bulkhead found itself when it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[_Caller] = []
        self.admitted: list[int] = []
        """The numbers of the calls that were made, in order."""

    def make(self, limit: int, max_waiting: int, max_wait: float) -> Bulkhead:
        """The bulkhead to test."""
        return Bulkhead("x", limit, max_waiting=max_waiting, max_wait=max_wait)

    @initialize(
        limit=st.integers(1, 2),
        max_waiting=st.integers(0, 3),
        max_wait=st.sampled_from([inf, 1.0]),
    )
    def declare(self, limit: int, max_waiting: int, max_wait: float) -> None:
        """Make the bulkhead."""
        self.bulkhead = self.make(limit, max_waiting, max_wait)
        self.law = self.bulkhead.adaptive

    async def _work(self, caller: _Caller) -> None:
        caller.inside = True
        self.admitted.append(caller.number)
        try:
            await caller.go.wait()
            if caller.fails:
                raise InjectedFault
        finally:
            caller.inside = False

    @rule(count=st.integers(1, 3))
    def arrive(self, count: int) -> None:
        """Calls come, several in one instant."""
        for _ in range(count):
            caller = _Caller(len(self.callers))
            caller.call = self.sim.start(self.bulkhead.call, self._work, caller)
            self.callers.append(caller)

    def _in_flight(self) -> list[_Caller]:
        return [c for c in self.callers if c.call is not None and not c.call.done]

    @precondition(lambda self: self._in_flight())
    @rule(data=st.data(), fails=st.booleans(), passes=st.integers(0, 2))
    def leave(self, data: DataObject, fails: bool, passes: int) -> None:
        """Calls come to their end, and others are cancelled, in one instant: also one that has just been handed a place."""
        chosen = data.draw(st.sets(st.sampled_from(range(len(self._in_flight()))), min_size=1))
        cancelled = data.draw(st.sets(st.sampled_from(range(len(self._in_flight())))))
        calls = self._in_flight()
        for index in sorted(chosen):
            calls[index].fails = fails
            calls[index].go.set()
        for index in sorted(cancelled):
            call = calls[index].call
            assert call is not None
            self.sim.start(self._cancel, call, passes)

    async def _cancel(self, call: Pending, passes: int) -> None:
        for _ in range(passes):
            await trio.lowlevel.checkpoint()
        call.cancel()

    @rule(limit=st.integers(0, 3))
    def resize(self, limit: int) -> None:
        """An operator changes the limit; that of a bulkhead made to find it is left to itself again at times."""
        self.bulkhead.resize(self.law if self.law is not None and limit == 3 else limit)

    @rule(seconds=st.sampled_from([0.5, 1.0]))
    def time_passes(self, seconds: float) -> None:
        """Time passes."""
        self.sim.advance(seconds)

    @invariant()
    def accounts(self) -> None:
        """Who is inside is counted, a free place means that nobody waits, and the line is served in order."""
        if not hasattr(self, "bulkhead"):
            return
        found = self.bulkhead.statistics()
        inside = sum(caller.inside for caller in self.callers)
        waiting = sum(not caller.inside for caller in self._in_flight())
        assert found.running == inside, f"{inside} calls are inside: {found}"
        assert found.waiting == waiting, f"{waiting} calls wait: {found}"
        assert not (found.free and waiting), f"a place is free, and somebody waits: {found}"
        law = self.bulkhead.adaptive
        assert law is None or law.minimum <= found.limit <= law.maximum, f"beyond {law}: {found}"
        for caller in self.callers:
            error = caller.call.error if caller.call is not None else None
            if error is not None and not isinstance(error, (BulkheadFull, InjectedFault)):
                raise error  # a fault of its own kind, not of the account

    def finish(self) -> None:
        """When all have left, all places are free."""
        if not hasattr(self, "bulkhead"):
            return
        self.bulkhead.resize(max(1, self.bulkhead.limit))
        for caller in self.callers:
            caller.go.set()
        self.sim.settle()
        assert self.bulkhead.statistics().running == 0, self.bulkhead
