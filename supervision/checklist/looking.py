"""Looking: what a spec leads to without running it: guards, functions, job workers.

Floor: above accepting. Theory: a worker's `run` is followed through what it is made of (partials, bound methods, decorators'
closures, a job worker's handler, the methods of a class) and through the names that its code uses, as long as they lead to
code of the same package. So a `Dependency` in a module is seen if a worker's code names it. One that its module merely holds is
seen too, and belongs to the tree. What is handed over at run time is not seen: the checklist says what it looked at.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias, cast

import attrs

from actors.jobs.worker import JobWorker
from actors.records import Record, record
from actors.resilience.dependency import Dependency
from actors.resilience.retries import RetryPolicy
from supervision.checklist.accepting import accepted_by
from supervision.specs import Supervisor, Worker

__all__ = ["Guarded", "Seen", "SeenWorker", "home_of", "look", "scope_of"]

Guard: TypeAlias = Dependency | RetryPolicy
_MOST: Final = 5000
"""Things that are followed from one worker; a cap, not a measure."""
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None))


@record
class SeenWorker(Record):
    """A worker and what its code leads to."""

    path: str
    spec: Worker
    job: JobWorker | None
    guards: tuple[Guard, ...]
    functions: tuple[FunctionType, ...]
    """Of its own package, in the order in which they were met."""
    owners: Mapping[FunctionType, type]
    """Of those that are methods, the class whose instance they are called on."""
    accepted: Mapping[str, str]


@record
class Guarded(Record):
    """A guard and the workers that use it; none if it was only found in a module of theirs."""

    guard: Guard
    workers: tuple[SeenWorker, ...]
    module: str

    @property
    def name(self) -> str:
        """For people."""
        if isinstance(self.guard, Dependency):
            return f"dependency {self.guard.name!r}"
        on = self.guard.on
        kinds = cast("tuple[object, ...]", on) if isinstance(on, tuple) else ()
        return (
            f"retries on {', '.join(getattr(kind, '__name__', '?') for kind in kinds) or 'a rule'}"
        )

    @property
    def retry(self) -> RetryPolicy | None:
        """How it tries again, if it does."""
        return self.guard.retry if isinstance(self.guard, Dependency) else self.guard


@record
class Seen(Record):
    """All that the rules may look at."""

    root: Supervisor
    stop_timeout: float
    supervisors: tuple[tuple[str, Supervisor], ...]
    workers: tuple[SeenWorker, ...]
    guarded: tuple[Guarded, ...]

    def paths(self, guarded: Guarded) -> tuple[str, ...]:
        """Where a guard is used; the root if only its module is known."""
        return tuple(worker.path for worker in guarded.workers) or (self.root.name,)


def look(root: Supervisor, stop_timeout: float) -> Seen:
    """Look at a tree."""
    specs = list(root.walk())
    workers = [_worker(path, spec) for path, spec in specs if isinstance(spec, Worker)]
    return Seen(
        root=root,
        stop_timeout=stop_timeout,
        supervisors=tuple((path, spec) for path, spec in specs if isinstance(spec, Supervisor)),
        workers=tuple(workers),
        guarded=tuple(_guarded(workers)),
    )


def _guarded(workers: list[SeenWorker]) -> Iterator[Guarded]:
    used: dict[int, tuple[Guard, list[SeenWorker]]] = {}
    modules: dict[str, ModuleType] = {}
    for worker in workers:
        for guard in worker.guards:
            used.setdefault(id(guard), (guard, []))[1].append(worker)
        for function in worker.functions:
            module = sys.modules.get(function.__module__)
            if module is not None and _top(function.__module__) == home_of(worker.spec.run):
                modules.setdefault(function.__module__, module)
    for guard, users in used.values():
        yield Guarded(guard=guard, workers=tuple(users), module="")
    for name, module in modules.items():
        for value in list(vars(module).values()):
            # By its real type: a stand-in raises when it is asked for its class.
            if issubclass(type(value), Dependency) and id(value) not in used:
                used[id(value)] = (value, [])
                yield Guarded(guard=value, workers=(), module=name)


def _worker(path: str, spec: Worker) -> SeenWorker:
    walk = _Walk(home_of(spec.run))
    walk.follow(spec.run)
    # The policy of a dependency is the dependency's affair.
    inner = {id(guard.retry) for guard in walk.guards if isinstance(guard, Dependency)}
    return SeenWorker(
        path=path,
        spec=spec,
        job=spec.run if isinstance(spec.run, JobWorker) else None,
        guards=tuple(guard for guard in walk.guards if id(guard) not in inner),
        functions=tuple(walk.functions),
        owners=walk.owners,
        accepted=walk.accepted,
    )


def home_of(run: object) -> str:
    """The package that a worker's code belongs to."""
    thing: Any = run
    while isinstance(thing, (partial, MethodType, JobWorker)):
        if isinstance(thing, JobWorker):
            thing = thing.handler
        else:
            thing = (
                cast("partial[object]", thing).func
                if isinstance(thing, partial)
                else thing.__func__
            )
    return _top(getattr(inspect.unwrap(thing), "__module__", None) or type(thing).__module__)


def _top(module: object) -> str:
    return str(module).partition(".")[0]


def scope_of(function: FunctionType) -> dict[str, object]:
    """The names that a function may use and does not make itself."""
    inner: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            inner[name] = cell.cell_contents
        except ValueError:  # not set yet: a function that names itself while it is being made
            continue
    return {**function.__globals__, **inner}


class _Walk:
    """From one `run` to all that it leads to."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.guards: list[Guard] = []
        self.functions: list[FunctionType] = []
        self.owners: dict[FunctionType, type] = {}
        self.accepted: dict[str, str] = {}
        self._met: dict[int, object] = {}  # holds what was met, so that no id is used twice

    def follow(self, first: object) -> None:
        todo = [first]
        own = True
        while todo and len(self._met) < _MOST:
            thing = todo.pop(0)
            if type(thing) in _PLAIN or id(thing) in self._met:
                continue
            self._met[id(thing)] = thing
            more: list[object] = []
            with suppress(Exception):  # a stand-in for something that is not there yet
                if isinstance(thing, (Dependency, RetryPolicy)):
                    self.guards.append(thing)
                more.extend(self._from(thing))
            if (
                own
            ):  # what the worker is made of, up to its function or class, may say what is meant so
                self.accepted.update(accepted_by(thing))
                own = isinstance(thing, (partial, MethodType, JobWorker))
            todo.extend(more)

    def _from(self, thing: object) -> Iterable[object]:
        if isinstance(thing, Dependency):
            return ()
        if isinstance(thing, JobWorker):
            return (thing.handler, *thing.requires)
        if isinstance(thing, partial):
            made = cast("partial[object]", thing)
            return (made.func, *made.args, *made.keywords.values())
        if isinstance(thing, MethodType):
            return (thing.__func__, thing.__self__)
        if isinstance(thing, FunctionType):
            return self._from_function(thing)
        if isinstance(thing, type):
            return self._from_class(thing) if _top(thing.__module__) == self.home else ()
        if isinstance(thing, (list, tuple, set, frozenset)):
            return [item for item in cast("Iterable[object]", thing) if isinstance(item, Guard)]
        if isinstance(thing, ModuleType) or _top(type(thing).__module__) != self.home:
            return ()
        return (*_values(thing), type(thing))

    def _from_function(self, function: FunctionType) -> Iterator[object]:
        # A decorator of ours is code of another package round a closure with the user's function in it.
        scope = scope_of(function)
        yield from (scope[name] for name in function.__code__.co_freevars if name in scope)
        if _top(function.__globals__.get("__name__")) != self.home:
            return
        self.functions.append(function)
        yield from function.__defaults__ or ()
        for name in _names(function.__code__):
            thing = scope.get(name)
            if (
                thing is not None
                and issubclass(type(thing), ModuleType)
                and _top(vars(thing)["__name__"]) == self.home
            ):
                names = _names(function.__code__)
                yield from (vars(thing)[n] for n in names if n in vars(thing))
            elif thing is not None:
                yield thing

    def _from_class(self, made: type) -> Iterator[object]:
        for base in made.__mro__:
            if _top(base.__module__) != self.home:
                continue
            for value in list(vars(base).values()):
                inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
                if isinstance(inner, FunctionType):
                    self.owners.setdefault(inner, made)
                yield inner


def _names(code: CodeType) -> Iterator[str]:
    """The names that code uses, that of functions inside it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _values(thing: object) -> Iterator[object]:
    if attrs.has(type(thing)):
        for field in attrs.fields(cast("type[Any]", type(thing))):
            yield getattr(thing, field.name, None)
    else:
        yield from list(getattr(thing, "__dict__", {}).values())
