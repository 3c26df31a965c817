"""Oracles over restarts: that each failure has its decision, each decision its start, and both their limits and waits.

Sources: both edges of the window count (a restart exactly `period` ago is still in it), as in OTP's supervisor.
"""

from __future__ import annotations

from collections import deque

from actors.events import Event
from supervision.branch import Branch
from supervision.errors import StartTimeout
from supervision.events import (
    Ended,
    Failed,
    FailedForGood,
    GaveUp,
    Ready,
    RestartScheduled,
    Rested,
    Started,
)
from supervision.member import Member
from supervision.plan import Ending
from supervision.restart import RestartPolicy
from supervision.specs import Strategy, Supervisor
from supervision.states import State
from supervision.testing.moment import GRAIN, Moment, members, must
from supervision.testing.trace import TreeTrace

__all__ = ["backoff_exact", "intensity_respected", "no_lost_restart"]


class _Failures:
    """How many consecutive failures each child has, as far as events tell: all numbers that are possible."""

    def __init__(self, tree: TreeTrace) -> None:
        self.tree = tree
        self.known: dict[str, set[int]] = {}
        self.before: dict[str, set[int]] = {}
        self.error: dict[str, BaseException | None] = {}
        self._ready: set[str] = set()

    def see(self, event: Event) -> None:
        path = event.path
        if isinstance(event, Started):
            self._ready.discard(path)
            if isinstance(self.tree.declared(path, event), Supervisor):
                for below in [p for p in self.known if p.startswith(f"{path}/")]:
                    self.known[below] = {0}
            if event.seq not in self.tree.timed:  # perhaps by hand, which forgives
                self.known[path] = self.known.get(path, {0}) | {0}
        elif isinstance(event, Ready):
            self._ready.add(path)
        elif isinstance(event, Failed) or (isinstance(event, Ended) and event.how == "returned"):
            self._ended(event, event.lasted)
        elif isinstance(event, RestartScheduled):
            self.known[path] = {event.attempt}

    def _ended(self, event: Failed | Ended, lasted: float) -> None:
        path, spec = event.path, self.tree.spec(event.path, event)
        before = self.known.get(path, {0})
        if spec is not None:
            well = lasted >= spec.restart.reset_after
            if isinstance(event.error, StartTimeout):
                before = before | {0}  # it may have said that it is ready when it was too late
            elif well and (path in self._ready or lasted > 0):
                before = {0}
        self.before[path] = before
        self.error[path] = event.error
        self.known[path] = {n + 1 for n in before}
        if self._in_group(event):
            # It may have been about to be stopped with its group, which counts as nothing.
            self.known[path] |= before

    def _in_group(self, event: Event) -> bool:
        above = self.tree.declared(self.tree.parent(event.path, event), event)
        return isinstance(above, Supervisor) and above.strategy is not Strategy.ONE_FOR_ONE

    def used_up(self, path: str, at: Event) -> bool:
        """True if the last end of `path` may have been one too many, or one that no restart cures."""
        spec = self.tree.spec(path, at)
        if spec is None:
            return True
        policy = spec.restart
        if not policy.covers(self.error.get(path)):
            return True
        most = policy.max_restarts
        return most != 0 and any(n + 1 > most for n in self.before.get(path, {0}))


def intensity_respected(tree: TreeTrace, _at: Moment) -> None:
    """Never more restarts than a window, or a replica's own limit, allows; and nobody gives up before one is used up."""
    me = "intensity_respected"
    failures = _Failures(tree)
    windows: dict[str, deque[float]] = {}
    for event in tree.events:
        if isinstance(event, Started):
            windows.pop(event.path, None)
        elif isinstance(event, RestartScheduled):
            parent = tree.parent(event.path, event)
            stamps, limit = _window(tree, windows, parent, event)
            must(
                limit is None or len(stamps) < limit,
                me,
                f"{event.path} is restarted at {event.time:g}: {parent} has already used its {limit} restarts at"
                f" {', '.join(f'{s:g}' for s in stamps)}",
                [event],
            )
            must(
                not event.limit or event.attempt <= event.limit,
                me,
                f"{event.path} is restarted for the {event.attempt}. time in a row, and {event.limit} are allowed",
                [event],
            )
            stamps.append(event.time)
        elif isinstance(event, GaveUp):
            stamps, limit = _window(tree, windows, event.path, event)
            full = limit is not None and len(stamps) >= limit
            must(
                full or failures.used_up(event.child, event),
                me,
                f"{event.path} gave up at {event.time:g} because of {event.child}, but {len(stamps)} of {limit} restarts"
                " are used in its window, and the child's own limit is not used up",
                [event],
            )
        elif isinstance(event, FailedForGood):
            must(
                failures.used_up(event.path, event),
                me,
                f"{event.path} stays failed at {event.time:g}, but its limit is not used up",
                [event],
            )
        failures.see(event)


def _window(
    tree: TreeTrace, windows: dict[str, deque[float]], path: str, at: Event
) -> tuple[deque[float], int | None]:
    """The restarts in the window of a supervisor that ends now, and how many may be in it."""
    spec = tree.declared(path, at)
    stamps = windows.setdefault(path, deque())
    if not isinstance(spec, Supervisor):
        return stamps, None
    while stamps and at.time - stamps[0] > spec.period:
        stamps.popleft()
    return stamps, spec.intensity


def backoff_exact(tree: TreeTrace, _at: Moment) -> None:
    """Each wait is what the policy says for that many failures in a row, and the next run begins exactly then."""
    me = "backoff_exact"
    failures = _Failures(tree)
    due: dict[str, RestartScheduled] = {}
    joined: set[str] = set()  # those that a sibling's failure took into the restart of its group
    for event in tree.events:
        path = event.path
        if isinstance(event, RestartScheduled):
            joined.update(other for other in due if _is_of_group(tree, event, other))
            joined.discard(path)
            spec = tree.spec(path, event)
            if spec is not None:
                low, high = _wait(spec.restart, event.attempt)
                must(
                    low - GRAIN <= event.delay <= high + GRAIN,
                    me,
                    f"{path} waits {event.delay:g} s before restart {event.attempt} in a row; its policy says {low:g}"
                    + (f" to {high:g}" if high > low else ""),
                    [event],
                )
            wanted = {n + 1 for n in failures.before.get(path, {0})}
            must(
                event.attempt in wanted,
                me,
                f"{path} counts restart {event.attempt} in a row, but it is number {' or '.join(map(str, sorted(wanted)))}",
                [event],
            )
            due[path] = event
        elif isinstance(event, Started):
            decided = due.pop(path, None)
            if decided is not None and event.seq in tree.timed:
                when = decided.time + decided.delay
                must(
                    abs(event.time - when) <= GRAIN
                    or (event.time >= when and (decided.group or path in joined)),
                    me,
                    f"{path} was started at {event.time:g}, and that was decided for {when:g}",
                    [decided, event],
                )
        elif isinstance(event, (Ended, Failed)):
            due.pop(path, None)
            if isinstance(
                tree.declared(path, event), Supervisor
            ):  # its next run starts them all anew
                due = {p: e for p, e in due.items() if not p.startswith(f"{path}/")}
        failures.see(event)


def _is_of_group(tree: TreeTrace, decided: RestartScheduled, path: str) -> bool:
    above = tree.parent(decided.path, decided)
    name = path.removeprefix(f"{above}/").partition("/")[0]
    return tree.parent(path, decided) == above and name in decided.group


def _wait(policy: RestartPolicy, n: int) -> tuple[float, float]:
    """The shortest and the longest wait before consecutive restart `n`."""
    try:
        plain = policy.initial_backoff * policy.factor ** (n - 1)
    except OverflowError:
        plain = policy.max_backoff
    plain = min(plain, policy.max_backoff / (1 + policy.jitter))
    return plain * (1 - policy.jitter), plain * (1 + policy.jitter)


def no_lost_restart(tree: TreeTrace, at: Moment) -> None:
    """When every task waits, each end that nobody asked for has its decision, and each decision that is due its start."""
    if not at.quiescent:
        return
    undecided: dict[str, Event] = {}
    due: dict[str, RestartScheduled] = {}
    for event in tree.events:
        path = event.path
        if isinstance(event, (Started, Ended, Failed)):
            undecided.pop(path, None)
            due.pop(path, None)
            if isinstance(tree.declared(path, event), Supervisor):
                for below in [p for p in undecided if p.startswith(f"{path}/")]:
                    del undecided[below]
            if isinstance(event, Failed) or (
                isinstance(event, Ended) and event.how == Ending.RETURNED
            ):
                undecided[path] = event
        elif isinstance(event, RestartScheduled):
            undecided.pop(path, None)
            due[path] = event
        elif isinstance(event, (Rested, FailedForGood)):
            undecided.pop(path, None)
        elif isinstance(event, GaveUp):
            undecided.pop(event.child, None)
    _judge_lost(members(tree), undecided, due, at)


def _judge_lost(
    now: dict[str, Member],
    undecided: dict[str, Event],
    due: dict[str, RestartScheduled],
    at: Moment,
) -> None:
    me = "no_lost_restart"
    for path, event in undecided.items():
        must(
            _excused(now.get(path)),
            me,
            f"{path} ended at {event.time:g} and nobody decided what follows",
            [event],
        )
    for path, decided in due.items():
        member = now.get(path)
        must(
            member is None
            or member.state is not State.RESTARTING
            or decided.time + decided.delay > at.now
            or _under_way(member),
            me,
            f"the restart of {path} was decided for {decided.time + decided.delay:g}, it is {at.now:g}, and it has not begun",
            [decided],
        )
    for path, member in now.items():
        must(
            member.state is not State.RESTARTING or member.timer is not None or _under_way(member),
            me,
            f"{path} is restarting, and nothing will ever start it",
        )


def _excused(member: Member | None) -> bool:
    """True if the end of `member` needs no decision of its own."""
    if member is None or member.parent.closing or not member.wanted:
        # Forgotten; going down with the others; stopped by hand meanwhile; or it failed under whoever started it by hand.
        return True
    above = member.parent
    if not isinstance(above, Branch):
        return True
    # One that fails while its group is being stopped is taken as stopped with it: what follows is the group's restart.
    return not above.alive or above.spec.strategy is not Strategy.ONE_FOR_ONE


def _under_way(member: Member) -> bool:
    """True if a plan of its supervisor is going to start `member`, or its supervisor is going down."""
    above = member.parent
    if above.closing or not isinstance(above, Branch):
        return True
    sweep = above._sweep
    return sweep is not None and member in sweep.to_start
