"""Rules about restarts, starts and limits.

Floor: above looking. Pure functions of what was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isinf

from supervision.checklist.finding import Hit
from supervision.checklist.looking import Seen
from supervision.restart import RestartPolicy, RestartType
from supervision.specs import OnFailed, Ready, Spec, Strategy, Supervisor, Worker

__all__ = ["endless", "forgiven", "growing", "multiplied", "nested", "never_ready", "poisonous"]

_MANY_RUNS = 200
_MOST_COUNTED = 10_000


def endless(seen: Seen) -> Iterator[Hit]:
    """A worker that fails at once is then restarted as fast as the machine can, with a log line each time."""
    for path, spec in seen.root.walk():
        policy = spec.restart
        if path == seen.root.name or policy.type is RestartType.TEMPORARY:
            continue
        if policy.max_restarts == 0 and policy.backoff.base(1) == 0:
            yield Hit(
                paths=(path,),
                text="it is restarted without limit and without a wait (max_restarts=0, no backoff)",
                way_out="give an initial_backoff, such as 1, or a limit",
            )


def multiplied(seen: Seen) -> Iterator[Hit]:
    """One outage that hits all children looks to their supervisor like one child that fails again and again."""
    for path, spec in seen.supervisors:
        if spec.intensity is None or not spec.children:
            continue
        asked = [_restarts_within(child, spec.period) for child in spec.children]
        # What fails together under one_for_all is one restart.
        most = max(asked) if spec.strategy is Strategy.ONE_FOR_ALL else sum(asked)
        if most > spec.intensity:
            many = "any number of" if isinf(most) else f"{most:g}"
            yield Hit(
                paths=(path,),
                text=(
                    f"it allows {_restarts(spec.intensity)} in {spec.period:g} s, and its children's own limits"
                    f" allow {many} in that time: it gives up before any of them has used up its own"
                ),
                way_out=(
                    "raise intensity, make the children wait longer, or give the unruly ones a supervisor"
                    " of their own"
                ),
            )


def nested(seen: Seen) -> Iterator[Hit]:
    """Each level begins again with all of the limits below it, so limits multiply."""
    worst: tuple[float, str] = (0, "")
    levels = {path: spec.restart for path, spec in seen.supervisors if path != seen.root.name}
    for worker in seen.workers:
        if worker.spec.on_failed is OnFailed.HOLD or not _limited(worker.spec.restart):
            continue
        runs: float = worker.spec.restart.max_restarts + 1
        parts = worker.path.split("/")
        above = [levels["/".join(parts[:n])] for n in range(2, len(parts))]
        if not all(map(_limited, above)):
            continue
        for policy in above:
            runs *= policy.max_restarts + 1
        worst = max(worst, (runs, worker.path))
    if worst[0] >= _MANY_RUNS:
        yield Hit(
            paths=(worst[1],),
            text=(
                f"if it always fails it runs {worst[0]:g} times before the tree fails: the limits of it and"
                " of the supervisors above it multiply"
            ),
            way_out="lower max_restarts of the supervisors in between; 0 or 1 is often enough there",
        )


def _limited(policy: RestartPolicy) -> bool:
    return policy.max_restarts > 0 and policy.type is not RestartType.TEMPORARY


def forgiven(seen: Seen) -> Iterator[Hit]:
    """A count that is cleared before the children below can fail for good never reaches its limit."""
    for path, spec in seen.supervisors:
        policy = spec.restart
        if path == seen.root.name or not _limited(policy):
            continue
        for child in spec.children:
            if child.on_failed is OnFailed.HOLD or not _limited(child.restart):
                continue
            if isinstance(child, Worker) and child.ready is Ready.SIGNAL:
                continue  # without having been ready, a supervisor's run lasted nothing
            least = _least_seconds(child.restart)
            if least >= policy.reset_after:
                yield Hit(
                    paths=(path,),
                    text=(
                        f"its count of restarts is cleared after {policy.reset_after:g} s of running, and"
                        f" {child.name} needs {least:.3g} s at least to use up its own limit: the"
                        f" {policy.max_restarts} restarts of {spec.name} are never used up"
                    ),
                    way_out=f"set its restart reset_after above {least * 2:.0f}",
                )
                break


def poisonous(seen: Seen) -> Iterator[Hit]:
    """A message that always fails is set aside only when it has been given back often enough."""
    for worker in seen.workers:
        again, most = worker.spec.mailbox.redeliver, worker.spec.restart.max_restarts
        if again and _limited(worker.spec.restart) and again >= most:
            yield Hit(
                paths=(worker.path,),
                text=(
                    f"a message that always fails is given {again + 1} times (redeliver={again}), and the worker"
                    f" fails for good at failure {most + 1} (max_restarts={most}): the message ends the worker"
                    " before it is set aside as poison"
                ),
                way_out=f"make redeliver less than {most}, or max_restarts more than {again}",
            )


def growing(seen: Seen) -> Iterator[Hit]:
    """What adds children faster than they end fills the memory, and a stop has all of them to wait for."""
    for path, spec in seen.supervisors:
        if spec.dynamic and spec.max_children is None:
            yield Hit(
                paths=(path,),
                text="any number of children may be started in it",
                way_out="set max_children to what the process can carry",
            )


def never_ready(seen: Seen) -> Iterator[Hit]:
    """The next in the list starts when this one is ready: a run that never says so holds up the rest for ever."""
    for worker in seen.workers:
        if worker.spec.ready is Ready.SIGNAL and worker.spec.start_timeout is None:
            yield Hit(
                paths=(worker.path,),
                text="it is ready when it calls ctx.started(), and nothing ends a run that never does",
                way_out="set start_timeout, such as 30",
            )


def _restarts(number: int) -> str:
    return f"{number} restart" if number == 1 else f"{number} restarts"


def _restarts_within(child: Spec, period: float) -> float:
    """The most restarts that a child's own limit allows within `period`, if every run fails at once."""
    policy = child.restart
    replicas = child.replicas if isinstance(child, Worker) else 1
    if policy.type is RestartType.TEMPORARY or (isinstance(child, Supervisor) and child.dynamic):
        return 0
    limit = policy.max_restarts or inf
    count, passed = 0, 0.0
    while count < limit and passed <= period:
        count += 1
        if count > _MOST_COUNTED:
            return inf
        passed += policy.backoff.base(count + 1)
    return count * replicas


def _least_seconds(policy: RestartPolicy) -> float:
    """The least time in which consecutive failures use up the limit: all waits, at their shortest."""
    last = min(policy.max_restarts, _MOST_COUNTED)
    return sum(policy.backoff.base(n) for n in range(1, last + 1)) * (1 - policy.jitter)
