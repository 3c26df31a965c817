"""Reading source: which calls a function makes, and what they are calls of.

Floor: above looking. The rule: only what is certain is told. A name that cannot be followed to an object is no finding; what a
function hands to a thread is not called by it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from inspect import getattr_static
from pathlib import Path
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Final

from actors.records import Record, record
from supervision.checklist.looking import SeenWorker, home_of, scope_of

__all__ = ["BLOCKING", "Blocked", "Call", "blocking", "calls"]

BLOCKING: Final[dict[str, str]] = {
    "time.sleep": "await ctx.sleep(seconds), which a stop ends at once, or trio.sleep",
    "requests": "an async client, such as httpx.AsyncClient",
    "urllib.request.urlopen": "an async client, such as httpx.AsyncClient",
    "httpx.get": "httpx.AsyncClient",
    "httpx.post": "httpx.AsyncClient",
    "httpx.put": "httpx.AsyncClient",
    "httpx.request": "httpx.AsyncClient",
    "subprocess.run": "await trio.run_process(...)",
    "subprocess.call": "await trio.run_process(...)",
    "subprocess.check_call": "await trio.run_process(...)",
    "subprocess.check_output": "await trio.run_process(..., capture_stdout=True)",
    "subprocess.getoutput": "await trio.run_process(..., capture_stdout=True)",
    "os.system": "await trio.run_process(...)",
    "os.popen": "await trio.run_process(...)",
    "socket.create_connection": "await trio.open_tcp_stream(...)",
    "socket.getaddrinfo": "await trio.socket.getaddrinfo(...)",
    "socket.gethostbyname": "await trio.socket.getaddrinfo(...)",
    "sqlite3.connect": "await trio.to_thread.run_sync(...), or actors.jobs.open_sqlite",
    "psycopg.connect": "await trio.to_thread.run_sync(...)",
    "psycopg2.connect": "await trio.to_thread.run_sync(...)",
    "input": "await trio.to_thread.run_sync(input)",
}
"""Calls that hold up the whole event loop, and what to write instead. A module stands for all of its functions."""

# Where functions say they come from, and the name that people know them by.
_HOMES: Final = {"posix": "os", "nt": "os", "_sqlite3": "sqlite3", "_socket": "socket"}


@record
class Call(Record):
    """One call in the source of a function."""

    node: ast.Call
    name: str
    """What is called, by the name that people know it by; empty if that cannot be known."""
    thing: object
    """The object that is called, if it could be found."""
    owner: object
    """For a method, the object that it is a method of, if that could be found."""
    place: str
    """File and line."""


@record
class Blocked(Record):
    """A call that holds up the event loop."""

    name: str
    instead: str
    place: str
    via: str
    """The function it stands in."""


def blocking(worker: SeenWorker) -> Iterator[Blocked]:
    """The blocking calls of a worker's async code, and of what that calls directly."""
    home = home_of(worker.spec.run)
    todo = [f for f in worker.functions if inspect.iscoroutinefunction(f)]
    met = set(map(id, todo))
    while todo:
        function = todo.pop(0)
        for call in calls(function, worker.owners.get(function)):
            known = _known(call.name)
            if known is not None:
                yield Blocked(
                    name=call.name,
                    instead=BLOCKING[known],
                    place=call.place,
                    via=function.__qualname__,
                )
            elif (
                isinstance(call.thing, FunctionType)
                and id(call.thing) not in met
                and call.thing.__module__.partition(".")[0] == home
                and not inspect.iscoroutinefunction(call.thing)
                and not inspect.isgeneratorfunction(call.thing)
            ):
                met.add(id(call.thing))
                todo.append(call.thing)


def _known(name: str) -> str | None:
    if name in BLOCKING:
        return name
    module = name.partition(".")[0]
    return module if "." in name and module in BLOCKING and module != "input" else None


def calls(function: FunctionType, owner: type | None = None) -> list[Call]:
    """The calls that a function makes itself: not those of functions and lambdas that it only defines.

    Args:
        owner: for a method, the class of the object it is called on.
    """
    found = _source(function)
    if found is None:
        return []
    body, first, file = found
    scope = scope_of(function)
    own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
    myself = function.__code__.co_varnames[0] if owner and function.__code__.co_argcount else ""
    imported: dict[str, str] = {}
    out: list[Call] = []
    for node in _nodes(body):
        if isinstance(node, ast.Import):
            imported |= {a.asname or a.name.partition(".")[0]: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    for node in _nodes(body):
        if not isinstance(node, ast.Call):
            continue
        parts = _parts(node.func)
        if not parts:
            continue
        place = f"{file}:{first + node.lineno - 1}"
        if parts[0] in imported:
            name = ".".join([imported[parts[0]], *parts[1:]])
            out.append(Call(node=node, name=name, thing=None, owner=None, place=place))
        elif parts[0] == myself and len(parts) == 2:
            thing = getattr_static(owner, parts[1], None)
            out.append(Call(node=node, name=_name(thing), thing=thing, owner=owner, place=place))
        elif parts[0] not in own:
            with suppress(Exception):  # a stand-in for something that is not there yet
                name, thing, holder = _resolved(parts, scope)
                out.append(Call(node=node, name=name, thing=thing, owner=holder, place=place))
    return out


def _resolved(parts: list[str], scope: dict[str, object]) -> tuple[str, object, object]:
    first = parts[0]
    if first not in scope:
        return (first if len(parts) == 1 and hasattr(builtins, first) else ""), None, None
    thing, owner = scope[first], None
    for part in parts[1:]:
        owner = thing
        _ = owner.__class__  # a stand-in says here that it is none
        # Only what lies there: a property would be code that runs.
        thing = vars(thing).get(part) if isinstance(thing, (ModuleType, type)) else None
    if isinstance(owner, ModuleType) and thing is not None:
        return f"{owner.__name__}.{parts[-1]}", thing, owner
    return _name(thing), thing, owner


def _name(thing: object) -> str:
    module = getattr(thing, "__module__", None)
    qualname = getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        return ""
    return f"{_HOMES.get(module, module)}.{qualname}"


def _parts(node: ast.expr) -> list[str]:
    """`a.b.c` as its names; nothing for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else []


def _nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """What a body does itself. An async function in it runs in the same loop, a sync one may run in a thread."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        yield node
        todo.extend(ast.iter_child_nodes(node))


@cache
def _source(function: FunctionType) -> tuple[list[ast.stmt], int, str] | None:
    try:
        lines, first = inspect.getsourcelines(function.__code__)
        (node, *_) = ast.parse(dedent("".join(lines))).body
    except (OSError, SyntaxError, ValueError, TypeError):
        return None
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    return node.body, max(first, 1), Path(function.__code__.co_filename).name
