"""Kind: what a worker's `run` is, and what has to be known to make it.

Floor: above errors. The rule: the usual mistakes are told apart here, each with its own way out.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from enum import StrEnum
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

from actors.actor import Actor
from actors.context import Context
from actors.records import Record
from supervision.errors import SpecError

__all__ = ["Kind", "Need", "classify", "needs"]


class Kind(StrEnum):
    """What a worker's `run` is."""

    FUNCTION = "function"
    ACTOR = "actor"
    FACTORY = "factory"


@attrs.frozen(eq=False, repr=False)
class Need(Record):
    """A parameter of a constructor or factory that a service can be found for."""

    parameter: str
    kind: object
    """The type it is annotated with; the text of the annotation if that cannot be resolved; `Parameter.empty` without one."""
    required: bool

    def __str__(self) -> str:
        if self.kind is inspect.Parameter.empty:
            return self.parameter
        return f"{self.parameter}: {getattr(self.kind, '__qualname__', self.kind)}"


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
    if isinstance(run, Actor):
        made = type(run).__qualname__
        raise SpecError(
            f"run is an actor that was made already; pass the class itself, {made}, or a factory,"
            f" lambda: {made}(...): every run needs a new one",
            where=where,
            option="run",
        )
    if inspect.isasyncgenfunction(run) or inspect.isasyncgen(run):
        raise SpecError(
            f"run is an async generator ('yield' in it); {hint}", where=where, option="run"
        )
    if not callable(run):
        raise SpecError(f"run must be callable, not {run!r}; {hint}", where=where, option="run")
    if inspect.isclass(run):
        if issubclass(run, Actor):
            _check_methods(run, where)
            _check_constructor(run, where)
            return Kind.ACTOR
        raise SpecError(
            f"the class {run.__qualname__} is not an Actor; derive it from actors.Actor",
            where=where,
            option="run",
        )
    if inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(type(run).__call__):
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
    return not any(_hopeless(need) for need in needs(run))


def _hopeless(need: Need) -> bool:
    return need.required and need.kind in (inspect.Parameter.empty, Context, "Context")


_METHODS: Final = {"handle": "message", "started": "ctx", "stopped": "ctx"}


def _check_methods(run: type[Actor], where: str) -> None:
    """Refuse what no run could ever await: each message would find out anew."""
    for name, argument in _METHODS.items():
        method = inspect.getattr_static(run, name)
        if not inspect.isfunction(method) or hasattr(method, "__wrapped__"):
            continue  # something that hands on the call: it may do
        if not inspect.iscoroutinefunction(method):
            what = "is no async function"
        elif not _takes_two(method):
            what = f"does not take one argument, the {argument}"
        else:
            continue
        raise SpecError(
            f"{run.__qualname__}.{name} {what}; write 'async def {name}(self, {argument})'",
            where=where,
            option="run",
        )


def _takes_two(method: Callable[..., object]) -> bool:
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return False
    return True


def _check_constructor(run: type[Actor], where: str) -> None:
    for need in needs(run):
        if _hopeless(need):
            raise SpecError(
                f"the constructor of {run.__qualname__} needs {need}, which no service can be found for:"
                f" annotate it with the type of a service, give it a default, or pass a factory,"
                f" lambda: {run.__qualname__}(...)",
                where=where,
                option="run",
            )


def needs(run: Callable[..., object]) -> tuple[Need, ...]:
    """The parameters of an `Actor` class or a factory, those with a default too; not `*args` and `**options`."""
    if isinstance(run, type) and getattr(run, "__init__", None) is object.__init__:
        return ()
    try:
        parameters = inspect.signature(run).parameters.values()
    except (ValueError, TypeError):
        return ()
    space: dict[str, Any] | None = None
    found: list[Need] = []
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        kind = p.annotation
        if isinstance(kind, str):
            space = _namespace(run) if space is None else space
            kind = _resolved(kind, space)
        if p.kind is p.POSITIONAL_ONLY:
            kind = p.empty  # services are given by name
        found.append(Need(p.name, _without_none(kind), p.default is p.empty))
    return tuple(found)


def _without_none(kind: object) -> object:
    """X for `X | None`: a service is there or is not, it is never None."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    arms = [arm for arm in get_args(kind) if arm is not NoneType]
    return arms[0] if len(arms) == 1 else kind


def _namespace(run: Any) -> dict[str, Any]:
    """The names that annotations of `run` may use."""
    function = inspect.unwrap(getattr(run, "func", run))
    module = sys.modules.get(getattr(function, "__module__", ""))
    init = getattr(function, "__init__", None) if isinstance(function, type) else function
    return {**vars(module or SimpleNamespace()), **getattr(init, "__globals__", {})}


def _resolved(text: str, space: dict[str, Any]) -> object:
    """The type that an annotation written as text means; the text itself if its names are not known at run time."""
    try:
        return get_type_hints(SimpleNamespace(__annotations__={"it": text}), space)["it"]
    except Exception:
        return text
