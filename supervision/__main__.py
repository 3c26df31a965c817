"""The command line: `treewarden serve`, `check` and `tree`.

Floor: the highest. The rule: it says in one sentence on stderr what is wrong, and its exit code says whose turn it is:
0 stopped as asked or done, 1 the tree failed, 2 bad usage, a bad tree or a bad configuration.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, Final, NoReturn

import trio

from actors.options import nearest
from supervision.config import configure
from supervision.errors import ConfigError, SpecError, StartFailed, TreeFailed
from supervision.schema import changed
from supervision.signals import Guard, Hand, handling, say
from supervision.specs import Spec, Supervisor, Worker, check_makeable, check_root
from supervision.supervisor import running

__all__ = ["main"]

DONE: Final = 0
FAILED: Final = 1
REFUSED: Final = 2
INTERRUPTED: Final = 130
_LEVELS: Final = ("debug", "info", "warning", "error")


class Refused(Exception):
    """What was asked for cannot be done; the text says why and what to do. Exit code 2."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    args = _parser().parse_args(argv)
    if args.command is None:
        _parser().print_help(sys.stderr)
        return REFUSED
    try:
        return int(args.command(args))
    except (Refused, ConfigError, SpecError) as error:
        _complain(error, verbose=args.verbose)
        return REFUSED
    except (TreeFailed, StartFailed) as error:
        _complain(error, verbose=args.verbose)
        return FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


# -- the commands ----------------------------------------------------------------------------------


def serve(args: argparse.Namespace) -> int:
    """Run a tree until it is done, is asked to stop, or fails."""
    tree = _tree(args)
    services = _services(args)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("supervision").setLevel(args.log_level.upper())
    guard = Guard(tree.name, args.kill_after)
    try:
        trio.run(_serve, tree, args, services, guard)
    finally:
        guard.stand_down()
    return DONE


async def _serve(tree: Supervisor, args: argparse.Namespace, services: Any, guard: Guard) -> None:
    hand = Hand(trio.lowlevel.current_trio_token(), guard, args.stop_timeout)
    with handling(hand.on_signal, signal.SIGTERM, signal.SIGINT):
        async with running(
            tree,
            start=args.start,
            stop_timeout=args.stop_timeout,
            # The hand on the tree is needed before it is ready: a start, too, can be interrupted.
            wait_ready=False,
            signals=False,
            services=services,
            listeners=[guard.notice],
        ) as pool:
            guard.pool = pool
            hand.take(pool)
            await pool.wait_stopped()


def check(args: argparse.Namespace) -> int:
    """Import a tree, apply the configuration, and say what is wrong with it; start nothing."""
    tree = _tree(args)
    check_root(tree)
    if _services(args) is None:
        check_makeable(tree)
    specs = [spec for _, spec in tree.walk()]
    workers = [spec for spec in specs if isinstance(spec, Worker)]
    replicas = sum(spec.replicas for spec in workers)
    disabled = sum(not spec.enabled for spec in specs)
    print(
        f"ok: {tree.name}: {_some(len(specs) - len(workers), 'supervisor')},"
        f" {_some(len(workers), 'worker')} with {_some(replicas, 'replica')}"
        + (f", {disabled} disabled" if disabled else "")
    )
    return DONE


def show(args: argparse.Namespace) -> int:
    """Print a tree with the options that differ from their default."""
    tree = _tree(args)
    if args.json:
        print(json.dumps(_plain(tree, ""), indent=2))
        return DONE
    for path, spec in tree.walk():
        options = " ".join(f"{key}={_text(value)}" for key, value in changed(spec).items())
        indent = "  " * path.count("/")
        print(f"{indent}{spec.name}  {_what(spec)}{'  ' if options else ''}{options}")
    return DONE


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _what(spec: Spec) -> str:
    return "supervisor" if isinstance(spec, Supervisor) else _name(spec.run)


def _name(run: object) -> str:
    return getattr(run, "__qualname__", None) or repr(run)


def _text(value: object) -> str:
    return "none" if value is None else str(value)


def _plain(spec: Spec, parent: str) -> dict[str, object]:
    path = f"{parent}/{spec.name}" if parent else spec.name
    # JSON knows no infinity; configuration writes it as text, too.
    options = {key: "inf" if value == inf else value for key, value in changed(spec).items()}
    out: dict[str, object] = {"name": spec.name, "path": path, "options": options}
    if isinstance(spec, Worker):
        return {**out, "kind": "worker", "run": _name(spec.run)}
    children = [_plain(child, path) for child in spec.children]
    return {**out, "kind": "supervisor", "children": children}


# -- what the command is about ---------------------------------------------------------------------


def _tree(args: argparse.Namespace) -> Supervisor:
    """The tree that was asked for, with its configuration."""
    if not args.tree:
        raise Refused("say which tree: MODULE:TREE, such as shop.main:tree")
    found = _made(args.tree, lambda thing: isinstance(thing, Supervisor))
    if not isinstance(found, Supervisor):
        raise Refused(
            f"{args.tree} is {found!r}; what is needed is a Supervisor, or a function without"
            " parameters that returns one"
        )
    return configure(found, file=args.config)


def _services(args: argparse.Namespace) -> Any:
    return None if not args.services else _made(args.services, lambda thing: not callable(thing))


def _made(target: str, done: Callable[[object], bool]) -> object:
    """What `MODULE:NAME` stands for, or what it returns if it is a function."""
    found = _found(target)
    if done(found) or not callable(found):
        return found
    if inspect.iscoroutinefunction(found):
        raise Refused(f"{target} is an async function; nothing runs yet that could await it")
    with suppress(ValueError):
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise Refused(f"{target} cannot be called without arguments: {error}") from error
    with _blamed(f"calling {target}"):
        return found()


def _found(target: str) -> object:
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise Refused(f"{target!r} is not of the form MODULE:NAME, such as shop.main:tree")
    if module_name.endswith(".py") or "/" in module_name:
        right = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise Refused(f"{module_name!r} is a file; write the name of the module: {right}:{name}")
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    with _blamed(f"importing {module_name}"):
        try:
            found: Any = import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            raise Refused(
                f"there is no module {error.name!r}, neither in {here} nor installed"
            ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refused(f"{module_name} has no {name!r}.{_hint(found, part)}")
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
    except (Refused, ConfigError, SpecError):
        raise
    except Exception as error:
        raise Refused(f"{doing} raised {type(error).__name__}: {error}") from error


# -- words -----------------------------------------------------------------------------------------


def _complain(error: Exception, *, verbose: bool) -> None:
    if verbose:
        traceback.print_exception(error)
        sys.stderr.flush()
    if isinstance(error, ConfigError):
        for problem in error.problems:
            say(problem)
    else:
        say(str(error))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def _finite(text: str) -> float:
    value = _seconds(text)
    if value == inf:
        raise argparse.ArgumentTypeError(f"{text!r} would be never; leave it out for that")
    return value


def _one_of(*words: str) -> Callable[[str], str]:
    # Not argparse's `choices`: those do not see a default that comes from the environment.
    def one(text: str) -> str:
        if text.lower() not in words:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(words)}")
        return text.lower()

    return one


def _flag(parser: argparse.ArgumentParser, name: str, text: str, default: Any, **more: Any) -> None:
    """Add an option that has an environment variable of the same name."""
    variable = f"TREEWARDEN_{name.strip('-').replace('-', '_').upper()}"
    value = os.environ.get(variable) or default
    parser.add_argument(name, default=value, help=f"{text} [{variable}]", **more)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="treewarden",
        description="Run, check and show supervision trees.",
        epilog="Exit codes: 0 stopped as asked or done, 1 the tree failed, 2 bad usage, tree or configuration.",
    )
    parser.set_defaults(command=None)
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, command in (("serve", serve), ("check", check), ("tree", show)):
        doc = inspect.getdoc(command) or ""
        sub = commands.add_parser(name, help=doc, description=doc)
        sub.set_defaults(command=command)
        sub.add_argument(
            "tree",
            metavar="MODULE:TREE",
            nargs="?",
            default=os.environ.get("TREEWARDEN_TREE"),
            help="a Supervisor, or a function without parameters that returns one [TREEWARDEN_TREE]",
        )
        sub.add_argument("-v", "--verbose", action="store_true", help="show tracebacks of errors")
        _flag(sub, "--config", "TOML file that changes options of the tree", None, metavar="FILE")
        if name != "tree":
            target = {"metavar": "MODULE:REGISTRY"}
            _flag(sub, "--services", "svcs.Registry for constructors", None, **target)
        if name == "serve":
            _serve_flags(sub)
        elif name == "tree":
            sub.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _serve_flags(parser: argparse.ArgumentParser) -> None:
    _flag(
        parser,
        "--stop-timeout",
        "seconds that the ordered stop may take; 15 by default",
        15.0,
        type=_seconds,
        metavar="S",
    )
    _flag(
        parser,
        "--start",
        "strict rolls back and fails if a first start does; restart, the default, tries again",
        None,
        type=_one_of("restart", "strict"),
        metavar="HOW",
    )
    _flag(
        parser,
        "--kill-after",
        "exit hard if runs are stuck S seconds after the stop deadline; never by default",
        None,
        type=_finite,
        metavar="S",
    )
    _flag(
        parser,
        "--log-level",
        f"{', '.join(_LEVELS)}; info by default",
        "info",
        type=_one_of(*_LEVELS),
        metavar="LEVEL",
    )


class _Version(argparse.Action):
    """Prints the version; looks it up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"treewarden {version('treewarden')}")
        parser.exit(DONE)


if __name__ == "__main__":
    sys.exit(main())
