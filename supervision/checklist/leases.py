"""Rules about job workers: leases, what is held, what is fetched, how they stop.

Floor: above looking. Pure functions of what was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from actors.jobs.worker import JobWorker
from actors.resilience.dependency import Dependency
from supervision.checklist.finding import Hit
from supervision.checklist.looking import Seen, SeenWorker

__all__ = ["all_variables", "held_ahead", "odd_lease", "short_stop"]

_SHORTEST, _LONGEST = 1.0, 3600.0


def _jobs(seen: Seen) -> Iterator[tuple[SeenWorker, JobWorker]]:
    for worker in seen.workers:
        if worker.job is not None:
            yield worker, worker.job


def odd_lease(seen: Seen) -> Iterator[Hit]:
    """Too short, and a slow moment costs the lease; too long, and the jobs of a worker that died lie for so long."""
    for worker, job in _jobs(seen):
        for text, way_out in _odd(worker, job):
            yield Hit(
                paths=(worker.path,), about=f"jobs of {job.type!r}", text=text, way_out=way_out
            )


def _odd(worker: SeenWorker, job: JobWorker) -> Iterator[tuple[str, str]]:
    lease = f"the lease is {job.timeout:g} s (timeout)"
    if job.timeout < _SHORTEST:
        yield (
            f"{lease}: a pause of the machine loses it",
            f"make it {_SHORTEST:g} s or more; 60 is usual",
        )
    elif job.timeout > _LONGEST:
        yield (
            f"{lease}: so long are the jobs of a worker that died kept from others",
            "make it shorter; leases are renewed while their handlers run",
        )
    elif job.renew and job.claim_timeout > job.timeout:
        yield (
            (
                f"{lease}, and one exchange with the engine may take {job.claim_timeout:g} s (claim_timeout): a slow"
                " engine loses every lease"
            ),
            (
                f"make timeout {3 * job.claim_timeout:g} or more, since leases are renewed each third, or claim_timeout"
                " shorter"
            ),
        )
    if not job.renew:
        slow = [(_longest(d), d) for d in worker.guards if isinstance(d, Dependency)]
        for seconds, dependency in slow:
            if job.timeout < seconds < inf:
                yield (
                    (
                        f"{lease} and is not renewed, and a call to {dependency.name} with its retries may take"
                        f" {seconds:.3g} s: the handler is cancelled in the middle of it"
                    ),
                    "make the lease longer, or let it be renewed",
                )
                return


def _longest(dependency: Dependency) -> float:
    """Seconds that one call with its retries may take; inf if nothing bounds it."""
    if dependency.total is not None:
        return dependency.total
    retry = dependency.retry
    attempts = 1 if retry is None else (retry.attempts or inf)
    if dependency.timeout is None or attempts == inf:
        return inf
    waits = 0.0 if retry is None else sum(retry.backoff.base(n) for n in range(1, int(attempts)))
    return dependency.timeout * attempts + waits


def all_variables(seen: Seen) -> Iterator[Hit]:
    """What a handler does not need is read, carried and decoded all the same, and grows without anybody noticing."""
    for worker, job in _jobs(seen):
        if job.fetch_variables is None:
            yield Hit(
                paths=(worker.path,),
                about=f"jobs of {job.type!r}",
                text="all variables of each job are fetched",
                way_out="name those that the handler needs: fetch_variables=[...]",
            )


def held_ahead(seen: Seen) -> Iterator[Hit]:
    """A job that waits in one worker for a place cannot be done by another that has one."""
    for worker, job in _jobs(seen):
        if job.held >= 2 * job.concurrency:
            yield Hit(
                paths=(worker.path,),
                about=f"jobs of {job.type!r}",
                text=(
                    f"it holds up to {job.held} jobs for {job.concurrency} places (max_jobs_activated), which is"
                    " twice as many and the most that is allowed"
                ),
                way_out="leave max_jobs_activated out, or keep it near the concurrency",
            )


def short_stop(seen: Seen) -> Iterator[Hit]:
    """A stop gives jobs back, which takes an exchange with the engine after the handlers have ended."""
    for worker, job in _jobs(seen):
        shutdown = min(worker.spec.shutdown, seen.stop_timeout)
        if job.grace is not None and job.grace >= shutdown:
            text = f"handlers have {job.grace:g} s when a stop is asked for (grace), and the worker {shutdown:g} s in all"
            way_out = (
                "make grace less than shutdown, or leave it out: then it is nine tenths of that"
            )
        elif shutdown < job.claim_timeout:
            text = (
                f"the worker has {shutdown:g} s to stop, and one exchange with the engine may take"
                f" {job.claim_timeout:g} s (claim_timeout)"
            )
            way_out = "make shutdown longer than claim_timeout"
        else:
            continue
        yield Hit(
            paths=(worker.path,),
            about=f"jobs of {job.type!r}",
            text=f"{text}: jobs may not be given back, and wait for the end of their lease",
            way_out=way_out,
        )
