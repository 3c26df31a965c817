"""Idempotency: work under a key happens once, and who repeats it gets the stored result.

Floor: above job and signals. The rules:

* Claim first, then act, then record. To look first and claim later is a race (in trials it left as many duplicates as nothing).
* A claim has an owner and an end. One that ended without a record means that its owner began and was never heard of again: it
  may have acted or not, and only the caller can say whether to run again or to have a person look (`ambiguous`).
* A key that comes with another payload is a bug, not a repetition. A replay is marked as one, and counted.
* A record that cannot be written is reported and never assumed (openmeterio/openmeter#4485). No time left is not the same as no
  limit (aws-powertools/powertools-lambda-python#4759).

Keep records for longer than anything can be delivered again: retries with their waits, and what an operator may run anew. For
effects in the engine's own database no record is needed: `job.transaction` does it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from secrets import token_hex
from types import CellType
from typing import Any, Final, Literal, TypeAlias

import attrs
import trio

from actors.errors import IncidentError, shown
from actors.jobs.errors import (
    AmbiguousAttempt,
    KeyBusy,
    KeyReused,
    NotStorable,
    ResultNotStored,
    StoredFailure,
)
from actors.jobs.job import Job
from actors.jobs.signals import ResultAtRisk
from actors.options import OptionError, checked, seconds as is_seconds, some_seconds
from actors.resilience.signals import current_office, current_worker, report

__all__ = [
    "Begin",
    "Decision",
    "IdempotencyPolicy",
    "IdempotencyRecord",
    "IdempotencyStore",
    "decide",
]

HITS: Final = "wf_worker_idempotency_cache_hits_total"


@attrs.frozen(kw_only=True)
class IdempotencyRecord:
    """What a store has under one key."""

    key: str
    fingerprint: str
    """Of the payload."""
    owner: str
    """Who claimed it last."""
    state: Literal["started", "done", "failed"]
    claimed_at: float
    claimed_until: float
    result: str | None = None
    """JSON text of the result, or the reason of the failure."""
    done_at: float | None = None
    expires_at: float | None = None
    job_id: int | None = None
    """Of the job it belongs to, in the same database. While that is not finished the record does not expire."""


@attrs.frozen
class Begin:
    """The caller has claimed the key and may act."""

    again: bool = False
    """True if an earlier attempt may have acted."""


Decision: TypeAlias = Begin | IdempotencyRecord
"""To act, or the record that holds the end of an earlier attempt."""


def decide(
    record: IdempotencyRecord | None,
    *,
    key: str,
    fingerprint: str,
    now: float,
    run_again: bool,
    unfinished: bool = False,
) -> Decision:
    """Whether to act. Pure; a store asks it with its lock held and writes the claim if the answer is `Begin`.

    `unfinished` is the job that the record belongs to, if it does: such a record has not expired, whatever it says
    (alphagov/pay-connector#4573).

    Raises:
        KeyReused, KeyBusy, AmbiguousAttempt: nobody may act now.
    """
    if record is None or (
        record.expires_at is not None and now >= record.expires_at and not unfinished
    ):
        return Begin()
    if record.fingerprint != fingerprint:
        raise KeyReused(key)
    if record.state != "started":
        return record
    if now < record.claimed_until:
        raise KeyBusy(key, owner=record.owner, retry_after=record.claimed_until - now)
    if not run_again:
        raise AmbiguousAttempt(key, owner=record.owner, claimed_at=record.claimed_at)
    return Begin(again=True)


def _ambiguous(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value not in ("run", "park"):
        raise OptionError(
            f"ambiguous is 'run' (again) or 'park' (for a person), not {value!r}", option=field.name
        )


@checked()
@attrs.frozen(kw_only=True)
class IdempotencyPolicy:
    """How work under a key is treated."""

    claim_for: float = attrs.field(default=30.0, validator=is_seconds)
    """Seconds that a claim lasts; renewed each third of it while the work goes on. 0 claims nothing beyond this instant."""
    keep_for: float | None = attrs.field(default=7 * 86400.0, validator=some_seconds)
    """Seconds that a result is kept, and at least until the job it belongs to is finished; none is for ever."""
    ambiguous: Literal["run", "park"] = attrs.field(default="run", validator=_ambiguous)
    """What to do when an earlier attempt may have acted: run again, or raise `AmbiguousAttempt`, which makes an incident."""
    final: tuple[type[Exception], ...] = attrs.field(default=(), converter=tuple)
    """Errors that no other attempt can cure: stored, and told again by `StoredFailure`."""
    write_every: float = attrs.field(default=1.0, validator=is_seconds)
    """Seconds between tries to store a result."""
    write_for: float = attrs.field(default=10.0, validator=is_seconds)
    """Seconds after which that is given up."""


class IdempotencyStore(ABC):
    """Keeps records, and runs work under them: `await store.once(key, charge, order, payload=order)`.

    Args:
        policy: how, unless a call says otherwise.
    """

    def __init__(self, policy: IdempotencyPolicy | None = None) -> None:
        self.policy = policy or IdempotencyPolicy()

    async def once_for(
        self, job: Job, fn: Callable[..., Awaitable[Any]], /, *args: object, step: str = ""
    ) -> Any:
        """`once` under the key of a job, with its variables as payload; `step` tells several effects of one job apart.

        Raises:
            KeyReused: other work was done under this key in this run; also all that `once` raises.
        """
        key = f"{job.idempotency_key}/{step}" if step else job.idempotency_key
        work = _work(fn, args)
        if key in job.effects and not _same(job.effects[key], work):
            raise KeyReused(key)  # it would not be done, and return what the other has returned
        result = await self._once(
            key, fn, args, job.variables, self.policy, job.worker, job.type, self.job_id(job)
        )
        job.effects[key] = work
        return result

    async def once(
        self,
        key: str,
        fn: Callable[..., Awaitable[Any]],
        /,
        *args: object,
        payload: object = None,
        policy: IdempotencyPolicy | None = None,
    ) -> Any:
        """Run `fn(*args)` under `key`, or return what it returned before; results are JSON values.

        Raises:
            KeyBusy: somebody is at it; as `Rejected`, it hands a job back.
            KeyReused: the key was used with another payload.
            AmbiguousAttempt: an earlier attempt may have acted, and the policy asks for a person.
            StoredFailure: an earlier attempt failed for good.
            ResultNotStored: the work was done, and the record could not be written.
            Exception: what `fn` raised; the key is free again, unless it is `final`.
        """
        worker = current_worker()
        return await self._once(key, fn, args, payload, policy or self.policy, worker, worker)

    async def _once(
        self,
        key: str,
        fn: Callable[..., Awaitable[Any]],
        args: tuple[object, ...],
        payload: object,
        policy: IdempotencyPolicy,
        owner: str,
        label: str,
        job_id: int | None = None,
    ) -> Any:
        owner = f"{owner or 'somebody'}/{token_hex(4)}"
        found = await self.claim(
            key,
            fingerprint(payload),
            owner,
            claim_for=policy.claim_for,
            run_again=policy.ambiguous == "run",
            job_id=job_id,
        )
        if isinstance(found, IdempotencyRecord):
            counts = current_office().counts
            counts[HITS, label] = counts.get((HITS, label), 0) + 1
            if found.state == "failed":
                raise StoredFailure(key, found.result or "", at=found.done_at or 0.0)
            return json.loads(found.result or "null")
        return await self._act(key, owner, fn, args, policy)

    async def _act(
        self,
        key: str,
        owner: str,
        fn: Callable[..., Awaitable[Any]],
        args: tuple[object, ...],
        policy: IdempotencyPolicy,
    ) -> Any:
        try:
            error, result = await self._run(key, owner, fn, args, policy)
        except BaseException:
            # Cancelled: whether it acted is not known, but that nobody is at it is.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                await self._quietly(self.extend(key, owner, 0.0))
            raise
        if error is not None:
            if policy.final and isinstance(error, policy.final):
                reason = shown(error).encode("utf-8", "replace").decode("utf-8")
                await self._record(key, owner, "failed", reason, policy)
            else:
                # Also when cancelled meanwhile: nobody has to wait for the end of this claim.
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                    await self._quietly(self.forget(key, owner))
            raise error
        text, problem = _as_json(result)
        await self._record(key, owner, "done", text, policy)
        if problem:
            raise IncidentError(
                f"the work under key {key!r} was done, but its result is no JSON: {problem}"
            )
        return result

    async def _run(
        self,
        key: str,
        owner: str,
        fn: Callable[..., Awaitable[Any]],
        args: tuple[object, ...],
        policy: IdempotencyPolicy,
    ) -> tuple[Exception | None, Any]:
        error, result = None, None
        async with trio.open_nursery() as nursery:
            if policy.claim_for:
                nursery.start_soon(self._keep, key, owner, policy.claim_for)
            try:
                result = await fn(*args)
            except (
                Exception
            ) as raised:  # raised again by the caller, outside of the nursery's group
                error = raised
            # A cancellation of the caller's that has waited for this moment must not take the result with it.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.cancel(reason="the work is done")
        return error, result

    async def _keep(self, key: str, owner: str, seconds: float) -> None:
        while True:
            await trio.sleep(seconds / 3)
            await self._quietly(self.extend(key, owner, seconds))

    async def _record(
        self, key: str, owner: str, state: str, result: str, policy: IdempotencyPolicy
    ) -> None:
        """Write the end of the work, trying for a while; also when cancelled meanwhile, since the work was done."""
        last = trio.current_time() + policy.write_for
        with trio.CancelScope(shield=True):
            while True:
                try:
                    if await self.finish(key, owner, state, result, keep_for=policy.keep_for):
                        return
                    problem: Exception = KeyBusy(key, owner="another owner", retry_after=0.0)
                    last = trio.current_time()
                except Exception as raised:
                    problem = raised
                if trio.current_time() + policy.write_every > last:
                    report(ResultAtRisk, key=key, error=problem)
                    raise ResultNotStored(key, seconds=policy.write_for) from problem
                await trio.sleep(policy.write_every)

    async def _quietly(self, call: Awaitable[object]) -> None:
        """For what is made good by itself: a claim that is not renewed or not given up runs out."""
        try:
            await call
        except Exception:
            await trio.lowlevel.checkpoint()

    # -- what a store does -----------------------------------------------------------------------

    def job_id(self, job: Job) -> int | None:
        """The number of a job whose row lies beside the records; None if it is elsewhere."""
        return None

    @abstractmethod
    async def claim(
        self,
        key: str,
        fingerprint: str,
        owner: str,
        *,
        claim_for: float,
        run_again: bool,
        job_id: int | None = None,
    ) -> Decision:
        """In one step: `decide`, and if the answer is `Begin`, write the claim."""

    @abstractmethod
    async def extend(self, key: str, owner: str, seconds: float) -> bool:
        """Let an owner's claim last until so many seconds from now. False if it is no longer its own."""

    @abstractmethod
    async def finish(
        self, key: str, owner: str, state: str, result: str, *, keep_for: float | None
    ) -> bool:
        """Write the end of an owner's work. False if the claim is no longer its own.

        To write the same end again is no fault: its owner did not hear that it was written.
        """

    @abstractmethod
    async def forget(self, key: str, owner: str | None = None) -> bool:
        """Free a key, whoever has it or only if `owner` does. False if there was nothing to free."""

    @abstractmethod
    async def prune(self) -> int:
        """Delete records that have expired. Returns how many."""


def _as_json(result: object) -> tuple[str, str]:
    """Its text and nothing; or that of nothing, and what is wrong with it."""
    try:
        return json.dumps(result, allow_nan=False), ""
    except (TypeError, ValueError, RecursionError) as error:
        return "null", str(error)


def _work(fn: Callable[..., object], args: tuple[object, ...]) -> object:
    """What tells a piece of work from others in one run: a function that is made anew, with the same values in it, is the same."""
    if isinstance(fn, partial):
        return _work(fn.func, (*fn.args, *args)), fn.keywords
    inside = tuple(map(_content, getattr(fn, "__closure__", None) or ()))
    return getattr(fn, "__code__", fn), getattr(fn, "__self__", None), inside, args


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


def _same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # values of other people's: nobody can say that they differ
        return True


def fingerprint(payload: object) -> str:
    """The same for the same JSON value, whatever the order of its names.

    Raises:
        NotStorable: it is no JSON value.
    """
    if payload is None:
        return ""
    try:
        text = json.dumps(payload, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStorable(f"a payload has to be a JSON value: {error}") from error
    return sha256(text.encode("utf-8")).hexdigest()
