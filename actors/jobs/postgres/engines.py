"""The PostgreSQL engine: jobs for any number of machines.

Floor: above store, admin and what runs them. The rules: what workers need goes over connections of its own, so that no
transaction of a user's keeps leases from being renewed; and whatever the connection was lost in, a settlement that is told
again is looked up by its token before it is called too late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import trio

from actors.jobs.database import DatabaseEngine
from actors.jobs.engine import (
    Claim,
    EngineStatistics,
    Enqueued,
    Exchange,
    Fired,
    JobInfo,
    Settlement,
)
from actors.jobs.errors import EngineUnreachable, LeaseLost
from actors.jobs.job import Lease, NewJob, encode
from actors.jobs.outcomes import Failed, PutBack, State
from actors.jobs.poison import PoisonJob
from actors.jobs.postgres import admin, schema as tables
from actors.jobs.postgres.runner import ListenerStatistics, PoolStatistics, Runner
from actors.jobs.postgres.steps import Step, Task
from actors.jobs.postgres.store import COPY_FROM, Store
from actors.jobs.postgres.values import prepare
from actors.jobs.wishes import (
    one_type,
    the_age,
    the_limit,
    the_most,
    the_retries,
    the_state,
    the_type,
)
from actors.records import record

if TYPE_CHECKING:
    import psycopg

    from actors.jobs.postgres.listener import Listener
    from actors.jobs.postgres.threads import Threads

__all__ = ["PostgresEngine", "PostgresStatistics"]

T = TypeVar("T")


@record
class PostgresStatistics(EngineStatistics):
    """One look at the engine and at its connections."""

    workers: PoolStatistics
    """Those for workers and for enqueuing."""
    calls: PoolStatistics
    """Those for operators and for transactions of one's own."""
    listener: ListenerStatistics | None
    """None behind a pooler."""


class PostgresEngine(DatabaseEngine):
    """Jobs in a PostgreSQL database. Made by `open_postgres`."""

    def __init__(
        self,
        *,
        name: str,
        schema: str,
        hot: Runner,
        calls: Threads,
        listener: Callable[..., Listener] | None,
        clock: Callable[[], float] | None,
        max_bytes: int,
    ) -> None:
        super().__init__(name, max_bytes)
        origin = f"{token_hex(4)}:"
        ring = {"channel": tables.channel(schema), "origin": origin}
        self._store = Store(name, schema, ring, clock)
        self._admin = admin.Admin(name, schema, ring, clock)
        self._hot = hot
        self._calls = calls
        self._doubtful: set[Lease] = set()
        self._listener = listener and listener(ring["channel"], origin, self._heard)

    # -- transactions of one's own ---------------------------------------------------------------

    async def run(self, fn: Callable[..., T], *args: object) -> T:
        """Run `fn(connection, *args)` in a transaction of this database, and commit it.

        The connection is a `psycopg.Connection`, and `fn` an ordinary function, which runs on a thread. With `enqueue_in`
        inside, a job is there if and only if what `fn` wrote is.

        Raises:
            EngineUnreachable: if it is `unsure`, the transaction may have been committed.
        """
        return await self._calls.call(lambda db: fn(db, *args))

    def enqueue_in(self, connection: psycopg.Connection[Any], *jobs: NewJob) -> list[Enqueued]:
        """Enqueue within a transaction that the caller has open and will commit: in `run`, or on a connection of its own.

        Workers that listen hear of it at the commit; those of this engine at their next poll, or by `wake` after it.
        """
        from actors.jobs.postgres.blocking import carry_out

        found = prepare(jobs, self.max_bytes)
        return carry_out(connection, self._store.enqueue(found))

    def _heard(self, job_type: str | None) -> None:
        if job_type is None:
            self.wake_all()
        else:
            self.wake(job_type)

    async def aclose(self) -> None:
        """Close all connections; what was asked for before is done first."""
        if self._listener is not None:
            await self._listener.aclose()
        await self._calls.aclose()
        await self._hot.aclose()

    # -- putting jobs in -------------------------------------------------------------------------

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        found = prepare(jobs, self.max_bytes)
        if not found:
            await trio.lowlevel.checkpoint()
            return []
        task = Task(partial(self._store.enqueue, found), atomic=len(found) >= COPY_FROM)
        done = await self._hot.run(task)
        self.wake(*{job.type for job, _ in found})
        return done

    async def fire(self, schedule: str, every: float, offset: float, job: NewJob) -> Fired:
        (prepared,) = prepare([job], self.max_bytes)
        fired = await self._hot.run(
            Task(partial(self._store.fire, schedule, every, offset, prepared), atomic=True)
        )
        if fired.key is not None:
            self.wake(job.type)
        return fired

    # -- for workers -----------------------------------------------------------------------------

    async def exchange(
        self, settlements: Sequence[Settlement] = (), claim: Claim | None = None
    ) -> Exchange:
        told = tuple(settlements)
        try:
            found = await self._hot.run(Task(partial(self._store.exchange, told, claim)))
        except Exception:
            # They may be settled: an answer may be lost, and the claim that follows them may fail in a transaction of its
            # own. Whoever tells them again must not hear that somebody else has the job.
            self._doubtful.update(one.lease for one in told)
            raise
        for job in found.jobs:
            job.engine = self
        if self._doubtful:
            found = await self._resolved(found, told)
        if any(isinstance(one.outcome, (Failed, PutBack)) for one in told):
            # What was put back may be taken by anybody, as soon as it is due.
            self.wake_all()
        return found

    async def _resolved(self, found: Exchange, told: Sequence[Settlement]) -> Exchange:
        doubtful = self._doubtful & found.refused
        self._doubtful.difference_update(one.lease for one in told)
        if doubtful:
            good = await self._hot.run(
                Task(partial(self._store.doubt, tuple(doubtful)), write=False)
            )
            found = attrs.evolve(found, refused=found.refused - good)
        return found

    async def extend(self, leases: Sequence[Lease], seconds: float) -> frozenset[Lease]:
        return await self._hot.run(Task(partial(self._store.extend, tuple(leases), seconds)))

    async def transact(self, lease: Lease, fn: Callable[..., Any], *args: object) -> Any:
        from actors.jobs.postgres.blocking import carry_out

        store, limit = self._store, self.max_bytes
        result: object = None

        def work(db: psycopg.Connection[Any]) -> None:
            nonlocal result
            # First: a worker that lost its lease does not even begin. The row is locked, so it stays true until the commit.
            if not carry_out(db, store.hold(lease)):
                raise LeaseLost(lease.key)
            result = fn(db, *args)
            text = (
                "{}" if result is None else encode(result, "what the transaction returned", limit)
            )
            carry_out(db, store.complete(lease, text))

        lost: EngineUnreachable | None = None
        try:
            await self._calls.call(work)
        except EngineUnreachable as error:
            if not error.unsure:
                raise
            lost = error
        if lost is not None and not await self._was_settled(lease):
            raise lost
        return result

    async def _was_settled(self, lease: Lease) -> bool:
        """Whether a transaction that was lost on its way was committed all the same."""
        task = Task(partial(self._store.doubt, (lease,)), write=False)
        try:
            return lease in await self._hot.run(task)
        except EngineUnreachable:
            return False

    # -- for operators ---------------------------------------------------------------------------

    async def find(self, key: str) -> JobInfo:
        return await self._calls.run(Task(partial(self._admin.find, key), write=False))

    async def jobs(
        self, state: State | str, job_type: str | None = None, *, most: int = 100
    ) -> tuple[JobInfo, ...]:
        wanted, kind, number = the_state(state), the_type(job_type), the_most(most)
        plan = partial(self._admin.jobs, wanted, kind, number)
        return await self._calls.run(Task(plan, write=False))

    async def cancel(self, key: str) -> bool:
        return await self._calls.run(Task(partial(self._admin.cancel, key))) is not None

    async def set_retries(self, key: str, retries: int) -> None:
        left = the_retries(retries)
        await self._calls.run(Task(partial(self._admin.set_retries, key, left)))

    async def resolve(self, key: str, retries: int | None = None) -> None:
        left = None if retries is None else the_retries(retries)
        self.wake(await self._calls.run(Task(partial(self._admin.resolve, key, left), atomic=True)))

    async def run_now(self, key: str) -> None:
        self.wake(await self._calls.run(Task(partial(self._admin.run_now, key))))

    async def poison(
        self, job_type: str | None = None, *, most: int = 100
    ) -> tuple[PoisonJob, ...]:
        plan = partial(self._admin.poison, the_type(job_type), the_most(most))
        return await self._calls.run(Task(plan, write=False))

    async def drop(self, key: str) -> None:
        await self._calls.run(Task(partial(self._admin.drop, key), atomic=True))

    async def pause(self, job_type: str) -> None:
        await self._calls.run(Task(partial(self._admin.pause, one_type(job_type), True)))

    async def resume(self, job_type: str) -> None:
        await self._calls.run(Task(partial(self._admin.pause, one_type(job_type), False)))
        self.wake(job_type)

    async def limit(self, job_type: str, most: int | None) -> None:
        kind, number = one_type(job_type), the_limit(most)
        await self._calls.run(Task(partial(self._admin.limit, kind, number)))
        self.wake(job_type)

    async def prune(self, older_than: float) -> int:
        age, total = the_age(older_than), 0
        while True:
            gone = await self._calls.run(Task(partial(self._admin.prune, age)))
            total += gone
            if gone < admin.PRUNED_AT_ONCE:
                return total

    async def statistics(self) -> PostgresStatistics:
        """One look at the jobs, which are counted, and at the connections."""
        counts = await self._calls.run(Task(self._admin.counts, write=False))
        return PostgresStatistics(
            name=counts.name,
            jobs=counts.jobs,
            poison=counts.poison,
            paused=counts.paused,
            limits=counts.limits,
            workers=self._hot.statistics(),
            calls=self._calls.statistics(),
            listener=None if self._listener is None else self._listener.statistics(),
        )

    # -- for what is kept beside the jobs --------------------------------------------------------

    def step(self, text: str, **values: object) -> Step:
        """A statement of this schema (`{s}`), at the time of this engine's clock (`now`)."""
        return self._admin.step(text, **values)

    async def carry_out(self, task: Task[T]) -> T:
        """Carry out a plan of such statements."""
        return await self._calls.run(task)

    def __repr__(self) -> str:
        return f"<PostgresEngine {self.name!r}, {self._hot!r}, {self._listener!r}>"
