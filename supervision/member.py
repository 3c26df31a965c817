"""Member: what a replica and a nested supervisor have in common, as children of a supervisor.

Floor: above plan and events. The rule: a member only ever does what its parent says, and reports what became of it;
nothing here waits.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

import trio

from actors.clock import Timer
from actors.errors import noted
from supervision.commons import Commons
from supervision.errors import IllegalTransition
from supervision.plan import Ending
from supervision.restart import RestartType
from supervision.specs import Spec
from supervision.states import TRANSITIONS, Phase, State

__all__ = ["BY_ITSELF", "Member", "Parent"]

BY_ITSELF: Final = "it asked for it itself"
"""The cause of a stop that a run asked for with `ctx.stop()`: an end for good like a return."""

EVIDENCE: Final = 5
"""How many of its last failures a child keeps."""


class Parent(Protocol):
    """Whom a member reports to: its supervisor, or the tree itself."""

    @property
    def closing(self) -> bool:
        """True once nothing below it is to be started any more."""
        ...

    def member_ready(self, member: Member) -> None:
        """`member` has become ready."""

    def member_forgotten(self, member: Member) -> None:
        """`member`, somewhere below, is no part of the tree any more."""

    def member_stopping(self, member: Member) -> None:
        """`member`, a supervisor, has begun to stop, asked or not."""

    def member_ended(
        self, member: Member, how: Ending, error: Exception | None, now: float
    ) -> None:
        """No run of `member` is alive any more, since `now`."""

    def forgets(self, member: Member) -> bool:
        """True if nothing of `member` is kept once it is down for good."""
        ...


class Member:
    """A child of a supervisor: its place, its state, and its record of failures."""

    __slots__ = (
        "_errors",
        "_lot",
        "alive",
        "cause",
        "doomed",
        "error",
        "failures",
        "finished",
        "given_up",
        "listed",
        "name",
        "next_restart",
        "on_trial",
        "parent",
        "path",
        "phase",
        "rank",
        "ready_at",
        "restarts",
        "run",
        "since",
        "spec",
        "state",
        "timer",
        "tree",
        "wanted",
    )

    def __init__(self, tree: Commons, parent: Parent, spec: Spec, path: str, rank: int) -> None:
        self.tree = tree
        self.parent = parent
        self.spec = spec
        self.name = spec.name
        self.path = path
        self.rank = rank
        self.state = State.PENDING if spec.enabled else State.DISABLED
        self.phase: Phase | None = None
        self.since = tree.now()
        self.run: int = 0
        self.alive = False
        self.wanted = spec.enabled
        self.finished = False
        """True once it has ended for good by itself."""
        self.doomed = False
        """True if it is to be forgotten when it has stopped."""
        self.listed = True
        """False if it was added at run time: a restart of its supervisor does not bring it back."""
        self.given_up: Exception | None = None
        """Why a supervisor that is stopping its children will have failed then."""
        self.on_trial = False
        """True while somebody who started it by hand waits to hear how its first run begins."""
        self.cause: str | None = None
        """Why it was asked to stop, or None if it was not."""
        self.restarts = 0
        self.failures = 0
        """Consecutive ends that asked for a restart."""
        self.error: BaseException | None = None
        self.next_restart: float | None = None
        self.ready_at: float | None = None
        self.timer: Timer | None = None
        """The one that will start it again."""
        self._errors: deque[tuple[Exception, int, int, float]] | None = None
        self._lot: trio.lowlevel.ParkingLot | None = None

    # -- what a parent says ----------------------------------------------------------------------

    def start(self, now: float | None = None) -> None:
        """Begin a run. It must not be alive. `now` saves asking for the time again."""
        raise NotImplementedError

    def ask(self, why: str) -> None:
        """Ask the run to stop; `member_ended` will follow."""
        raise NotImplementedError

    def force(self, why: str) -> None:
        """Cancel what still runs, whatever its deadline."""
        raise NotImplementedError

    def retire(self, why: str) -> None:
        """Nothing will start it by itself any more: answer everybody who waits for it."""
        raise NotImplementedError

    def expect(self) -> None:
        """A run will begin, now or when its turn comes: it may be sent to, unless it is disabled."""
        raise NotImplementedError

    @property
    def switched_off(self) -> bool:
        """True if it, or a supervisor above, is disabled."""
        above = self.parent
        off = self.state is State.DISABLED
        return off or (isinstance(above, Member) and above.switched_off)

    def halt(self) -> None:
        """Forget a start that is due: it is not alive and is to stay so."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.next_restart = None
        if self.state in (State.PENDING, State.RESTARTING):
            self.become(State.STOPPED)
            if self.tree.final:
                self.retire("stopped")

    def start_at(self, when: float) -> None:
        """Begin a run at `when`, unless halted before."""
        self.next_restart = when
        self.timer = self.tree.timers.call_at(when, self._time_to_start)

    def _time_to_start(self) -> None:
        self.timer = None
        self.start()

    def comes_again(self) -> bool:
        """True if this stop is only the first half of a restart: its own, or one of a supervisor above that goes down with it."""
        above = self.parent
        again = self.wanted and not self.tree.final
        if again and isinstance(above, Member) and above.phase is Phase.STOPPING:
            kind = above.spec.restart.type
            fails = above.given_up is not None
            over = kind is RestartType.TEMPORARY if fails else kind is not RestartType.PERMANENT
            return self.listed and (above.cause is not None or not over) and above.comes_again()
        return again

    # -- its record ------------------------------------------------------------------------------

    def become(self, state: State, phase: Phase | None = None, *, now: float | None = None) -> None:
        """Change state along the table, and wake whoever waits for a change. `now` saves asking for the time again.

        Raises:
            IllegalTransition: the table does not know this way.
        """
        old = self.state
        if state is not old:
            if state not in TRANSITIONS[old]:
                raise IllegalTransition(self.path, old, state)
            self.state = state
            self.since = self.tree.now() if now is None else now
        self.phase = phase
        self.wake()

    def remember(self, error: Exception) -> None:
        """Keep a failure as evidence."""
        self.error = error
        if self._errors is None:
            self._errors = deque(maxlen=EVIDENCE)
        self._errors.append((error, self.run, self.failures - 1, self.tree.now()))

    def evidence(self) -> tuple[Exception, ...]:
        """The last failures, oldest first, each noted with path, run and restart number."""
        out: list[Exception] = []
        for error, run, number, _ in self._errors or ():
            noted(error, f"{self.path}, run {run}, restart {number}")
            out.append(error)
        return tuple(out)

    def errors(self) -> list[tuple[Exception, int, float]]:
        """Its last failures, oldest first, each with the run and the time."""
        return [(error, run, when) for error, run, _, when in self._errors or ()]

    def forgive(self) -> None:
        """Clear the count of failures: it is started by hand, or with its supervisor."""
        self.failures = 0
        self.finished = False
        self._errors = None
        self.expect()

    def lasted(self, now: float) -> float:
        """Seconds from when the run was ready to `now`; 0 if it never was."""
        return 0.0 if self.ready_at is None else now - self.ready_at

    def wake(self) -> None:
        """Let those who wait for a change look again."""
        if self._lot is not None:
            self._lot.unpark_all()

    async def changed(self) -> None:
        """Wait for the next change of state or phase, or until there will be none."""
        if self._lot is None:
            self._lot = trio.lowlevel.ParkingLot()
        await self._lot.park()

    def __repr__(self) -> str:
        phase = f" {self.phase}" if self.phase else ""
        return f"<{type(self).__name__} {self.path} {self.state}{phase} run {self.run}>"
