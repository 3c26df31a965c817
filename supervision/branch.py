"""One running supervisor: carries out what the brain (`plan.py`) decides about its children.

Floor: above child. Theory:

* It has no task and no mailbox. Every step is a synchronous reaction to what a child reports (ready, ended), to a timer or to
  an operator; between checkpoints Trio code is atomic, so no request can be lost and nothing can make it deaf.
* Under one-for-one a child's restart is that child's own affair. What has an order (the first start, a group's restart, the
  stop) is a `Plan` of waves; at most one is under way, a new one replaces it and takes over what it had still to do.
* A child that ends by itself while a plan is about to stop it is taken as stopped: simultaneous failures cost one restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from supervision.child import Replica
from supervision.commons import Commons
from supervision.errors import StartFailed, SupervisorFailed
from supervision.events import (
    Ended,
    Failed,
    FailedForGood,
    GaveUp,
    Ready,
    RestartScheduled,
    Rested,
    Started,
    StopRequested,
)
from supervision.member import BY_ITSELF, Member, Parent
from supervision.plan import (
    Ending,
    GiveUp,
    Plan,
    Rest,
    Restart,
    auto_shutdown,
    decide,
    group_plan,
    start_plan,
    stop_plan,
)
from supervision.restart import Budget, RestartType
from supervision.slot import Slot
from supervision.specs import AutoShutdown, Spec, Start, Strategy, Supervisor, Worker
from supervision.states import Phase, State
from supervision.sweep import Sweep

__all__ = ["Branch"]


class Branch(Member):
    """A running supervisor, itself a child of another or of the tree."""

    __slots__ = (
        "_advancing",
        "_ranks",
        "_swept_significant",
        "_sweep",
        "_unfinished",
        "budget",
        "slots",
        "stopping",
    )

    spec: Supervisor

    def __init__(
        self, tree: Commons, parent: Parent, spec: Supervisor, path: str, rank: int
    ) -> None:
        super().__init__(tree, parent, spec, path, rank)
        self.slots: dict[str, Slot] = {}
        self.budget = Budget(spec.intensity, spec.period)
        self.stopping = False
        self._sweep: Sweep | None = None
        self._advancing = False
        self._ranks = 0
        self._unfinished: Member | None = None
        self._swept_significant = False  # a restart of the group has ended a significant child
        for child in spec.children:
            self.add(child, listed=True)

    # -- its children ----------------------------------------------------------------------------

    def members(self) -> Iterator[Member]:
        """All children in start order."""
        for slot in self.slots.values():
            yield from slot.members

    def add(self, spec: Spec, *, listed: bool = False) -> Slot:
        """Make room for a child; nothing is started."""
        slot = self.slots[spec.name] = Slot(spec=spec, rank=self._ranks, listed=listed)
        self._ranks += 1
        if isinstance(spec, Worker):
            self.grow(slot, spec.replicas)
        else:
            path = f"{self.path}/{spec.name}"
            slot.add([Branch(self.tree, self, spec, path, slot.rank)])
        return slot

    def grow(self, slot: Slot, replicas: int) -> list[Member]:
        """Add replicas to a worker's slot; nothing is started."""
        added: list[Member] = []
        assert isinstance(slot.spec, Worker)
        for _ in range(replicas):
            path = f"{self.path}/{slot.spec.name}/{slot.numbers}"
            added.append(Replica(self.tree, self, slot.spec, path, slot.rank, slot.numbers))
            slot.numbers += 1
        slot.add(added)
        return added

    def forget(self, member: Member) -> None:
        """Drop a child that is down: its spec, its mailbox and, with its last replica, its slot."""
        slot = self.slots.get(member.name)
        if slot is None or member not in slot.members:
            return
        slot.drop(member)
        scaled_to_none = False
        if isinstance(slot.spec, Worker):
            last = slot.members[-1] if slot.members else None
            slot.numbers = last.number + 1 if isinstance(last, Replica) else 0
            scaled_to_none = slot.spec.replicas == 0
        if not slot.members and not scaled_to_none and (not slot.listed or member.doomed):
            del self.slots[member.name]
        if self._unfinished is member:
            self._unfinished = None
        self.parent.member_forgotten(member)

    def forgets(self, member: Member) -> bool:
        """True if nothing of `member` is kept once it is down for good (as in OTP): temporary or dynamic, added at run time."""
        slot = self.slots.get(member.name)
        temporary = member.spec.restart.type is RestartType.TEMPORARY
        return slot is not None and not slot.listed and (self.spec.dynamic or temporary)

    # -- start, stop -----------------------------------------------------------------------------

    def start(self, now: float | None = None) -> None:
        self.alive = True
        self.run += 1
        self.cause = None
        self.next_restart = self.ready_at = None
        self.stopping = False
        self.given_up = None
        self.budget = Budget(self.spec.intensity, self.spec.period)
        self.become(State.RUNNING, Phase.STARTING)
        self._unfinished = None
        self._swept_significant = False
        for slot in [slot for slot in self.slots.values() if not slot.listed]:
            del self.slots[slot.spec.name]
            for member in slot.members:
                member.wanted = False  # whoever waits for it to run again waits in vain
                member.retire("stopped")
                self.parent.member_forgotten(member)
        for member in self.members():
            member.forgive()
            member.wanted = member.state is not State.DISABLED
        self.tree.emit(Started, self.path, self.run)
        self._carry_out(start_plan(self.members()))

    def ask(self, why: str) -> None:
        if not self.alive:
            return
        first = self.cause is None
        self.cause = why
        if first:
            self.tree.emit(StopRequested, self.path, self.run, why=why)
            self._stop_children()

    def force(self, why: str) -> None:
        if self.cause is None:
            self.ask(why)
        for member in reversed(list(self.members())):
            member.force(why)

    def expect(self) -> None:
        for member in self.members():
            member.expect()

    def retire(self, why: str) -> None:
        for member in self.members():
            member.retire(why)
        self.wake()

    def _stop_children(self) -> None:
        if self.stopping:
            return
        self.stopping = True
        self.become(State.RUNNING, Phase.STOPPING)
        self.parent.member_stopping(self)
        self.halt()
        self._carry_out(stop_plan(self.members(), at_once=self.spec.dynamic))

    def halt(self) -> None:
        """Nothing below it is started any more, long before the turn of each to stop has come."""
        if not self.alive:
            super().halt()
        for member in self.members():
            if not member.alive or isinstance(member, Branch):
                member.halt()

    @property
    def closing(self) -> bool:
        """True while nothing below it is to be started: it stops, or will as soon as its turn has come."""
        return self.stopping or self.parent.closing

    def _give_up(self, error: Exception) -> None:
        self.given_up = error
        self._stop_children()

    def _down(self) -> None:
        self.alive = False
        for slot in self.slots.values():
            if not slot.listed:  # no next run brings them back
                for member in slot.members:
                    member.retire("stopped")
        now = self.tree.now()
        lasted = self.lasted(now)
        error = self.given_up
        how = Ending.STOPPED if self.cause else Ending.FAILED if error else Ending.RETURNED
        if how is Ending.FAILED:
            self.tree.emit(Failed, self.path, self.run, error=error, lasted=lasted)
        else:
            self.tree.emit(Ended, self.path, self.run, how=str(how), lasted=lasted, error=error)
        self.parent.member_ended(self, how, error, now)

    # -- carrying out a plan ---------------------------------------------------------------------

    def _carry_out(self, plan: Plan[Member]) -> None:
        if self._sweep is not None and self._sweep.timer is not None:
            self._sweep.timer.cancel()
        self._sweep = Sweep(plan)
        self._advance()

    def _advance(self) -> None:
        """Go on with the plan under way as far as it goes now."""
        if self._advancing:
            return  # called back from a child's start below; the loop there goes on
        self._advancing = True
        try:
            while (sweep := self._sweep) is not None and not sweep.waiting:
                if sweep.stops:
                    self._stop_wave(sweep, sweep.stops.popleft())
                elif sweep.starts:
                    if self._must_wait(sweep):
                        break
                    self._start_wave(sweep, sweep.starts.popleft())
                else:
                    self._sweep = None
                    self._arrived()
        finally:
            self._advancing = False

    def _stop_wave(self, sweep: Sweep, wave: Iterable[Member]) -> None:
        group = not self.stopping
        why = self._why_stopped() if self.stopping else "its group restarts"
        for member in wave:
            sweep.to_stop.discard(member)
            if group:
                self._leave_out(member)
            if member.alive:
                sweep.waiting.add(member)
                if member.cause != BY_ITSELF:
                    member.ask(why)

    def _leave_out(self, member: Member) -> None:
        """A temporary child is stopped with its group, and not started again with it."""
        if member.spec.restart.type is RestartType.TEMPORARY and member.wanted:
            member.wanted = False
            member.finished = True
            member.doomed = member.doomed or self.forgets(member)
            self._swept_significant = self._swept_significant or member.spec.significant

    def _start_wave(self, sweep: Sweep, wave: Iterable[Member]) -> None:
        for member in wave:
            sweep.to_start.discard(member)
            if member.wanted and not member.alive and member.timer is None and not self.closing:
                sweep.waiting.add(member)
                if member.state is State.RESTARTING:
                    member.restarts += 1
                member.start()
            elif member.alive and member.ready_at is None:
                sweep.waiting.add(member)

    def _must_wait(self, sweep: Sweep) -> bool:
        if sweep.timer is not None and sweep.timer.active:
            return True
        when = sweep.plan.not_before
        if when <= self.tree.now():
            return False
        sweep.timer = self.tree.timers.call_at(when, self._advance)
        return True

    def _arrived(self) -> None:
        """The plan is done."""
        if self.stopping:
            self._down()
            return
        if self.closing:
            return
        if self.ready_at is None:
            now = self.ready_at = self.tree.now()
            self.become(State.RUNNING, Phase.READY)
            self.tree.emit(Ready, self.path, self.run, after=now - self.since)
            self.parent.member_ready(self)
        if (
            self.spec.auto_shutdown is AutoShutdown.ALL_SIGNIFICANT
            and self._swept_significant
            and not self._significant_left()
        ):
            self._stop_children()

    def _why_stopped(self) -> str:
        by_itself = f"{self.path} gives up" if self.given_up else f"{self.path} is done"
        return by_itself if self.cause is None else self.cause

    # -- what children report --------------------------------------------------------------------

    def member_stopping(self, member: Member) -> None:
        pass

    def member_forgotten(self, member: Member) -> None:
        self.parent.member_forgotten(member)

    def member_ready(self, member: Member) -> None:
        self.settled(member)

    def member_ended(
        self, member: Member, how: Ending, error: Exception | None, now: float
    ) -> None:
        sweep = self._sweep
        if self.closing:
            member.become(State.STOPPED, now=now)
            if self.tree.final or member.doomed:
                member.retire("stopped")
            if member.doomed:
                self.forget(member)
        elif member.cause is not None or (sweep is not None and member in sweep.to_stop):
            self._ended_as_asked(member)
            if member.alive:
                return  # restarted at once: a plan that waits for it to be ready goes on waiting
        else:
            self._ended_by_itself(member, how, error, now)
        self.settled(member)

    def settled(self, member: Member) -> None:
        """The plan under way need not wait for `member` any more."""
        sweep = self._sweep
        if sweep is not None and member in sweep.waiting:
            sweep.waiting.discard(member)
            self._advance()

    def _ended_as_asked(self, member: Member) -> None:
        if member.cause == BY_ITSELF:
            self._rest(member, Rest(State.STOPPED))
            return
        sweep = self._sweep
        if sweep is not None and member in sweep.to_stop:
            self._leave_out(member)  # it ended just before its turn to stop came
        if not member.wanted:
            member.become(State.STOPPED)
            member.retire("stopped")
            if member.doomed:
                self.forget(member)
            return
        member.become(State.RESTARTING)
        if sweep is not None and member in sweep.to_start:
            member.next_restart = max(sweep.plan.not_before, self.tree.now())
        else:
            member.start()

    def _ended_by_itself(
        self, member: Member, how: Ending, error: Exception | None, now: float
    ) -> None:
        spec = member.spec
        member.on_trial = member.on_trial and member.ready_at is None
        if member.on_trial and how is Ending.FAILED:
            member.error = error
            member.wanted = False
            member.become(State.FAILED)
            member.retire("failed")
            return
        member.on_trial = False  # no later run is
        if self._strict() and how is Ending.FAILED:
            member.error = error
            member.become(State.FAILED)
            self._give_up(
                error if isinstance(error, StartFailed) else StartFailed(member.path, error)
            )
            return
        ran_well = member.ready_at is not None and now - member.ready_at >= spec.restart.reset_after
        before = 0 if ran_well else member.failures
        decision = decide(
            how,
            error,
            policy=spec.restart,
            failures=before + 1,
            budget=self.budget,
            on_failed=spec.on_failed,
            now=now,
            random=self.tree.random,
        )
        member.failures = before if isinstance(decision, Rest) and not decision.why else before + 1
        if error is not None:
            member.remember(error)
        match decision:
            case Restart():
                self._restart(member, decision, now)
            case Rest():
                self._rest(member, decision)
            case GiveUp():
                member.become(State.FAILED)
                member.wanted = False
                failures = member.evidence()
                why = decision.why if decision.own else f"after {member.path} {how}, {decision.why}"
                self.tree.emit(
                    GaveUp, self.path, self.run, child=member.path, why=why, failures=failures
                )
                text = f"{member.path} used up its limit: {why}" if decision.own else why
                self._give_up(SupervisorFailed(self.path, text, failures))
                if self.tree.final:
                    member.retire("failed")

    def _restart(self, member: Member, decision: Restart, now: float) -> None:
        group: tuple[str, ...] = ()
        plan = None
        if self.spec.strategy is not Strategy.ONE_FOR_ONE:
            plan = group_plan(
                self.spec.strategy,
                self.members(),
                member,
                not_before=now + decision.delay,
                under_way=None if self._sweep is None else self._sweep.plan,
            )
            group = tuple(
                dict.fromkeys(m.name for wave in plan.start for m in wave if m is not member)
            )
        self.tree.emit(
            RestartScheduled,
            member.path,
            member.run,
            delay=decision.delay,
            attempt=decision.attempt,
            limit=member.spec.restart.max_restarts,
            group=group,
        )
        member.become(State.RESTARTING, now=now)
        if plan is not None:
            member.next_restart = plan.not_before
            self._carry_out(plan)
            return
        member.restarts += 1
        if decision.delay > 0:
            member.start_at(now + decision.delay)
        else:
            member.start(now)

    def _rest(self, member: Member, decision: Rest) -> None:
        member.wanted = False
        member.finished = decision.state is State.STOPPED
        member.become(decision.state)
        if member.finished:
            self.tree.emit(Rested, member.path, member.run)
        else:
            self.tree.emit(
                FailedForGood, member.path, member.run, why=decision.why, failures=member.evidence()
            )
        member.retire("stopped" if member.finished else "failed")
        if member.finished and self.forgets(member):
            self.forget(member)
        if member.finished and self._is_done(member):
            self._stop_children()

    def _is_done(self, ended: Member) -> bool:
        return auto_shutdown(
            self.spec.auto_shutdown,
            significant=ended.spec.significant,
            significant_left=self._significant_left,
            left=lambda: self.spec.dynamic or self._find_unfinished() is not None,
        )

    def _significant_left(self) -> bool:
        return any(m.spec.significant and not m.finished for m in self.members())

    def _find_unfinished(self) -> Member | None:
        """A child that has not ended for good; looked for from the end, and remembered: ends come in any order."""

        def open_(m: Member) -> bool:
            return not m.finished and m.state is not State.DISABLED

        known = self._unfinished
        if known is None or not open_(known) or known.name not in self.slots:
            everybody = (
                m for slot in reversed(self.slots.values()) for m in reversed(slot.members)
            )
            self._unfinished = known = next((m for m in everybody if open_(m)), None)
        return known

    def _strict(self) -> bool:
        first = self.ready_at is None and self.run == 1
        return first and (self.tree.strict or self.spec.start is Start.STRICT)
