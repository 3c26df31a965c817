"""Engine: whoever keeps the jobs, as a worker needs it.

Floor: above outcomes and poison. The rules of every engine:

* A claim and all that goes with it is one step: whoever crashes afterwards has lost nothing but time, since the lease runs out.
* Whatever ends or changes a claim carries its token. One that is no longer the newest is refused and changes nothing
  (Camunda's job lease; a completion that comes late, but before anybody else has claimed the job, is still good).
* `deliveries` is written with the claim, before the handler begins: a job that kills its process is seen to have done so.
* An engine compares times of its own clock only. Durations go in, and durations come out.
* `exchange` settles what has ended and claims more, in one step where the engine can: in a database one commit a batch, in a
  workflow engine's job API its complete, fail and error calls at once and then one activation.

What an engine cannot do it refuses with `NotSupported`, rather than doing something like it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

import attrs

from actors.jobs.errors import NotSupported
from actors.jobs.job import MAX_BYTES, Job, Lease, NewJob
from actors.jobs.outcomes import Outcome, State
from actors.jobs.poison import PoisonJob
from actors.records import Record, record

__all__ = [
    "Claim",
    "Engine",
    "EngineStatistics",
    "Enqueued",
    "Exchange",
    "Fired",
    "JobInfo",
    "Settlement",
    "most_ahead",
    "as_it_is",
    "the_period",
]


@attrs.frozen(kw_only=True)
class Claim:
    """What a worker asks for."""

    type: str
    most: int
    """As many jobs at most."""
    lease: float
    """Seconds for which they are its own."""
    worker: str
    """Name and incarnation."""
    max_deliveries: int = 5
    """A job that was handed out this often without a word is not handed out again, but set aside as poison."""
    fetch: tuple[str, ...] | None = None
    """The variables wanted; None is all."""


class Settlement(NamedTuple):
    """What became of one claimed job."""

    lease: Lease
    outcome: Outcome
    retries: int = 0
    """What the job had when it was claimed, for engines that have to be told what is not to change."""


@attrs.frozen(kw_only=True)
class Exchange:
    """What one exchange brought."""

    jobs: tuple[Job, ...] = ()
    """Claimed, most urgent first."""
    refused: frozenset[Lease] = frozenset()
    """Settlements that came too late: somebody else has the job, or it was cancelled. They changed nothing."""
    poisoned: tuple[PoisonJob, ...] = ()
    """Jobs set aside instead of being handed out."""
    next_in: float | None = None
    """Seconds until the next job of the type falls due or a lease of one runs out; None if nothing is known to."""


class Enqueued(NamedTuple):
    """One enqueued job."""

    key: str
    created: bool
    """False if its `unique` text belonged to an unfinished job already, whose key this is."""


class Fired(NamedTuple):
    """One look at a schedule."""

    key: str | None
    """The job of the present period, if this call enqueued it; None if the period has had its job."""
    next_in: float
    """Seconds until the next period begins."""


def most_ahead(every: float) -> int:
    """Periods by which the last one that had its job may be ahead of the present one: one, and a minute's for late calls.

    One that is further ahead was counted with another `every`, or by a clock that was wrong since: it says nothing.
    """
    return 1 + ceil(60 / every)


def the_period(now: float, every: float, offset: float) -> tuple[int, float]:
    """The number of the period that `now` is in, and the seconds until the next begins."""
    period = int((now - offset) // every)
    next_in = (period + 1) * every + offset - now
    if (
        next_in <= 0
    ):  # rounded: the next has just begun, and whoever waited for it would wait for nothing, again and again
        return period + 1, next_in + every
    return period, next_in


def as_it_is(stored: str, due_in: float) -> tuple[State, float]:
    """The state of a stored job by now, and the seconds until it may run."""
    state = State(stored)
    if state is State.SCHEDULED and due_in <= 0:
        state = State.READY
    return state, due_in if state in (State.READY, State.SCHEDULED) else 0.0


@record
class JobInfo(Record):
    """One stored job, as an operator sees it."""

    key: str
    type: str
    state: State
    retries: int
    attempt: int
    deliveries: int
    snoozes: int
    priority: int
    due_in: float
    """Seconds until it may run; negative if it could have for so long; 0 for one that runs, waits for a person, or has ended."""
    worker: str
    variables: str
    """As JSON text."""
    result: str | None
    error: str | None
    error_code: str | None
    age: float | None = None
    """Seconds since it was put in, if the engine knows."""
    incident_for: float | None = None
    """Seconds that it has waited for a person; None if it is no incident, or if that was not kept yet when it became one."""


@record
class EngineStatistics(Record):
    """One look at an engine."""

    name: str
    jobs: Mapping[str, Mapping[str, int]]
    """Jobs by type and then by state."""
    poison: int
    """Jobs that are set aside."""
    paused: frozenset[str]
    """Types that are not handed out."""
    limits: Mapping[str, int]
    """How many of a type may be active at once, over all workers."""


class Engine(ABC):
    """Keeps jobs and hands them out. One may be shared by any number of workers."""

    name: str
    """Distinguishes it from other engines in idempotency keys."""
    max_bytes: int = MAX_BYTES
    """The longest JSON text of variables that it stores."""

    # -- putting jobs in -------------------------------------------------------------------------

    async def enqueue(self, job: NewJob) -> Enqueued:
        """Store one job.

        Raises:
            NotStorable: its variables are no JSON object, or too large.
        """
        (done,) = await self.enqueue_many([job])
        return done

    @abstractmethod
    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Store all of them or, if one cannot be stored, none."""

    async def fire(self, schedule: str, every: float, offset: float, job: NewJob) -> Fired:
        """Enqueue the job of the present period, unless a call from anywhere has done so."""
        raise NotSupported(self.name, "periodic jobs")

    # -- for workers -----------------------------------------------------------------------------

    @abstractmethod
    async def exchange(
        self, settlements: Sequence[Settlement] = (), claim: Claim | None = None
    ) -> Exchange:
        """Settle what has ended, then claim. Must not be abandoned once it has begun: see `JobWorker`."""

    @abstractmethod
    async def extend(self, leases: Sequence[Lease], seconds: float) -> frozenset[Lease]:
        """Renew leases to `seconds` from now, all in one call. Returns those that are lost."""

    @abstractmethod
    def listen(self, job_type: str, ring: Callable[[], object]) -> Callable[[], None]:
        """Call `ring()` whenever there may be work of the type, as far as is known here. Returns what ends it.

        A hint: work that others enqueued elsewhere may go unnoticed, so a worker polls as well.
        """

    async def transact(self, lease: Lease, fn: Callable[..., Any], *args: object) -> Any:
        """Run `fn(connection, *args)` and complete the job with what it returns, in one transaction.

        Raises:
            LeaseLost: before anything was done.
        """
        raise NotSupported(self.name, "transactions")

    async def activate(self, claim: Claim) -> tuple[Job, ...]:
        """Claim jobs."""
        return (await self.exchange((), claim)).jobs

    async def settle(self, lease: Lease, outcome: Outcome) -> bool:
        """Settle one job. False if it was too late."""
        return not (await self.exchange([Settlement(lease, outcome)])).refused

    # -- for operators ---------------------------------------------------------------------------

    @abstractmethod
    async def find(self, key: str) -> JobInfo:
        """One stored job.

        Raises:
            NoSuchJob: there is none of this key.
        """

    async def jobs(
        self, state: State | str, job_type: str | None = None, *, most: int = 100
    ) -> tuple[JobInfo, ...]:
        """The stored jobs in a state, of one type or of all, in the order in which they were put in, the oldest first.

        It only reads, and keeps nobody from claiming. `state` is a `State` or its word: `engine.jobs("incident")`. A list of what
        is finished can take a while where there are millions of jobs; the others are as quick there as anywhere.

        Raises:
            OptionError: there is no such state, or no job can be of such a type.
        """
        raise NotSupported(self.name, "listing jobs by their state")

    @abstractmethod
    async def cancel(self, key: str) -> bool:
        """End an unfinished job. Its handler, if one runs, is cancelled at the next renewal. False if it was finished."""

    @abstractmethod
    async def set_retries(self, key: str, retries: int) -> None:
        """Say how often an unfinished job may still fail, a run that is under way included.

        Raises:
            NoSuchJob: there is no unfinished job of this key.
        """

    @abstractmethod
    async def resolve(self, key: str, retries: int | None = None) -> None:
        """End an incident: the job may run at once, with these retries or those that it has.

        Raises:
            NoRetriesLeft: it could not run.
            NoSuchJob: there is no incident of this job.
        """

    async def run_now(self, key: str) -> None:
        """Let a scheduled job run at once instead of when it is due.

        Raises:
            NoSuchJob: there is no scheduled job of this key.
        """
        raise NotSupported(self.name, "running a scheduled job early")

    @abstractmethod
    async def poison(
        self, job_type: str | None = None, *, most: int = 100
    ) -> tuple[PoisonJob, ...]:
        """What was set aside, oldest first.

        Raises:
            OptionError: no job can be of such a type.
        """

    async def requeue(self, key: str, retries: int | None = None) -> None:
        """Give a job that was set aside another chance. As `resolve`."""
        await self.resolve(key, retries)

    @abstractmethod
    async def drop(self, key: str) -> None:
        """End an incident, or a job that was set aside, for good: the job is cancelled.

        Raises:
            NoSuchJob: there is no incident of this job.
        """

    async def pause(self, job_type: str) -> None:
        """Hand out no more jobs of the type, to any worker, until `resume`. What runs goes on."""
        raise NotSupported(self.name, "pausing a type")

    async def resume(self, job_type: str) -> None:
        """End `pause`."""
        raise NotSupported(self.name, "pausing a type")

    async def limit(self, job_type: str, most: int | None) -> None:
        """Let at most so many jobs of the type be active at once, over all workers; None is no limit.

        Raises:
            OptionError: it is no whole number from 0, or no job can be of that type.
        """
        raise NotSupported(self.name, "a limit for a type")

    async def prune(self, older_than: float) -> int:
        """Delete jobs that were finished longer than that many seconds ago. Returns how many.

        Raises:
            OptionError: it is no number from 0.
        """
        raise NotSupported(self.name, "pruning")

    @abstractmethod
    async def statistics(self) -> EngineStatistics:
        """One look."""
