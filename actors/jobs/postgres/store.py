"""Store: what workers do to the tables, as plans.

Floor: above statements and steps. Nothing here connects, waits or reads a clock: see `steps`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from actors.jobs.engine import Claim, Enqueued, Exchange, Fired, Settlement, most_ahead
from actors.jobs.errors import NotStorable
from actors.jobs.job import Job, Lease, decode, key_of
from actors.jobs.outcomes import Completed, Failed, Poisoned, effect, the_wait
from actors.jobs.poison import PoisonJob
from actors.jobs.postgres import statements as sql
from actors.jobs.postgres.steps import Copy, Plan, Rows, Step
from actors.jobs.postgres.values import (
    Prepared,
    arrays,
    aside,
    completions,
    held,
    leases_of,
    numbers,
    sorted_out,
)

__all__ = ["COPY_FROM", "Store"]

COPY_FROM: Final = 500
"""Jobs from which on COPY is the faster way."""


class Store:
    """The plans for one schema.

    Args:
        name: of the engine, in idempotency keys.
        schema: where the tables are.
        ring: what is notified (`channel`), and who notifies, at the start of each notification (`origin`).
        clock: instead of the server's.
    """

    def __init__(
        self,
        name: str,
        schema: str,
        ring: dict[str, str],
        clock: Callable[[], float] | None,
    ) -> None:
        self.name = name
        self.schema = schema
        self._clock = clock
        self._ring = ring
        texts = {key: getattr(sql, key).format(s=schema) for key in sql.__all__}
        self._sql = {key: (text.encode(), "%(now)s" in text) for key, text in texts.items()}

    def step(self, name: str, /, **values: object) -> Step:
        """A statement of this file with its values."""
        text, timed = self._sql[name]
        if timed:
            values["now"] = self.now()
        return Step(text, values)

    def now(self) -> float | None:
        """The time to use; None for the server's."""
        return None if self._clock is None else self._clock()

    # -- settling and claiming -------------------------------------------------------------------

    def exchange(self, settlements: Sequence[Settlement], claim: Claim | None) -> Plan[Exchange]:
        """Settle, then claim."""
        done, others, twice = sorted_out(settlements)
        refused = set(twice)
        if others or claim is None:
            steps: list[Step] = []
            if done:
                steps.append(self.step("COMPLETE", **completions(done)))
            if others:
                steps.append(self._settling(others))
            if claim is not None:
                steps.append(self._fast({}, claim, claim.most))
            answers: list[Rows] = (yield steps) if steps else []
            rows = answers.pop() if claim is not None else []
            refused.update(
                {*done, *others}.difference(leases_of(row for some in answers for row in some))
            )
            if claim is None:
                return Exchange(refused=frozenset(refused))
        else:
            rows = yield self._fast(done, claim, claim.most)
            if rows[0][4] is not None:
                refused.update(set(done).difference(leases_of(rows[0][4])))
        jobs: list[Job] = []
        poisoned: list[PoisonJob] = []
        while True:
            spoilt = self._read(rows, claim, jobs, poisoned)
            if spoilt:
                bad = {job.lease: Settlement(job.lease, Poisoned(why)) for job, why in spoilt}
                settled: Rows = yield self._settling(bad)
                poisoned += [aside(job, why, settled[0][2]) for job, why in spoilt if settled]
            if len(jobs) >= claim.most or not (rows[0][3] or spoilt):
                break
            # Each round but the first and the last sets something aside, of which there is not much.
            steps = [
                self.step("LOCK_TYPE", type=claim.type),
                self.step("PROMOTE", type=claim.type),
                self.step("CLAIM", **self._claim(claim, claim.most - len(jobs))),
            ]
            rows = (yield steps)[-1]
        times = [time for time in rows[0][1:3] if time is not None]
        if jobs:
            times.append(claim.lease)
        return Exchange(
            jobs=tuple(jobs),
            refused=frozenset(refused),
            poisoned=tuple(poisoned),
            next_in=max(0.0, min(times)) if times else None,
        )

    def doubt(self, leases: Sequence[Lease]) -> Plan[frozenset[Lease]]:
        """Which of these leases have been settled.

        The token is still the newest, and the job no longer active: only its holder can have done that, or an operator's
        `cancel`, which is told apart.
        """
        rows: Rows = yield self.step("DOUBT", ids=numbers(held(one)[0] for one in leases))
        return leases_of(rows).intersection(leases)

    def _fast(self, done: dict[Lease, Settlement], claim: Claim, most: int) -> Step:
        return self.step("CLAIM_FAST", **completions(done), **self._claim(claim, most))

    def _claim(self, claim: Claim, most: int) -> dict[str, object]:
        return {
            "type": claim.type,
            "most": most,
            "lease": float(claim.lease),
            "worker": claim.worker,
            "max": claim.max_deliveries,
            "fetch": None if claim.fetch is None else list(claim.fetch),
        }

    def _settling(self, others: dict[Lease, Settlement]) -> Step:
        told: list[dict[str, Any]] = []
        for lease, one in others.items():
            key, token = held(lease)
            row = effect(one.outcome)._asdict()
            for name in ("error", "error_code"):
                if row[name] is not None:
                    row[name] = row[name].replace("\0", "\ufffd")
            one_less = isinstance(one.outcome, Failed) and one.outcome.one_less
            if isinstance(one.outcome, Failed) and one_less:
                row["retry_in"] = the_wait(one.outcome.retry_in)  # it may have retries by now
            told.append({"id": key, "token": token, "one_less": one_less, **row})
        told.sort(key=itemgetter("id"))
        return self.step("SETTLE", told=json.dumps(told, ensure_ascii=False), **self._ring)

    def _read(
        self,
        rows: Rows,
        claim: Claim,
        jobs: list[Job],
        poisoned: list[PoisonJob],
    ) -> list[tuple[Job, str]]:
        """Take in what was claimed; return those whose variables cannot be read, and why."""
        head, spoilt = rows[0], list[tuple[Job, str]]()
        deadline, name, fetch, worker, kind = (
            head[0] + claim.lease,
            self.name,
            claim.fetch,
            claim.worker,
            claim.type,
        )
        if head[5] is not None:
            for key, of, reason, deliveries, last, variables in head[5]:
                poisoned.append(
                    PoisonJob(
                        key=str(key),
                        type=of,
                        reason=reason,
                        deliveries=deliveries,
                        worker=last,
                        variables=variables,
                        at=head[0],
                    )
                )
        if head[6] is None:
            return spoilt
        for row in rows:
            (_, _, _, _, _, _, number, claims, retries, attempt, deliveries, priority, snoozes) = (
                row[:13]
            )
            given, created, whole, parts = row[13:]
            key, problem = str(number), ""
            try:
                if parts is None:
                    variables = decode(whole)
                    if fetch is not None:
                        variables = {
                            field: variables[field] for field in fetch if field in variables
                        }
                else:
                    variables = {
                        field: decode(f'{{"v":{part}}}')["v"]
                        for field, part in zip(fetch or (), parts, strict=True)
                        if part is not None
                    }
            except NotStorable as error:
                variables, problem = {}, str(error)
            job = Job(
                key=key,
                type=kind,
                variables=variables,
                retries=retries,
                attempt=attempt,
                deliveries=deliveries,
                lease=Lease(key, str(claims)),
                deadline=deadline,
                idempotency_key=given or key_of(name, key, created),
                fence=claims,
                priority=priority,
                snoozes=snoozes,
                worker=worker,
            )
            if problem:
                job.headers = {"variables": whole or ""}
                spoilt.append((job, problem))
            else:
                jobs.append(job)
        return spoilt

    # -- leases ----------------------------------------------------------------------------------

    def extend(self, leases: Sequence[Lease], seconds: float) -> Plan[frozenset[Lease]]:
        """Renew; return what was lost."""
        pairs = sorted(map(held, leases))
        rows: Rows = yield self.step("EXTEND", **arrays(pairs), seconds=float(seconds))
        return frozenset(leases).difference(leases_of(rows))

    def hold(self, lease: Lease) -> Plan[bool]:
        """Whether the lease is good; it stays so until the transaction ends."""
        key, token = held(lease)
        rows: Rows = yield self.step("HELD", id=key, token=token)
        return bool(rows)

    def complete(self, lease: Lease, result: str) -> Plan[None]:
        """Complete a job of which the lease is held."""
        one = {lease: Settlement(lease, Completed(result))}
        yield self.step("COMPLETE", **completions(one))

    # -- putting jobs in -------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[Prepared]) -> Plan[list[Enqueued]]:
        """Insert jobs, except those whose unique text is taken."""
        if not jobs:
            return []
        if len(jobs) >= COPY_FROM and not any(job.unique for job, _ in jobs):
            return (yield from self._copy(jobs))
        steps = [self._inserting(jobs)]
        unique = [n for n, (job, _) in enumerate(jobs) if job.unique is not None]
        if unique:
            steps.append(self._conflicts(jobs, unique))
        answers: list[Rows] = yield steps
        rows, *found = answers
        done = [Enqueued(str(key), made) for key, made in rows]
        missing = {n for n in unique if not done[n].created}
        for place, key in found[0] if found else ():
            n = unique[int(place) - 1]
            if n in missing:
                done[n] = Enqueued(str(key), created=False)
                missing.discard(n)
        for n in sorted(missing):  # what was in the way was finished in the meantime
            (done[n],) = yield from self.enqueue([jobs[n]])
        return done

    def fire(self, schedule: str, every: float, offset: float, job: Prepared) -> Plan[Fired]:
        """Enqueue the job of the present period, if this is the first to ask. One transaction."""
        rows: Rows = yield self.step(
            "FIRE",
            schedule=schedule,
            every=float(every),
            offset=float(offset),
            ahead=most_ahead(every),
        )
        won, next_in = rows[0]
        key = (yield from self.enqueue([job]))[0].key if won else None
        return Fired(key, next_in)

    def _inserting(self, jobs: Sequence[Prepared]) -> Step:
        return self.step(
            "ENQUEUE",
            types=[job.type for job, _ in jobs],
            priorities=numbers(job.priority for job, _ in jobs),
            delays=numbers(job.delay for job, _ in jobs),
            retries=numbers(job.retries for job, _ in jobs),
            variables=[text for _, text in jobs],
            uniques=[job.unique for job, _ in jobs],
            keys=[job.idempotency_key for job, _ in jobs],
            **self._ring,
        )

    def _conflicts(self, jobs: Sequence[Prepared], unique: list[int]) -> Step:
        some = [jobs[n][0] for n in unique]
        return self.step(
            "CONFLICTS", types=[job.type for job in some], uniques=[job.unique for job in some]
        )

    def _copy(self, jobs: Sequence[Prepared]) -> Plan[list[Enqueued]]:
        drawn: Rows = yield self.step("NUMBERS", count=len(jobs))
        now = drawn[0][1]
        rows = [
            (
                drawn[n][0],
                job.type,
                "scheduled" if job.delay > 0 else "ready",
                job.priority,
                datetime.fromtimestamp(now + job.delay, UTC),
                job.retries,
                text,
                job.idempotency_key,
                datetime.fromtimestamp(now, UTC),
            )
            for n, (job, text) in enumerate(jobs)
        ]
        yield Copy(
            f"COPY {self.schema}.jobs (id, type, state, priority, due_at, retries, variables,"
            " idempotency_key, created_at) FROM STDIN".encode(),
            rows,
        )
        types = sorted({job.type for job, _ in jobs if not job.delay})
        if types:
            yield self.step("NOTIFY", types=types, **self._ring)
        return [Enqueued(str(row[0]), created=True) for row in rows]
