"""JobWorker: a declaration of who works on jobs of one type, and how; it is the `run` of a worker in a tree.

Floor: above engine and shift. The rule: what cannot work is refused where it is written.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from actors.context import Context
from actors.errors import shown
from actors.jobs.engine import Engine
from actors.jobs.job import LONGEST_WAIT, Job
from actors.jobs.shift import Shift
from actors.options import OptionError, above_zero, checked, flag, some_seconds
from actors.records import Record, record
from actors.resilience.backoff import Backoff
from actors.resilience.dependency import Dependency

__all__ = ["Handler", "JobWorker", "JobWorkerStatistics", "job_worker"]

Handler: TypeAlias = Callable[[Job, Context], Awaitable[object]]
_MOST_AHEAD: Final = 2


def _name(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value:
        raise OptionError(
            f"{field.name} must be a text that is not empty, not {value!r}", option=field.name
        )


def _handler(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if inspect.iscoroutine(value):
        value.close()
        raise OptionError("handler is a coroutine: pass the function itself", option=field.name)
    call = getattr(value, "__call__", None)  # noqa: B004 - an object whose call is async is as good
    if not callable(value) or not (
        inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(call)
    ):
        raise OptionError(
            f"handler is called as 'await handler(job, ctx)': write 'async def', not {value!r}",
            option=field.name,
        )
    try:
        inspect.signature(value).bind(None, None)
    except TypeError:
        raise OptionError(
            f"handler is called with a job and a context, which {value!r} does not take:"
            " write 'async def handler(job, ctx)'",
            option=field.name,
        ) from None
    except ValueError:
        pass


def _places(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(
            f"{field.name} must be a whole number, 1 or more, not {value!r}", option=field.name
        )


def _maybe_engine(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, Engine):
        raise OptionError(f"engine is an Engine, not {value!r}", option=field.name)


def _fields(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        raise OptionError(
            f"fetch_variables is several names, not one text; write [{value!r}]",
            option="fetch_variables",
        )
    return None if value is None else tuple(dict.fromkeys(value))


def _field_names(_: object, field: attrs.Attribute[Any], value: tuple[object, ...] | None) -> None:
    for name in value or ():
        if not isinstance(name, str) or not name or '"' in name:
            raise OptionError(
                f"fetch_variables holds names of variables, without quotation marks, not {name!r}",
                option=field.name,
            )


def _dependencies(_: object, field: attrs.Attribute[Any], value: tuple[object, ...]) -> None:
    for item in value:
        if not isinstance(item, Dependency):
            raise OptionError(f"requires lists Dependency(...), not {item!r}", option=field.name)


@record
class JobWorkerStatistics(Record):
    """One look at all runs of a job worker in this process."""

    runs: int
    """Replicas that are at work."""
    places: int
    """Handlers that may run at once, over all of them."""
    running: int
    waiting: int
    """Jobs in hand that wait for a place."""
    untold: int
    """Jobs that have ended, and the engine does not know yet."""
    failing: int
    """Runs whose engine does not do what it is asked."""
    closed_by: frozenset[str]
    """Dependencies whose breakers keep the intake closed."""
    settled: Mapping[str, int]
    """Jobs by how they ended, in runs that are over as well."""


@checked()
@attrs.frozen(eq=False, repr=False)
class JobWorker:
    """Works on jobs of one type: `Worker("charges", JobWorker("charge", charge, engine=engine))`.

    A handler is `async def handler(job, ctx)`. What it returns, a mapping of variables or None, completes the job; what it
    raises says what else becomes of it: see `actors.jobs.outcomes`. While it runs, a job has a task and a cancel scope to itself.
    """

    type: str = attrs.field(validator=_name)
    """Which jobs it takes."""
    handler: Handler = attrs.field(validator=_handler)
    """What is awaited for each."""
    engine: Engine | None = attrs.field(default=None, kw_only=True, validator=_maybe_engine)
    """Where the jobs come from; one that is declared without is given one by `on`."""
    concurrency: int = attrs.field(default=4, kw_only=True, validator=_places)
    """Handlers that run at once, in each replica."""
    max_jobs_activated: int | None = attrs.field(
        default=None, kw_only=True, validator=attrs.validators.optional(_places)
    )
    """Jobs held at once, running or waiting for a place; none is as many as run, and twice as many is the most."""
    timeout: float = attrs.field(default=60.0, kw_only=True, validator=above_zero)
    """Seconds of a lease. A worker that dies keeps its jobs from others for so long."""
    renew: bool = attrs.field(default=True, kw_only=True, validator=flag)
    """Renew leases every third of it while their handlers run. Without, a handler is cancelled when its lease ends."""
    fetch_variables: tuple[str, ...] | None = attrs.field(
        default=None, kw_only=True, converter=_fields, validator=_field_names
    )
    """The variables that the handler needs; none is all. Others are not read."""
    backoff: Backoff = attrs.field(
        default=Backoff(initial=15.0, factor=2.0, maximum=3600.0, jitter=0.1),
        kw_only=True,
        validator=attrs.validators.instance_of(Backoff),
    )
    """The waits after failures of a job."""
    max_deliveries: int = attrs.field(default=5, kw_only=True, validator=_places)
    """A job handed out this often without a word is set aside as poison."""
    requires: tuple[Dependency, ...] = attrs.field(
        default=(), kw_only=True, converter=tuple, validator=_dependencies
    )
    """No jobs are taken while the breaker of one of these is open."""
    poll: float = attrs.field(default=1.0, kw_only=True, validator=above_zero)
    """Seconds between looks for work that nobody told of, 10 % more or less."""
    claim_timeout: float = attrs.field(default=5.0, kw_only=True, validator=above_zero)
    """Seconds that one exchange with the engine may take, also when the worker is being stopped."""
    grace: float | None = attrs.field(default=None, kw_only=True, validator=some_seconds)
    """Seconds that running handlers have after a stop was asked for; none is nine tenths of the stop deadline."""
    random: Random = attrs.field(factory=Random, kw_only=True, repr=False)
    """Source of jitter."""
    # What its runs are at, for `statistics`: no part of the declaration.
    _shifts: set[Shift] = attrs.field(factory=set[Shift], init=False, repr=False)
    _settled: dict[str, int] = attrs.field(factory=dict[str, int], init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.timeout > LONGEST_WAIT:
            raise OptionError(
                f"timeout must be {LONGEST_WAIT:,.0f} seconds at most, not {self.timeout:g}",
                option="timeout",
            )
        most = _MOST_AHEAD * self.concurrency
        if self.held > most:
            raise OptionError(
                f"max_jobs_activated must be {most} at most, twice the concurrency of {self.concurrency},"
                f" not {self.max_jobs_activated}: a job held for longer waits here while others could run it",
                option="max_jobs_activated",
            )
        if self.held < self.concurrency:
            raise OptionError(
                f"max_jobs_activated must be {self.concurrency}, the concurrency, or more, not {self.held}:"
                " otherwise some places are never used",
                option="max_jobs_activated",
            )

    def __repr__(self) -> str:
        name = getattr(self.handler, "__qualname__", None) or shown(self.handler)
        return f"JobWorker({self.type!r}, {name})"

    @property
    def held(self) -> int:
        """The most jobs held at once."""
        return self.concurrency if self.max_jobs_activated is None else self.max_jobs_activated

    def on(self, engine: Engine) -> JobWorker:
        """The same with this engine."""
        return attrs.evolve(self, engine=engine)

    def check_runnable(self) -> Engine:
        """Its engine; raises `OptionError` if it has none. A tree asks before it starts anything."""
        if self.engine is None:
            raise OptionError(
                f"job worker {self.type!r} has no engine: pass engine=, or write worker.on(engine)",
                option="engine",
            )
        return self.engine

    async def __call__(self, ctx: Context) -> None:
        """One run: take jobs until a stop is asked for, then give back what has not begun and see the rest through."""
        shift = Shift(self, self.check_runnable(), ctx)
        self._shifts.add(shift)
        try:
            await shift.work()
        finally:
            self._shifts.discard(shift)
            for word, count in shift.tally.counts.items():
                self._settled[word] = self._settled.get(word, 0) + count

    def statistics(self) -> JobWorkerStatistics:
        """One look at its runs here."""
        shifts, settled = tuple(self._shifts), dict(self._settled)
        for shift in shifts:
            for word, count in shift.tally.counts.items():
                settled[word] = settled.get(word, 0) + count
        return JobWorkerStatistics(
            runs=len(shifts),
            places=self.concurrency * len(shifts),
            running=sum(shift.book.running for shift in shifts),
            waiting=sum(len(shift.book.waiting) for shift in shifts),
            untold=sum(len(shift.book.ended) for shift in shifts),
            failing=sum(shift.condition.failures > 0 for shift in shifts),
            closed_by=frozenset(shift.closed_by for shift in shifts if shift.closed_by),
            settled=settled,
        )


def job_worker(job_type: str, **options: Any) -> Callable[[Handler], JobWorker]:
    """Decorator that makes a `JobWorker` of a handler: `@job_worker("charge", concurrency=8)`; then `charge.on(engine)`."""

    def decorate(handler: Handler) -> JobWorker:
        return JobWorker(job_type, handler, **options)

    return decorate
