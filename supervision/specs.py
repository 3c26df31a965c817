"""Worker and Supervisor: the tree as frozen values, checked at the door.

Floor: above restart. The rule: whatever can be known to be wrong is refused here, before anything starts, with the
place, the value and the way out. An option without effect is an error too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Union

import attrs

from actors.actor import Actor
from actors.context import Context
from actors.mailbox import MailboxSpec
from actors.options import choice, count, flag, more_seconds, nearest, some_seconds
from supervision.errors import SpecError
from supervision.restart import RestartPolicy, RestartType

__all__ = [
    "AutoShutdown",
    "Kind",
    "OnFailed",
    "Ready",
    "Spec",
    "Start",
    "Strategy",
    "Supervisor",
    "Worker",
]


class Strategy(StrEnum):
    """Who is restarted when one child fails."""

    ONE_FOR_ONE = "one_for_one"
    """Only it."""
    ONE_FOR_ALL = "one_for_all"
    """All: the others are stopped in reverse order, then all are started in order."""
    REST_FOR_ONE = "rest_for_one"
    """It and those after it in the list."""


class AutoShutdown(StrEnum):
    """When a supervisor ends because its children have."""

    ALL_DONE = "all_done"
    """When every child has ended for good by itself. Never for one that was declared without children."""
    ANY_SIGNIFICANT = "any_significant"
    """When the first significant child has."""
    ALL_SIGNIFICANT = "all_significant"
    """When the last significant child has."""
    NEVER = "never"


class OnFailed(StrEnum):
    """What happens when a child has used up its limit."""

    ESCALATE = "escalate"
    """Its supervisor gives up in turn."""
    HOLD = "hold"
    """It stays failed, its siblings go on, the liveness probe is red."""


class Ready(StrEnum):
    """When a run counts as ready."""

    RUN = "run"
    """As soon as it runs; an `Actor` when its `started` has returned."""
    SIGNAL = "signal"
    """When it calls `ctx.started()`."""


class Start(StrEnum):
    """What a failing first start does."""

    RESTART = "restart"
    """It is a failed run like any other."""
    STRICT = "strict"
    """Those that started are stopped in reverse order and the caller gets `StartFailed`."""


class Kind(StrEnum):
    """What a worker's `run` is."""

    FUNCTION = "function"
    ACTOR = "actor"
    FACTORY = "factory"


Run = Union[Callable[[Context], Awaitable[object]], type[Actor], Callable[..., Any]]


def _name(_: object, field: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str) or not value:
        raise SpecError(f"a name is a text that is not empty, not {value!r}", option="name")
    if any(sign in value for sign in "/*?[]") or value != "".join(value.split()) or value.isdigit():
        raise SpecError(
            f"the name {value!r} would be ambiguous in a path: no '/', '*', '?', brackets or spaces,"
            " and not only digits",
            option="name",
        )


class _Checked:
    """Refuses options that a spec does not have, and says where they belong."""

    __slots__ = ()

    def __new__(cls, *args: object, **options: object) -> Any:
        known = {field.name for field in attrs.fields(cls)}  # type: ignore[type-var,arg-type]
        for option in options:
            if option not in known:
                where = f"{cls.__name__}({args[0] if args else options.get('name')!r})"
                raise SpecError(_misplaced(option, known), where=where, option=option)
        return super().__new__(cls)


def _misplaced(option: str, known: Iterable[str]) -> str:
    for place, fields in _PLACES().items():
        if option in fields and place not in ("Worker", "Supervisor"):
            return f"{option!r} is not an option here; it belongs into {place}({option}=...)"
    for place, fields in _PLACES().items():
        if option in fields:
            return f"{option!r} is not an option here; it belongs to a {place}"
    return f"there is no option {option!r}.{nearest(option, known)}"


def _PLACES() -> Mapping[str, set[str]]:
    homes: dict[str, Any] = {
        "RestartPolicy": RestartPolicy,
        "MailboxSpec": MailboxSpec,
        "Supervisor": Supervisor,
        "Worker": Worker,
    }
    return {place: {field.name for field in attrs.fields(home)} for place, home in homes.items()}


def _policy(kind: type[Any]) -> Any:
    def check(spec: Any, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            raise SpecError(
                f"{field.name} is a {kind.__name__}(...), not {value!r}",
                where=str(spec.name),
                option=field.name,
            )

    return check


@attrs.frozen
class Worker(_Checked):
    """One kind of work, done by one or more replicas.

    Args:
        name: unique among its siblings; in paths, logs, metrics and configuration.
        run: an async function `run(ctx)`, an `Actor` class, or a factory that returns either of those.

    Raises:
        SpecError: an option is wrong; a plain `ValueError` underneath if it is out of range.
    """

    name: str = attrs.field(validator=_name)
    run: Run
    replicas: int = attrs.field(
        default=1, kw_only=True, validator=count, metadata={"doc": "how many run at once"}
    )
    restart: RestartPolicy = attrs.field(
        factory=RestartPolicy,
        kw_only=True,
        validator=_policy(RestartPolicy),
        metadata={"doc": "when and how soon a failed run is followed by another"},
    )
    mailbox: MailboxSpec = attrs.field(
        factory=MailboxSpec,
        kw_only=True,
        validator=_policy(MailboxSpec),
        metadata={"doc": "how each replica's mailbox behaves"},
    )
    shutdown: float = attrs.field(
        default=15.0,
        kw_only=True,
        validator=more_seconds,
        metadata={"doc": "seconds that work in hand may take after a stop was asked for"},
    )
    ready: Ready = attrs.field(
        default=Ready.RUN,
        kw_only=True,
        converter=choice(Ready),
        metadata={"doc": "when a run counts as ready: run, or signal for ctx.started()"},
    )
    start_timeout: float | None = attrs.field(
        default=None,
        kw_only=True,
        validator=some_seconds,
        metadata={"doc": "seconds in which a run has to be ready"},
    )
    watchdog: float | None = attrs.field(
        default=None,
        kw_only=True,
        validator=some_seconds,
        metadata={"doc": "seconds in which a run has to show progress by ctx.heartbeat()"},
    )
    on_failed: OnFailed = attrs.field(
        default=OnFailed.ESCALATE,
        kw_only=True,
        converter=choice(OnFailed),
        metadata={"doc": "when its limit is used up: escalate, or hold"},
    )
    significant: bool = attrs.field(
        default=False,
        kw_only=True,
        validator=flag,
        metadata={"doc": "its end counts for the supervisor's auto_shutdown"},
    )
    enabled: bool = attrs.field(
        default=True,
        kw_only=True,
        validator=flag,
        metadata={"doc": "false: not started until enabled"},
    )
    kind: Kind = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        where = f"worker {self.name!r}"
        object.__setattr__(self, "kind", classify(self.run, where))
        if self.significant and self.restart.type is RestartType.PERMANENT:
            raise SpecError(
                "a permanent worker never ends for good, so it cannot be significant;"
                " make it transient or temporary",
                where=where,
                option="significant",
            )
        if self.start_timeout and self.ready is Ready.RUN and self.kind is Kind.FUNCTION:
            raise SpecError(
                "start_timeout has no effect on a function that is ready as soon as it runs;"
                " add ready='signal' and call ctx.started()",
                where=where,
                option="start_timeout",
            )

    def __repr__(self) -> str:
        return f"Worker({self.name!r}, {getattr(self.run, '__qualname__', self.run)}, replicas={self.replicas})"


Spec = Union["Worker", "Supervisor"]


def _children(value: object) -> tuple[object, ...]:
    if isinstance(value, (Worker, Supervisor)) or not isinstance(value, Iterable):
        raise SpecError(
            f"the children of a supervisor are a list of Worker and Supervisor, not {value!r}",
            option="children",
        )
    return tuple(value)


@attrs.frozen
class Supervisor(_Checked):
    """A group of children that are started, watched and stopped together.

    Declared without children it is a dynamic supervisor: children come by `pool.start_child`, are stopped all at once, and are
    forgotten when they end for good.

    Args:
        name: unique among its siblings.
        children: `Worker` and `Supervisor` values in start order.

    Raises:
        SpecError: an option is wrong, or two children have the same name.
    """

    name: str = attrs.field(validator=_name)
    children: tuple[Spec, ...] = attrs.field(default=(), converter=_children)
    strategy: Strategy = attrs.field(
        default=Strategy.ONE_FOR_ONE,
        kw_only=True,
        converter=choice(Strategy),
        metadata={"doc": "who is restarted when one child fails"},
    )
    intensity: int | None = attrs.field(
        default=None,
        kw_only=True,
        validator=attrs.validators.optional(count),
        metadata={
            "doc": "restarts allowed in any window of `period` seconds; none is no limit of its own"
        },
    )
    period: float = attrs.field(
        default=5.0,
        kw_only=True,
        validator=attrs.validators.and_(
            attrs.validators.not_(attrs.validators.in_([None])), some_seconds
        ),
        metadata={"doc": "seconds of the window that `intensity` counts in"},
    )
    restart: RestartPolicy = attrs.field(
        factory=RestartPolicy,
        kw_only=True,
        validator=_policy(RestartPolicy),
        metadata={"doc": "when its own supervisor restarts it after it gave up"},
    )
    auto_shutdown: AutoShutdown = attrs.field(
        default=AutoShutdown.ALL_DONE,
        kw_only=True,
        converter=choice(AutoShutdown),
        metadata={"doc": "when it ends because its children have"},
    )
    max_children: int | None = attrs.field(
        default=None,
        kw_only=True,
        validator=attrs.validators.optional(count),
        metadata={"doc": "children it may have at once, those waiting for a restart included"},
    )
    start: Start = attrs.field(
        default=Start.RESTART,
        kw_only=True,
        converter=choice(Start),
        metadata={"doc": "what a failing first start does: restart, or strict to roll back"},
    )
    on_failed: OnFailed = attrs.field(
        default=OnFailed.ESCALATE,
        kw_only=True,
        converter=choice(OnFailed),
        metadata={"doc": "when its own limit is used up: escalate, or hold"},
    )
    significant: bool = attrs.field(
        default=False,
        kw_only=True,
        validator=flag,
        metadata={"doc": "its end counts for the auto_shutdown of its own supervisor"},
    )
    enabled: bool = attrs.field(
        default=True,
        kw_only=True,
        validator=flag,
        metadata={"doc": "false: not started until enabled"},
    )

    def __attrs_post_init__(self) -> None:
        where = f"supervisor {self.name!r}"
        seen: set[str] = set()
        for child in self.children:
            check_child(child, self)
            if child.name in seen:
                raise SpecError(
                    f"two children have the name {child.name!r}", where=where, option="children"
                )
            seen.add(child.name)
        if self.max_children is not None and len(self.children) > self.max_children:
            raise SpecError(
                f"it has {len(self.children)} children, but max_children={self.max_children}",
                where=where,
                option="max_children",
            )
        if self.significant and self.restart.type is RestartType.PERMANENT:
            raise SpecError(
                "a permanent supervisor never ends for good, so it cannot be significant",
                where=where,
                option="significant",
            )

    @property
    def dynamic(self) -> bool:
        """True if it was declared without children."""
        return not self.children

    def walk(self, parent: str = "") -> Iterator[tuple[str, Spec]]:
        """Every spec of the tree with its path, parents first."""
        path = f"{parent}/{self.name}" if parent else self.name
        yield path, self
        for child in self.children:
            if isinstance(child, Supervisor):
                yield from child.walk(path)
            else:
                yield f"{path}/{child.name}", child


_SIGNIFICANT: Final = (AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT)


def check_child(child: object, parent: Supervisor) -> None:
    """Raise `SpecError` unless `child` may be a child of `parent`. Used at declaration and by `start_child`."""
    where = f"supervisor {parent.name!r}"
    if inspect.iscoroutine(child):
        child.close()
    if not isinstance(child, (Worker, Supervisor)):
        raise SpecError(
            f"a child is a Worker or a Supervisor, not {child!r}; wrap it: Worker('name', run)",
            where=where,
            option="children",
        )
    if child.significant and parent.auto_shutdown not in _SIGNIFICANT:
        raise SpecError(
            f"child {child.name!r} is significant, which has an effect only with auto_shutdown="
            f"'any_significant' or 'all_significant', not {str(parent.auto_shutdown)!r}",
            where=where,
            option="significant",
        )


def classify(run: object, where: str) -> Kind:
    """What `run` is; raises `SpecError` for the usual mistakes."""
    hint = "write 'async def' and pass the function itself: Worker('name', fn)"
    if inspect.iscoroutine(run):
        name = run.__qualname__
        run.close()
        raise SpecError(
            f"run is a coroutine: pass the function, {name}, not what calling it returned, {name}(...)",
            where=where,
            option="run",
        )
    if inspect.isasyncgenfunction(run):
        raise SpecError(
            f"run is an async generator ('yield' in it); {hint}", where=where, option="run"
        )
    if not callable(run):
        raise SpecError(f"run must be callable, not {run!r}; {hint}", where=where, option="run")
    if inspect.isclass(run):
        if issubclass(run, Actor):
            return Kind.ACTOR
        raise SpecError(
            f"the class {run.__qualname__} is not an Actor; derive it from actors.Actor",
            where=where,
            option="run",
        )
    if inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(
        getattr(run, "__call__", None)
    ):
        if not _takes_one(run):
            raise SpecError(
                f"run is called with one argument, the context, which {run!r} does not take:"
                " write 'async def run(ctx)'",
                where=where,
                option="run",
            )
        return Kind.FUNCTION
    if not _is_factory(run):
        raise SpecError(
            f"run is a sync function that takes arguments, {run!r}; {hint}",
            where=where,
            option="run",
        )
    return Kind.FACTORY


def _takes_one(run: Callable[..., object]) -> bool:
    try:
        inspect.signature(run).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _is_factory(run: Callable[..., object]) -> bool:
    """True if every parameter it needs has a type that a service can be found by; a context is none."""
    try:
        parameters = inspect.signature(run, eval_str=True).parameters.values()
    except (ValueError, NameError, TypeError):
        return True
    return all(
        p.default is not p.empty
        or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        or p.annotation not in (p.empty, Context)
        for p in parameters
    )
