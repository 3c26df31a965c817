"""Parser: every command with its flags.

Floor: the highest of this room but `top`'s and `doctor`'s commands, which load on use. The rule: a flag has an environment variable of
the same name; a slip is answered with the nearest word.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, cast

from actors.options import nearest
from supervision.cli import acting, local, reading, serving
from supervision.cli.words import (
    DONE,
    EXIT_CODES,
    REFUSED,
    finite,
    flag,
    one_of,
    seconds,
    several,
    switch,
    whole,
)

__all__ = ["commands", "parser", "understand"]

Command = Callable[[argparse.Namespace], int]
_INVALID: Final = re.compile(r"invalid choice: '([^']*)'")


class Parser(argparse.ArgumentParser):
    """One that answers a slip with the nearest word."""

    def __init__(self, **options: Any) -> None:
        # An abbreviation that works today means something else when a flag is added.
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        found = _INVALID.search(message)
        if found is not None:
            hint = nearest(found.group(1), self.words())
            message = f"{message.partition(' (choose from')[0]}.{hint or ' One of: ' + ', '.join(self.words())}"
        super().error(message)

    def words(self) -> list[str]:
        """The words that may stand where one of a few is expected."""
        return [str(word) for action in self._actions for word in action.choices or ()]

    def flags(self) -> list[str]:
        """Its flags."""
        return [text for action in self._actions for text in action.option_strings]


def understand(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line as values; ends the program for bad usage, `--help` and `--version`."""
    main = parser()
    args, rest = main.parse_known_args(argv)
    if rest:
        home: Parser = args.parser or main
        flags = [text for text in rest if text.startswith("-")]
        hint = nearest(flags[0].partition("=")[0], home.flags()) if flags else ""
        home.error(f"unrecognized arguments: {' '.join(rest)}{'.' if hint else ''}{hint}")
    if args.command is None:
        main.print_help(sys.stderr)
        main.exit(REFUSED)
    return args


def commands() -> dict[str, Parser]:
    """Every command with its own parser; those below another have both words."""
    return dict(_below(parser(), ""))


def _below(home: argparse.ArgumentParser, before: str) -> list[tuple[str, Parser]]:
    found: list[tuple[str, Parser]] = []
    for action in home._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            for name, sub in cast("dict[str, Parser]", action.choices).items():  # pyright: ignore[reportUnknownMemberType]
                found.append((f"{before}{name}", sub))
                found += _below(sub, f"{before}{name} ")
    return found


def parser() -> Parser:
    """The parser of the whole command line."""
    main = Parser(
        prog="treewarden",
        description="Run, check, show and work supervision trees.",
        epilog="Exit codes:\n"
        + "\n".join(f"  {code:3}  {text}" for code, text in EXIT_CODES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main.set_defaults(command=None, parser=None, verbose=False)
    main.add_argument("--version", action=_Version)
    subs = main.add_subparsers(metavar="COMMAND", parser_class=Parser)
    _trees(subs)
    _looking(subs)
    _verbs(subs)
    _lists(subs)
    doctor = _add(subs, "doctor", _doctor)
    flag(
        doctor,
        "--dsn",
        "a database to try: a file of SQLite, or a postgresql:// URL",
        metavar="DSN",
    )
    switch(doctor, "--json", "print JSON")
    return main


def _add(subs: Any, name: str, command: Command, text: str = "", **defaults: Any) -> Parser:
    doc = text or inspect.getdoc(command) or ""
    sub: Parser = subs.add_parser(name, help=doc.partition("\n")[0], description=doc)
    sub.set_defaults(command=command, parser=sub, **defaults)
    sub.add_argument(
        "-v", "--verbose", action="store_true", help="say more; show tracebacks of errors"
    )
    return sub


# -- a tree that is to run, or may ---------------------------------------------------------------


def _trees(subs: Any) -> None:
    for name, command in (("serve", serving.serve), ("check", local.check), ("tree", local.show)):
        sub = _add(subs, name, command)
        sub.add_argument(
            "tree",
            metavar="MODULE:TREE",
            nargs="?",
            default=os.environ.get("TREEWARDEN_TREE"),
            help="a Supervisor, or a function without parameters that returns one [TREEWARDEN_TREE]",
        )
        flag(sub, "--config", "TOML file that changes options of the tree", metavar="FILE")
        if name != "tree":
            flag(sub, "--services", "svcs.Registry for constructors", metavar="MODULE:REGISTRY")
            text = "seconds that the ordered stop may take; 15 by default"
            flag(sub, "--stop-timeout", text, 15.0, type=seconds, metavar="S")
        if name != "serve":
            switch(sub, "--json", "print JSON")
        if name == "check":
            _check_flags(sub)
        elif name == "serve":
            _serve_flags(sub)


def _check_flags(sub: Parser) -> None:
    text = "leave a finding out, everywhere or where the path fits"
    several(sub, "--ignore", text, "CODE[:PATH]")
    words = "|".join(local.FAIL_ON)
    text = f"the mildest finding that makes it fail: {', '.join(local.FAIL_ON)}; warning by default"
    flag(sub, "--fail-on", text, "warning", type=one_of(local.FAIL_ON), metavar=words)


def _serve_flags(sub: Parser) -> None:
    text = "strict rolls back and fails if a first start does; restart, the default, tries again"
    flag(sub, "--start", text, type=one_of(("restart", "strict")), metavar="HOW")
    text = "exit hard if runs are stuck S seconds after the stop deadline; never by default"
    flag(sub, "--kill-after", text, type=finite, metavar="S")
    text = f"{', '.join(serving.LEVELS)}; info by default"
    flag(sub, "--log-level", text, "info", type=one_of(serving.LEVELS), metavar="LEVEL")
    text = "show the tree at this address too, such as 127.0.0.1:8023: page, API, probes, metrics"
    flag(sub, "--observer", text, metavar="ADDRESS")
    flag(sub, "--token", "what has to be shown to act at that address", metavar="TOKEN")
    flag(
        sub, "--socket", "where the control socket is; in the run folder by default", metavar="PATH"
    )
    switch(sub, "--no-control", "open no control socket")
    several(
        sub,
        "--require",
        "a dependency without which it is not ready: /readyz is red while its breaker is open",
        "NAME",
    )
    several(
        sub,
        "--allow-host",
        "a name under which its observer may be asked, besides addresses and localhost",
        "NAME",
    )
    switch(sub, "--show-messages", "show what is in dead letters and jobs")


# -- a tree that runs ------------------------------------------------------------------------------


def _reach(sub: Parser, *, most: float = 10.0) -> None:
    """The flags of everything that asks a running tree."""
    flag(sub, "--socket", "its control socket; the newest of this user by default", metavar="PATH")
    flag(sub, "--url", "its observer, instead of a socket", metavar="URL")
    flag(sub, "--token", "what its observer wants to be shown", metavar="TOKEN")
    text = f"seconds that an answer may take; {most:g} by default"
    flag(sub, "--timeout", text, most, type=finite, metavar="S")
    switch(sub, "--json", "print JSON")


def _looking(subs: Any) -> None:
    sub = _add(subs, "status", reading.status)
    sub.add_argument(
        "paths", nargs="*", metavar="PATH", help="what to show; a path, a name or a glob"
    )
    _reach(sub)
    sub = _add(subs, "top", _top)
    switch(sub, "--once", "print one screen and end")
    flag(sub, "--every", "seconds between two looks; 1 by default", 1.0, type=finite, metavar="S")
    _reach(sub)
    sub = _add(subs, "events", reading.events)
    sub.add_argument("path", nargs="?", metavar="PATH", help="only those of this part of the tree")
    switch(sub, "--follow", "go on with those that come", "-f")
    flag(sub, "--level", "the least level; info by default", "info", type=one_of(reading.LEVELS), metavar="LEVEL")  # fmt: skip
    flag(sub, "--most", "how many of the past; 50 by default", 50, type=whole, metavar="N")
    flag(sub, "--every", "seconds between two looks; 1 by default", 1.0, type=finite, metavar="S")
    _reach(sub)
    sub = _add(subs, "stack", reading.stack)
    sub.add_argument("path", metavar="PATH", help="a path, a name or a glob")
    _reach(sub)
    sub = _add(subs, "health", reading.health)
    sub.add_argument("probe", nargs="?", choices=list(reading.PROBES), help="one of the three; all by default")  # fmt: skip
    _reach(sub)


def _verbs(subs: Any) -> None:
    for verb, text in acting.VERBS.items():
        sub = _add(subs, verb, acting.act, text, verb=verb)
        sub.add_argument("paths", nargs="+", metavar="PATH", help="a path, a name, a glob, or all")
        _reach(sub, most=65)
    sub = _add(subs, "stop", acting.stop)
    sub.add_argument("paths", nargs="*", metavar="PATH", help="a path, a name or a glob")
    switch(sub, "--yes", "do not ask before the whole tree is stopped", "-y")
    _reach(sub, most=65)
    sub = _add(subs, "scale", acting.scale)
    sub.add_argument("path", metavar="WORKER")
    sub.add_argument("n", metavar="N", help="the number of replicas, or a change: +1, -1")
    _reach(sub, most=65)
    sub = _add(subs, "reset", acting.reset)
    sub.add_argument(
        "paths", nargs="+", metavar="PATH", help="a path, a name, or the name of a breaker"
    )
    _reach(sub)


def _lists(subs: Any) -> None:
    jobs = _add(subs, "jobs", reading.jobs)
    _more(jobs, {"list": reading.jobs, "incidents": reading.incidents, "show": reading.job, "retry": acting.retry, "cancel": acting.cancel, "pause": acting.pause, "resume": acting.resume, "limit": acting.set_limit})  # fmt: skip
    poison = _add(subs, "poison", reading.poison)
    _more(
        poison, {"list": reading.poison, "requeue": acting.requeue, "drop": acting.drop}, by="key"
    )
    letters = _add(subs, "letters", reading.letters)
    _more(
        letters,
        {"list": reading.letters, "requeue": acting.requeue, "drop": acting.drop},
        by="path",
    )


def _more(home: Parser, below: dict[str, Command], by: str = "") -> None:
    """The words after a word."""
    _reach(home)
    home.set_defaults(type=None, most=100)
    subs = home.add_subparsers(metavar="WHAT", parser_class=Parser)
    for name, command in below.items():
        sub = _add(subs, name, command, by=by)
        if name in ("list", "incidents"):
            if by == "key" or name == "incidents":
                sub.add_argument("type", nargs="?", metavar="TYPE", help="only jobs of this type")
            if by or name == "incidents":
                flag(sub, "--most", "how many; 100 by default", 100, type=whole, metavar="N")
        elif name in _OF_ONE:
            where, many = ("key", None) if name == "show" else ("keys", "+")
            sub.add_argument(where, nargs=many, metavar="KEY", help=_WHAT[where])
        elif by:
            sub.add_argument("names", nargs="+", metavar=by.upper(), help=_WHAT[by])
        else:
            sub.add_argument("type", metavar="TYPE", help="the type of jobs")
        if name == "limit":
            sub.add_argument("n", metavar="N", help="how many may run at once, or none")
        _how(sub, name, by)
        _reach(sub)
        for action in sub._actions:  # pyright: ignore[reportPrivateUsage]
            if set(action.option_strings) & set(home.flags()) and action.dest != "help":
                action.default = argparse.SUPPRESS  # what was said before the word counts too


_OF_ONE: Final = ("show", "retry", "cancel")


def _how(sub: Parser, name: str, by: str) -> None:
    if name in _OF_ONE or (by == "key" and name != "list"):
        flag(sub, "--engine", "its engine, if several have a job of this key", metavar="NAME")
    elif name == "incidents":
        flag(sub, "--engine", "only jobs that this engine keeps", metavar="NAME")
    if name == "retry":
        flag(sub, "--retries", "how often it may fail from now on", type=whole, metavar="N")
    if name in ("drop", "cancel"):
        switch(sub, "--yes", "do not ask", "-y")


_WHAT: Final = {
    "key": "the key of a job",
    "keys": "the key of a job; - for those that come on stdin, as `jobs incidents --json` prints them",
    "path": "the path of the worker it was for",
}


def _top(args: argparse.Namespace) -> int:
    """Watch a running tree in the terminal, and work it by keys."""
    from supervision.cli.top import top

    return top(args)


def _doctor(args: argparse.Namespace) -> int:
    """Look whether everything is there that this installation needs, and say how to get what is not."""
    from supervision.cli.doctor import doctor

    return doctor(args)


class _Version(argparse.Action):
    """Prints the version; looks it up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        sys.stdout.write(f"treewarden {version('treewarden')}\n")
        parser.exit(DONE)
