"""OneJob: what a person does to one job, by its key.

Floor: above messages. The rule: keys are only unique within an engine, so a job is looked up everywhere first and nothing is done to one
that could be another; what cannot be done is refused with how the job is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from actors.jobs.engine import Engine, JobInfo
from actors.jobs.errors import NoSuchJob
from actors.jobs.outcomes import State
from supervision.observer.messages import Trouble

__all__ = ["cancel", "drop", "holders", "requeue", "retry", "the_job"]

_ENDED: Final = frozenset({State.COMPLETED, State.ERRORED, State.CANCELLED})


async def holders(engines: Iterable[Engine], key: str) -> list[tuple[Engine, JobInfo]]:
    """The engines that have a job of this key, and how it is."""
    found: list[tuple[Engine, JobInfo]] = []
    for engine in engines:
        try:
            found.append((engine, await engine.find(key)))
        except NoSuchJob:
            continue
    return found


async def the_job(
    engines: Iterable[Engine], key: str, *, incident: bool = False
) -> tuple[Engine, JobInfo]:
    """The one job of this key, or the one incident of it.

    Raises:
        Trouble: there is none, or several engines have one.
    """
    found = await holders(engines, key)
    meant = [one for one in found if not incident or one[1].state is State.INCIDENT]
    if len(meant) > 1:
        names = " and ".join(engine.name for engine, _ in meant)
        raise Trouble(
            "conflict", f"{names} have a job {key!r} each: say which 'engine' is meant, as well"
        )
    if not meant:
        states = "".join(f"; it is {info.state}" for _, info in found)
        what = "a job that needs a person" if incident and found else "a job"
        raise Trouble("not_found", f"no engine of this tree has {what} {key[:100]!r}{states}")
    return meant[0]


async def cancel(engine: Engine, job: JobInfo) -> str:
    """End a job that is not finished."""
    if not await engine.cancel(job.key):
        raise Trouble("conflict", f"it has ended already: it is {job.state}")
    if job.state is State.ACTIVE:
        return "is cancelled; its handler is, when its lease is renewed next"
    return "is cancelled"


async def retry(engine: Engine, job: JobInfo, retries: int | None) -> str:
    """Have a job run as soon as a worker is free, whatever it waits for: a person, its time, or its next try."""
    if job.state in _ENDED:
        raise Trouble("conflict", f"it has ended: it is {job.state}; enqueue a new one")
    if job.state is State.INCIDENT:
        # Most incidents have used up their retries, and who asks for another try means one.
        left = max(job.retries, 1) if retries is None else retries
        await engine.requeue(job.key, left)
        return f"will be tried again; retries: {left}"
    if retries is not None:
        await engine.set_retries(job.key, retries)
    if job.state is State.SCHEDULED:
        await engine.run_now(job.key)
        return f"is due now, {job.due_in:.3g} s early"
    if retries is not None:
        return f"is {job.state}; retries: {retries}"
    if job.state is State.ACTIVE:
        raise Trouble("conflict", f"it runs now, at {job.worker}")
    raise Trouble("conflict", "it is ready already: the next free worker takes it")


async def requeue(engine: Engine, job: JobInfo, retries: int | None) -> str:
    """Give an incident, or what was set aside, another chance."""
    await engine.requeue(job.key, retries)
    return "will be tried again"


async def drop(engine: Engine, job: JobInfo) -> str:
    """End an incident, or what was set aside, for good."""
    await engine.drop(job.key)
    return "is dropped"
