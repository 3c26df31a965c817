"""Jobs: what engines answer about single jobs: the one of a key, those in a state, those that were set aside.

Floor: above onejob and pieces. The rule: an engine has a few seconds, and one that is silent, or cannot do such a thing, is told by one
sentence; what is in a job leaves this file only if it may be shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final, TypeVar, cast

import trio

from actors.events import plain
from actors.jobs.engine import Engine, JobInfo
from actors.jobs.errors import NotSupported
from actors.jobs.poison import PoisonJob
from actors.options import OptionError
from supervision.observer.messages import Trouble
from supervision.observer.onejob import holders
from supervision.observer.pieces import one_line

__all__ = ["by_key", "in_state", "set_aside"]

T = TypeVar("T")
PATIENCE: Final = 5.0
"""Seconds that an engine of jobs has for an answer."""


async def by_key(engines: Sequence[Engine], key: str, *, show: bool) -> list[dict[str, Any]]:
    """A line for each engine that has a job of this key.

    Raises:
        Trouble: none has.
    """
    found = await _in_time(holders(engines, key))
    if not found:
        raise Trouble("not_found", f"no engine of this tree has a job {key[:100]!r}")
    return [_line(engine, job, show=show) for engine, job in found]


async def in_state(
    engines: Sequence[Engine], state: str, job_type: str | None, most: int, *, show: bool
) -> dict[str, Any]:
    """A line for each job in a state, the oldest first, and whether there are more.

    Raises:
        Trouble: there is no such state, or an engine cannot list.
    """
    found: list[tuple[Engine, JobInfo]] = []
    for engine in engines:
        jobs = await _in_time(engine.jobs(state, job_type, most=most + 1))
        found += [(engine, job) for job in jobs]
    if len(engines) > 1:
        found.sort(key=lambda pair: -(pair[1].age or 0.0))
    lines = [_line(engine, job, show=show) for engine, job in found[:most]]
    return {"jobs": lines, "more": len(found) > most}


async def set_aside(
    engines: Sequence[Engine], job_type: str | None, most: int
) -> list[tuple[Engine, PoisonJob]]:
    """What was set aside."""
    found: list[tuple[Engine, PoisonJob]] = []
    for engine in engines:
        jobs = await _in_time(engine.poison(job_type, most=most))
        found += [(engine, job) for job in jobs]
    return found[:most]


def _line(engine: Engine, job: JobInfo, *, show: bool) -> dict[str, Any]:
    line = {"engine": engine.name, **cast("dict[str, Any]", plain(job))}
    if not show:
        del line["variables"], line["result"]
    return line


async def _in_time(waiting: Awaitable[T]) -> T:
    """What an engine answers.

    Raises:
        Trouble: it does not.
    """
    try:
        with trio.fail_after(PATIENCE):
            return await waiting
    except OptionError as error:
        raise Trouble("bad_request", str(error)) from None
    except NotSupported as error:
        raise Trouble("conflict", f"{error}; name another 'engine', if there is one") from None
    except Exception as error:
        raise Trouble(
            "unavailable", f"the engine of jobs does not answer: {one_line(error)}"
        ) from None
