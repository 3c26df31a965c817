"""Bugs to plant: each a small change of our own code, undone at the end of its block."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from trio.lowlevel import Abort, current_task, wait_task_rescheduled

from actors.jobs.outcomes import Completed
from actors.jobs.shift import Shift
from actors.jobs.sqlite import store
from actors.letters import Letter, Tick
from actors.mailbox import Mailbox
from actors.resilience import Bulkhead, CircuitBreaker
from actors.resilience.breaker_policy import BreakerState
from supervision.branch import Branch
from supervision.child import Replica
from supervision.member import Member
from supervision.plan import Ending
from supervision.restart import Budget, RestartPolicy
from supervision.states import State

__all__ = ["BUGS"]

Plant = Callable[[pytest.MonkeyPatch], None]
BUGS: dict[str, Plant] = {}
"""By name."""


def bug(plant: Plant) -> Plant:
    BUGS[plant.__name__] = plant
    return plant


def rewritten(right: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """A function of ours with other words in one place, which has to be there."""
    text = textwrap.dedent(inspect.getsource(right))
    assert text.count(old) == 1, f"{right.__qualname__} has changed: plant its bug anew"
    made: dict[str, Any] = {}
    future = "from __future__ import annotations\n"
    exec(future + text.replace(old, new), right.__globals__, made)
    return made[right.__name__]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Inside, our code has this bug."""
    with pytest.MonkeyPatch.context() as patch:
        BUGS[name](patch)
        yield


@bug
def lost_restart(patch: pytest.MonkeyPatch) -> None:
    """A crash while a sibling is being stopped is taken for a part of that stop."""
    right = Branch._ended_by_itself

    def wrong(self: Branch, member: Member, how: Ending, error: Any, now: float) -> None:
        if any(m.alive and m.cause is not None for m in self.members() if m is not member):
            member.become(State.STOPPED)
            return
        right(self, member, how, error, now)

    patch.setattr(Branch, "_ended_by_itself", wrong)


@bug
def lost_wake_up(patch: pytest.MonkeyPatch) -> None:
    """The reader notes that it sleeps only one pass after it has looked."""
    import trio

    async def wrong(self: Mailbox) -> None:
        await trio.lowlevel.checkpoint()
        self.reader = current_task()

        def unpark(_: object) -> Abort:
            self.reader = None
            return Abort.SUCCEEDED

        await wait_task_rescheduled(unpark)

    patch.setattr(Mailbox, "wait", wrong)


@bug
def budget_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """One restart more than the window allows."""

    def wrong(self: Budget, now: float) -> bool:
        if self.intensity is None:
            return True
        if self.used(now) > self.intensity:
            return False
        self._stamps.append(now)
        return True

    patch.setattr(Budget, "spend", wrong)


@bug
def window_edge(patch: pytest.MonkeyPatch) -> None:
    """A restart exactly one period ago does not count any more."""

    def wrong(self: Budget, now: float) -> int:
        while self._stamps and now - self._stamps[0] >= self.period:
            self._stamps.popleft()
        return len(self._stamps)

    patch.setattr(Budget, "used", wrong)


@bug
def limit_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """A replica is given up one restart too early."""
    patch.setattr(
        RestartPolicy,
        "exhausted",
        lambda self, failures: self.max_restarts != 0 and failures >= self.max_restarts,
    )


@bug
def backoff_never_reset(patch: pytest.MonkeyPatch) -> None:
    """Good running does not clear the count of failures."""
    right = Branch._ended_by_itself

    def wrong(self: Branch, member: Member, how: Ending, error: Any, now: float) -> None:
        member.ready_at = None
        right(self, member, how, error, now)

    patch.setattr(Branch, "_ended_by_itself", wrong)


@bug
def late_result_counted(patch: pytest.MonkeyPatch) -> None:
    """The result of a call that a breaker admitted before its last change is counted after it."""
    right = CircuitBreaker._book

    def wrong(self: CircuitBreaker, ticket: Any, outcome: Any, error: Any) -> None:
        if ticket is not self._plain:
            ticket.generation = self._generation
        right(self, ticket, outcome, error)

    patch.setattr(CircuitBreaker, "_book", wrong)


@bug
def trial_place_leaked(patch: pytest.MonkeyPatch) -> None:
    """A trial that is cancelled keeps its place."""
    right = CircuitBreaker.left

    def wrong(self: CircuitBreaker, ticket: Any) -> None:
        if self._state is not BreakerState.HALF_OPEN:
            right(self, ticket)

    patch.setattr(CircuitBreaker, "left", wrong)


@bug
def message_lost_at_second_crash(patch: pytest.MonkeyPatch) -> None:
    """A message whose handler fails at its second delivery too is forgotten, not set aside."""
    right = Mailbox._settle

    def wrong(self: Mailbox, item: object, run: int, error: BaseException | None) -> None:
        if isinstance(item, Letter) and item.deliveries >= 1:
            return
        right(self, item, run, error)

    patch.setattr(Mailbox, "_settle", wrong)


@bug
def redelivered_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """A message that is delivered again waits behind those that came after it."""
    right = Mailbox._settle

    def wrong(self: Mailbox, item: object, run: int, error: BaseException | None) -> None:
        letter = item if isinstance(item, Letter) else Letter(item)
        if (
            error is None
            or isinstance(item, Tick)
            or letter.waits
            or letter.deliveries >= self.redeliver
        ):
            right(self, item, run, error)
        else:
            letter.deliveries += 1
            self.open_queue().append(letter)

    patch.setattr(Mailbox, "_settle", wrong)


@bug
def redelivered_twice(patch: pytest.MonkeyPatch) -> None:
    """A message that is delivered again is queued twice, and counted as if it had been sent twice."""
    right = Mailbox._settle

    def wrong(self: Mailbox, item: object, run: int, error: BaseException | None) -> None:
        before = len(self.queue)
        right(self, item, run, error)
        if len(self.queue) > before:
            self.sent += 1
            self.queue.appendleft(self.queue[0])

    patch.setattr(Mailbox, "_settle", wrong)


@bug
def backoff_timer_during_stop(patch: pytest.MonkeyPatch) -> None:
    """A stop forgets the timers of children in backoff while it waits for others."""

    def wrong(self: Branch) -> None:
        for member in self.members():
            if isinstance(member, Branch):
                member.halt()

    patch.setattr(Branch, "halt", wrong)


@bug
def stale_exit(patch: pytest.MonkeyPatch) -> None:
    """A child that an operator restarts begins its new run although the old one is still dying."""
    right = Replica.ask

    def wrong(self: Replica, why: str) -> None:
        right(self, why)
        if why == "an operator restarts it" and self.alive:
            self.alive = False
            self.become(State.RESTARTING)
            self.start()

    patch.setattr(Replica, "ask", wrong)


@bug
def failed_shown_as_running(patch: pytest.MonkeyPatch) -> None:
    """A replica that has failed for good is reported as running."""
    right = Branch._rest

    def wrong(self: Branch, member: Member, decision: Any) -> None:
        right(self, member, decision)
        if decision.state is State.FAILED:
            member.state = State.RUNNING

    patch.setattr(Branch, "_rest", wrong)


@bug
def timer_after_restart(patch: pytest.MonkeyPatch) -> None:
    """A reminder that was queued when its run ended is delivered to the next one."""
    right = Mailbox.run_ended

    def wrong(self: Mailbox, run: int, error: BaseException | None) -> None:
        ticks, self.ticks = self.ticks, 0
        right(self, run, error)
        self.ticks = ticks

    patch.setattr(Mailbox, "run_ended", wrong)
    patch.setattr(Tick, "stale", lambda _: False)


@bug
def deadline_ignored(patch: pytest.MonkeyPatch) -> None:
    """A run with work in hand is not cancelled when its stop deadline has passed."""
    patch.setattr(Replica, "_deadline_passed", lambda _: None)


@bug
def place_lost_at_handover(patch: pytest.MonkeyPatch) -> None:
    """A waiter that is cancelled in the instant in which it is handed a place keeps it."""
    wrong = rewritten(Bulkhead._wait, "    self._give_back(places)\n        raise", "    raise")
    patch.setattr(Bulkhead, "_wait", wrong)


@bug
def completion_without_fence(patch: pytest.MonkeyPatch) -> None:
    """A job is completed by whoever says so, also when somebody else has it by now."""
    right = store._settle

    def wrong(db: Any, now: float, lease: Any, outcome: Any) -> bool:
        if not isinstance(outcome, Completed):
            return right(db, now, lease, outcome)
        return bool(
            db.execute(
                "UPDATE jobs SET state = 'completed', finished_at = ? WHERE id = ? AND state = 'active'",
                (now, int(lease.key)),
            ).rowcount
        )

    patch.setattr(store, "_settle", wrong)


@bug
def outcome_told_twice(patch: pytest.MonkeyPatch) -> None:
    """A job that its own transaction has completed is told of once more when its handler ends."""
    right = Shift._ended

    def wrong(self: Shift, slot: Any, outcome: Any) -> None:
        slot.job.completed = False
        right(self, slot, outcome)

    patch.setattr(Shift, "_ended", wrong)
