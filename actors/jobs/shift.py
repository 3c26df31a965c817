"""Shift: one run of a job worker.

Floor: above place, signals and bell. Theory, with the faults of others that it answers:

* One task, the desk, speaks with the engine: it sends all outcomes there are and asks for as many jobs as there is room for,
  in one exchange, as soon as there is an outcome, a free place and work, or the time for a look. While one exchange is on its
  way the next batch gathers, so the size of batches follows the load and nothing waits for a timer.
* An exchange is shielded, with a short deadline of its own: were a claim cancelled, jobs would be claimed and nobody know it.
* All leases are renewed in one call each third of their length, until the last outcome is told, so also while the worker
  drains (kagkarlsson/db-scheduler#365). A handler whose lease ends all the same is cancelled at that moment.
* A stop ends the intake, gives back what has not begun, lets the rest end within the grace, cancels it and gives it back with
  its attempt restored (riverqueue/river#1290). Whatever ends the run, an exchange
  that is under way may end, and two more seconds are for telling outcomes.
* A job that goes down with its worker keeps its count of deliveries, so that one which always does so ends as poison.
* An engine that fails is asked again with a growing wait, and nothing here ends: leases and handlers go on as long as they can.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from actors.context import Context
from actors.jobs.bell import Bell
from actors.jobs.condition import Condition
from actors.jobs.engine import Claim, Engine, Exchange, Settlement
from actors.jobs.job import Lease
from actors.jobs.outcomes import (
    Completed,
    Failed,
    Outcome,
    PutBack,
    Why,
    outcome_of_error,
    outcome_of_result,
)
from actors.jobs.place import Places
from actors.jobs.signals import (
    IntakePaused,
    IntakeResumed,
    JobDuplicate,
    LeaseGone,
)
from actors.jobs.slot import Book, Slot
from actors.jobs.tally import Tally
from actors.resilience.backoff import Backoff
from actors.resilience.breaker_policy import BreakerState

if TYPE_CHECKING:
    from actors.jobs.worker import JobWorker

__all__ = ["Shift"]

_LAST_WORDS: Final = 2.0
"""Seconds for giving back what a cancelled run still held."""
_ENGINE_DOWN: Final = Backoff(initial=0.1, factor=2.0, maximum=5.0, jitter=0.2)


class Shift:
    """What one run of a `JobWorker` does."""

    def __init__(self, spec: JobWorker, engine: Engine, ctx: Context) -> None:
        self.spec = spec
        self.engine = engine
        self.ctx = ctx
        self.book = Book()
        self.bell = Bell()
        self.look_at = -inf  # when to ask for jobs again, if nobody tells us earlier
        self.rung = False  # whether there was word of work since the claim was sent
        self.stopping = False
        self.condition = Condition(ctx, engine.name, spec.claim_timeout)
        self.deaf: set[str] = set()  # jobs whose handlers were cancelled, at the last look
        self.closed_by = ""  # the dependency whose breaker keeps the intake closed
        self.tally = Tally(ctx, spec.type)
        self.name = f"{ctx.path}#{ctx.run}.{spec.random.getrandbits(32):08x}"
        self.low = max(spec.concurrency - 1, spec.held // 2)
        self.places: Places | None = None
        self.pausing: trio.CancelScope | None = None
        self.patience = spec.claim_timeout
        self.sent = inf  # when the claim was sent that is on its way

    async def work(self) -> None:
        """Until a stop is asked for and all is settled."""
        things = self.ctx.mailbox.office.shared
        things["engine", f"{self.engine.name} {id(self.engine):x}"] = (
            self.engine
        )  # for whoever looks
        unlisten = self.engine.listen(self.spec.type, self._work_came)
        try:
            with self.ctx.busy():  # a stop is ours to carry out
                try:
                    async with trio.open_nursery() as nursery:
                        self.places = Places(nursery, self._handle, self._outcome_of, self._over)
                        nursery.start_soon(self._await_stop)
                        if self.spec.renew:
                            nursery.start_soon(self._keep_leases)
                            nursery.start_soon(self._watch_leases)
                        await self._desk()
                        nursery.cancel_scope.cancel(reason="all jobs are settled")
                finally:
                    self.patience = min(self.patience, _LAST_WORDS)
                    end = trio.current_time() + self.patience
                    with trio.CancelScope(shield=True, deadline=end):
                        await self._settle_the_rest()
        finally:
            unlisten()

    # -- the desk --------------------------------------------------------------------------------

    async def _desk(self) -> None:
        book, spec = self.book, self.spec
        while True:
            if self.ctx.beat_at is not None:
                self.ctx.heartbeat()
            room, now = self._room(), trio.current_time()
            if book.ended or (room and len(book) <= self.low and now >= self.look_at):
                if not await self._exchange(room):
                    await self._wait_for_engine()
                continue
            if self.stopping and not book:
                return
            until = self.look_at if room and len(book) <= self.low else inf
            if self.closed_by:
                until = min(until, self._admits_at(now))
            beat = inf if self.ctx.beat_at is None else now + spec.poll
            await self.bell.wait(min(until, beat))

    def _room(self) -> int:
        """How many jobs to ask for."""
        if self.stopping:
            return 0
        room, closed_by = self.spec.held - len(self.book) + len(self.book.ended), ""
        for dependency in self.spec.requires:
            breaker = dependency.guards().breaker
            if breaker is not None and not breaker.admits:
                closed_by, room = dependency.name, 0
                break
            if breaker is not None and breaker.state is BreakerState.HALF_OPEN:
                room = min(room, 1)  # a trial, not a crowd that would be refused
                if len(self.book) > len(self.book.ended):
                    room = 0
        if closed_by != self.closed_by:
            self.closed_by = closed_by
            if closed_by:
                self.tally.emit(IntakePaused, type=self.spec.type, dependency=closed_by)
            else:
                self.tally.emit(IntakeResumed, type=self.spec.type)
        return room

    def _admits_at(self, now: float) -> float:
        waits = [
            breaker.statistics().retry_after
            for dependency in self.spec.requires
            if (breaker := dependency.guards().breaker) is not None
        ]
        return now + max([wait for wait in waits if wait > 0], default=self.spec.poll)

    async def _exchange(self, room: int) -> bool:
        """Tell all outcomes and take up to `room` jobs. False if the engine failed."""
        spec, book = self.spec, self.book
        told = book.ended
        book.ended = []
        gone = [slot for slot in told if slot.lost]
        told = [slot for slot in told if not slot.lost]
        for slot in gone:
            book.release(slot)
            self.tally.ended(slot.job, "superseded", "its lease was lost")
        self._start()
        claim = None
        if room:
            claim = Claim(
                type=spec.type,
                most=room,
                lease=spec.timeout,
                worker=self.name,
                max_deliveries=spec.max_deliveries,
                fetch=spec.fetch_variables,
            )
        if not told and claim is None:
            return True
        sent = trio.current_time()
        if claim is not None:
            self.sent, self.rung = sent, False
        settlements = [
            Settlement(slot.job.lease, slot.outcome, slot.job.retries)
            for slot in told
            if slot.outcome is not None
        ]
        self.condition.asked("exchange")
        try:
            found = await self._shielded(settlements, claim)
        except Exception as error:
            book.ended = told + book.ended
            self.sent = inf
            self.condition.failed("exchange", error, _ENGINE_DOWN.base(1))
            return False
        self.condition.works("exchange")
        plain, quiet = 0, self.tally.quiet
        for slot in told:
            book.release(slot)
            refused = slot.job.lease in found.refused
            if quiet and not refused and isinstance(slot.outcome, Completed):
                plain += 1
            else:
                self.tally.told(slot, refused=refused)
        self.tally.completed(plain)
        if claim is not None:
            self._took(found, claim, sent)
            self.sent = inf
        return True

    async def _shielded(self, settlements: list[Settlement], claim: Claim | None) -> Exchange:
        limit = self.patience
        with trio.CancelScope(shield=True, deadline=trio.current_time() + limit):
            return await self.engine.exchange(settlements, claim)
        raise trio.TooSlowError(f"no answer within {limit:g} s")

    def _took(self, found: Exchange, claim: Claim, sent: float) -> None:
        spec, book = self.spec, self.book
        self._look_at_run()
        if len(found.jobs) == claim.most or self.rung:
            self.look_at = -inf  # there may be more, or there is what came too late for this claim
        else:
            wait = spec.poll * spec.random.uniform(0.9, 1.1)
            if found.next_in is not None:
                wait = min(wait, found.next_in)
            self.look_at = trio.current_time() + wait
        for poison in found.poisoned:
            self.tally.set_aside(poison)
        until = sent + spec.timeout
        for job in found.jobs:
            mine = book.slots.get(job.key)
            if mine is None:
                book.take(Slot(job, until, fixed=not spec.renew))
                continue
            self.tally.emit(JobDuplicate, job=job.key, type=job.type)
            if mine.cancelled or not spec.renew:
                mine.lose()
                mine.following = Slot(
                    job, until, fixed=not spec.renew
                )  # it runs when the other has ended
            else:
                # Ours is the newest claim again: the run that is under way goes on under it.
                mine.job.lease, mine.job.deadline = job.lease, job.deadline
                mine.until = until
        self._start()

    def _start(self) -> None:
        """Put waiting jobs on free places."""
        book, now = self.book, trio.current_time()
        while book.waiting and (self.stopping or book.running < self.spec.concurrency):
            slot = book.waiting.popleft()
            if slot.lost or now >= slot.until:
                book.release(
                    slot
                )  # it waited here for longer than it was ours: somebody else may have it
                self.tally.ended(slot.job, "expired", "its lease ran out before there was a place")
            elif self.stopping:
                book.end(slot, PutBack(Why.INTERRUPTED, "stopped before it began"))
            else:
                assert self.places is not None
                book.running += 1
                self.places.give(slot)

    def _work_came(self) -> None:
        self.look_at, self.rung = -inf, True
        self.bell.ring()

    # -- one job ---------------------------------------------------------------------------------

    async def _handle(self, slot: Slot) -> Outcome:
        try:
            result = await self.spec.handler(slot.job, self.ctx)
            return outcome_of_result(result, self.engine.max_bytes)
        except Exception as error:
            return self._outcome_of(error, slot)

    def _over(self, slot: Slot, outcome: Outcome | None, error: BaseException | None) -> None:
        slot.scope = None
        self.book.running -= 1
        if error is not None:
            if not isinstance(error, trio.Cancelled):
                self.stopping = True  # more than this run is about to end: nothing else is begun
        elif outcome is not None:
            self.tally.took(trio.current_time() - slot.began)
        elif slot.lost or trio.current_time() >= slot.until:
            self._lost(slot)
        self._ended(slot, outcome)

    def _ended(self, slot: Slot, outcome: Outcome | None) -> None:
        book = self.book
        if outcome is None or book.waiting:
            self._look_at_run()
        if slot.job.completed:
            # Its own transaction has completed it: whatever came after changes nothing.
            book.release(slot)
            self.tally.ended(slot.job, "completed", "")
        else:
            book.end(slot, outcome or self._given_back())
        if book.waiting:
            self._start()
        self.bell.ring()

    def _look_at_run(self) -> None:
        if trio.current_effective_deadline() == -inf:
            self.stopping = True  # the run is being torn down: nothing else begins

    def _given_back(self) -> Outcome:
        if self.ctx.stopping:
            return PutBack(Why.INTERRUPTED, "its worker was stopped")
        return PutBack(Why.CRASHED, "its worker failed")  # perhaps because of this very job

    def _outcome_of(self, error: Exception, slot: Slot) -> Outcome:
        outcome = outcome_of_error(
            error,
            slot.job,
            backoff=self.spec.backoff,
            random=self.spec.random,
            now=datetime.now(UTC),
            limit=self.engine.max_bytes,
        )
        if isinstance(outcome, Failed):
            self.tally.failed(slot.job, error, outcome)
        return outcome

    def _lost(self, slot: Slot) -> None:
        slot.lost = True
        self.tally.emit(LeaseGone, job=slot.job.key, type=slot.job.type)

    # -- leases ----------------------------------------------------------------------------------

    async def _keep_leases(self) -> None:
        every = self.spec.timeout / 3
        due = trio.current_time() + every
        while True:
            await trio.sleep_until(due)
            due = max(due + every, trio.current_time())
            await self._renew()

    async def _renew(self) -> None:
        slots = {slot.job.lease: slot for slot in self.book.slots.values() if not slot.lost}
        if not slots:
            return
        sent = trio.current_time()
        self.condition.asked("extend")
        error: Exception = trio.TooSlowError(f"no answer within {self.spec.claim_timeout:g} s")
        try:
            with trio.CancelScope(shield=True, deadline=sent + self.spec.claim_timeout):
                self._renewed(slots, await self.engine.extend(list(slots), self.spec.timeout), sent)
                self.condition.works("extend")
                return
        except Exception as raised:
            error = raised
        # The next call may come through before the leases end; if none does, their scopes end the handlers.
        self.condition.failed("extend", error, self.spec.timeout / 3)

    def _renewed(self, slots: dict[Lease, Slot], lost: frozenset[Lease], sent: float) -> None:
        for lease, slot in slots.items():
            if self.book.slots.get(slot.job.key) is not slot or slot.job.lease != lease:
                continue  # settled, or claimed anew, in the meantime
            if lease in lost and not slot.job.completed:
                # What has ended may be settled, and its answer on the way or lost: the engine says so when it is told again.
                # So does the job's own transaction.
                if slot.outcome is None and not slot.job.deciding:
                    slot.lose()
            else:
                slot.until = sent + self.spec.timeout

    async def _watch_leases(self) -> None:
        """Cancel handlers whose leases have ended although they should have been renewed.

        One timer for all. A deadline for each scope would cost more than what it guards; and a handler that asks how much time
        it has would be told of one that is moved before it comes.
        """
        while True:
            now = trio.current_time()
            for slot in self.book.slots.values():
                slot.run_out(now)
            known = [slot.until for slot in self.book.slots.values() if slot.until > now]
            # What comes later ends later than what was asked for last, if that is on its way; unless it is on its way for so
            # long that what it brings is over before it is here.
            asked = self.sent if now < self.sent + self.spec.timeout else now
            await trio.sleep_until(min([*known, min(asked, now) + self.spec.timeout]))

    # -- the end ---------------------------------------------------------------------------------

    async def _await_stop(self) -> None:
        while await self.ctx.sleep(self.spec.claim_timeout):
            self.condition.look()
            self._look_at_places()
        self.stopping = True
        self._start()
        self.bell.ring()
        if self.pausing is not None:
            self.pausing.cancel(reason="a stop was asked for")
        now, deadline = trio.current_time(), self.ctx.host.stop_deadline()
        grace = self.spec.grace
        end = now + 0.9 * (deadline - now) if grace is None else now + grace
        if end < inf:
            await trio.sleep_until(end)
            for slot in self.book.slots.values():
                if slot.scope is not None:
                    slot.scope.cancel(reason="its worker is being stopped")

    async def _settle_the_rest(self) -> None:
        """Give back what is still in hand, however the run ends."""
        self.stopping = True
        book = self.book
        while book.waiting:
            slot = book.waiting.popleft()
            book.end(slot, PutBack(Why.INTERRUPTED, "stopped before it began"))
        while (
            book.ended
        ):  # also what came again while it ran: that has its turn when the other has gone
            if not await self._exchange(0):
                await self._wait_for_engine()

    # -- the engine ------------------------------------------------------------------------------

    async def _wait_for_engine(self) -> None:
        with trio.CancelScope() as self.pausing:
            failures = max(self.condition.failures, 1)
            await trio.sleep(_ENGINE_DOWN.delay(failures, self.spec.random))
        self.pausing = None

    def _look_at_places(self) -> None:
        """Handlers that go on although they were cancelled, for a look or longer, keep their places: there may be none left."""
        cancelled = {
            key
            for key, slot in self.book.slots.items()
            if slot.scope is not None and slot.scope.cancel_called
        }
        deaf, self.deaf = len(cancelled & self.deaf), cancelled
        if deaf >= self.spec.concurrency:
            self.ctx.degraded(
                "places", f"all {deaf} places are held by handlers that go on although cancelled"
            )
        else:
            self.ctx.restored("places")

    def __repr__(self) -> str:
        return f"<Shift of {self.name}: {self.book!r}{' stopping' if self.stopping else ''}>"
