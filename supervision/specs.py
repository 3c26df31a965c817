"""Worker and Supervisor: the tree as frozen values, checked at the door.

Floor: above restart. The rule: whatever can be known to be wrong is refused here, before anything starts, with the
place, the value and the way out. An option without effect is an error too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, Union

import attrs

from actors.actor import Actor
from actors.context import Context
from actors.mailbox_spec import MailboxSpec
from actors.options import (
    Choice,
    OptionError,
    above_zero,
    checked,
    count,
    flag,
    more_seconds,
    some_count,
    some_seconds,
)
from actors.records import Record
from supervision.errors import SpecError
from supervision.kinds import Kind, classify, needs
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


class Strategy(Choice):
    """Who is restarted when one child fails."""

    ONE_FOR_ONE = "one_for_one"
    """Only it."""
    ONE_FOR_ALL = "one_for_all"
    """All: the others are stopped in reverse order, then all are started in order."""
    REST_FOR_ONE = "rest_for_one"
    """It and those after it in the list."""


class AutoShutdown(Choice):
    """When a supervisor ends because its children have."""

    ALL_DONE = "all_done"
    """When every child has ended for good by itself. Never for one that was declared without children."""
    ANY_SIGNIFICANT = "any_significant"
    """When the first significant child has."""
    ALL_SIGNIFICANT = "all_significant"
    """When the last significant child has."""
    NEVER = "never"
    """It goes on without children until it is stopped."""


class OnFailed(Choice):
    """What happens when a child has used up its limit."""

    ESCALATE = "escalate"
    """Its supervisor gives up in turn."""
    HOLD = "hold"
    """It stays failed, its siblings go on, the liveness probe is red."""


class Ready(Choice):
    """When a run counts as ready."""

    RUN = "run"
    """As soon as it runs; an `Actor` when its `started` has returned."""
    SIGNAL = "signal"
    """When it calls `ctx.started()`."""


class Start(Choice):
    """What a failing first start does."""

    RESTART = "restart"
    """It is a failed run like any other."""
    STRICT = "strict"
    """Those that started are stopped in reverse order and the caller gets `StartFailed`."""


Run = Callable[[Context], Awaitable[object]] | type[Actor] | Callable[..., Any]


def _name(_: object, _field: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str) or not value:
        raise SpecError(f"a name is a text that is not empty, not {value!r}", option="name")
    if any(sign in value for sign in "/*?[]") or value != "".join(value.split()) or value.isdigit():
        raise SpecError(
            f"the name {value!r} would be ambiguous in a path: no '/', '*', '?', brackets or spaces,"
            " and not only digits",
            option="name",
        )
    if not value.isprintable() or not value.strip("."):
        raise SpecError(
            f"the name {value!r} cannot be shown, or not be asked for in an address: no control or"
            " invisible characters, and not only dots",
            option="name",
        )


def _belongs(option: str) -> str:
    """Where an option that was given in the wrong place belongs, if anywhere."""
    for place, inner in (("restart", RestartPolicy), ("mailbox", MailboxSpec)):
        if option in _options(inner):
            return f"{option!r} is not an option here; write {place}={inner.__name__}({option}=...)"
    for home in (Worker, Supervisor):
        if option in _options(home):
            return f"{option!r} is not an option here; it belongs to a {home.__name__}"
    return ""


def _options(kind: type[Any]) -> set[str]:
    return {field.name for field in attrs.fields(kind) if field.init}


def _policy(kind: type[Any]) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            raise SpecError(
                f"{field.name} is a {kind.__name__}(...), not {value!r}", option=field.name
            )

    return check


@checked(SpecError, hint=_belongs)
@attrs.frozen(eq=False, repr=False)
class Worker(Record):
    """One kind of work, done by one or more replicas.

    Args:
        name: unique among its siblings; in paths, logs, metrics and configuration.
        run: an async function `run(ctx)`, an `Actor` class, or a factory that returns either of those. If it has a method
            `check_runnable()`, a tree calls that before it starts anything: an `OptionError` of it is a `SpecError` of this worker.

    Raises:
        SpecError: an option is wrong, or has no effect; it says which, its value and what would do.
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
        converter=Ready,
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
        converter=OnFailed,
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


def _children(value: Iterable[Spec]) -> tuple[Spec, ...]:
    if isinstance(value, (Worker, Supervisor)) or not isinstance(value, Iterable):
        raise SpecError(
            f"the children of a supervisor are a list of Worker and Supervisor, not {value!r}",
            option="children",
        )
    return tuple(value)


@checked(SpecError, hint=_belongs)
@attrs.frozen(eq=False, repr=False)
class Supervisor(Record):
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
        converter=Strategy,
        metadata={"doc": "who is restarted when one child fails"},
    )
    intensity: int | None = attrs.field(
        default=None,
        kw_only=True,
        validator=some_count,
        metadata={
            "doc": "restarts allowed in any window of `period` seconds; none is no limit of its own"
        },
    )
    period: float = attrs.field(
        default=5.0,
        kw_only=True,
        validator=above_zero,
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
        converter=AutoShutdown,
        metadata={"doc": "when it ends because its children have"},
    )
    max_children: int | None = attrs.field(
        default=None,
        kw_only=True,
        validator=some_count,
        metadata={"doc": "children it may have at once, those waiting for a restart included"},
    )
    start: Start = attrs.field(
        default=Start.RESTART,
        kw_only=True,
        converter=Start,
        metadata={"doc": "what a failing first start does: restart, or strict to roll back"},
    )
    on_failed: OnFailed = attrs.field(
        default=OnFailed.ESCALATE,
        kw_only=True,
        converter=OnFailed,
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


def check_root(root: Supervisor) -> None:
    """Raise `SpecError` for options that make no sense without a supervisor above."""
    where = f"supervisor {root.name!r}"
    if not root.enabled:
        raise SpecError(
            "the root of a tree cannot be disabled: it would run nothing; disable its children",
            where=where,
            option="enabled",
        )
    if root.significant:
        raise SpecError(
            "the root of a tree has no supervisor that its end could count for, so it cannot be significant",
            where=where,
            option="significant",
        )


def check_runnable(spec: Spec) -> None:
    """Raise `SpecError` if a worker in `spec` says that it cannot run. Asked before anything is started."""
    if isinstance(spec, Supervisor):
        for child in spec.children:
            check_runnable(child)
        return
    check = getattr(spec.run, "check_runnable", None)
    if spec.kind is Kind.FUNCTION and check is not None:
        try:
            check()
        except OptionError as problem:
            where = f"worker {spec.name!r}"
            raise SpecError(problem.text, where=where, option=problem.option) from None


def check_makeable(spec: Spec) -> None:
    """Raise `SpecError` if a worker in `spec` can only be made with services. Used where there are none."""
    if isinstance(spec, Supervisor):
        for child in spec.children:
            check_makeable(child)
        return
    if spec.kind is Kind.FUNCTION:
        return
    required = [need for need in needs(spec.run) if need.required]
    if required:
        made = getattr(spec.run, "__qualname__", repr(spec.run))
        raise SpecError(
            f"{made} needs {', '.join(map(str, required))}: give serve(services=registry), a default,"
            f" or a factory that takes nothing, lambda: {made}(...)",
            where=f"worker {spec.name!r}",
            option="run",
        )
