"""Target: what `MODULE:NAME` on the command line stands for.

Floor: above words. The rule: a mistake is one sentence with the way out, also where the user's own code made it.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from actors.options import nearest
from supervision.cli.words import Ended
from supervision.config import configure
from supervision.errors import ConfigError, SpecError
from supervision.specs import Supervisor

__all__ = ["services_of", "tree_of"]


def tree_of(args: argparse.Namespace) -> Supervisor:
    """The tree that was asked for, with its configuration."""
    if not args.tree:
        raise Ended("say which tree: MODULE:TREE, such as shop.main:tree")
    found = _made(args.tree, lambda thing: isinstance(thing, Supervisor))
    if not isinstance(found, Supervisor):
        raise Ended(
            f"{args.tree} is {found!r}; what is needed is a Supervisor, or a function without"
            " parameters that returns one"
        )
    return configure(found, file=args.config)


def services_of(args: argparse.Namespace) -> Any:
    """The registry of services that was asked for, or None."""
    return None if not args.services else _made(args.services, lambda thing: not callable(thing))


def _made(target: str, done: Callable[[object], bool]) -> object:
    """What `MODULE:NAME` stands for, or what it returns if it is a function."""
    found = _found(target)
    if done(found) or not callable(found):
        return found
    if inspect.iscoroutinefunction(found):
        raise Ended(f"{target} is an async function; nothing runs yet that could await it")
    with suppress(ValueError):
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise Ended(f"{target} cannot be called without arguments: {error}") from error
    with _blamed(f"calling {target}"):
        return found()


def _found(target: str) -> object:
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise Ended(f"{target!r} is not of the form MODULE:NAME, such as shop.main:tree")
    if module_name.endswith(".py") or "/" in module_name:
        right = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise Ended(f"{module_name!r} is a file; write the name of the module: {right}:{name}")
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    with _blamed(f"importing {module_name}"):
        try:
            found: Any = import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            raise Ended(
                f"there is no module {error.name!r}, neither in {here} nor installed"
            ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise Ended(f"{module_name} has no {name!r}.{_hint(found, part)}")
        found = getattr(found, part)
    return found


def _hint(module: object, name: str) -> str:
    trees = [key for key, value in vars(module).items() if isinstance(value, Supervisor)]
    known = f" It has: {', '.join(trees)}." if trees else ""
    return nearest(name, vars(module)) or known


@contextmanager
def _blamed(doing: str) -> Generator[None]:
    """Turn an error of the user's code, met while `doing` something, into one sentence."""
    try:
        yield
    except (Ended, ConfigError, SpecError):
        raise
    except Exception as error:
        raise Ended(f"{doing} raised {type(error).__name__}: {error}") from error
