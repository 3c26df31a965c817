"""Words: exit codes, how a command ends early, and what flags are made of.

Floor: the lowest of this room. The rule: data goes to stdout, everything that is said about it to stderr; the exit code says whose turn
it is.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Final, TextIO

from supervision.errors import ConfigError
from supervision.signals import say

__all__ = [
    "DONE",
    "EXIT_CODES",
    "FAILED",
    "INTERRUPTED",
    "LATE",
    "NOT_RUNNING",
    "NO_ACCESS",
    "PARTLY",
    "REFUSED",
    "UNKNOWN",
    "Ended",
    "colour",
    "complain",
    "confirmed",
    "finite",
    "flag",
    "flush",
    "one_of",
    "put",
    "seconds",
    "several",
    "some",
    "switch",
    "variable",
    "whole",
    "words_of",
    "write",
]

DONE: Final = 0
FAILED: Final = 1
REFUSED: Final = 2
NOT_RUNNING: Final = 3
UNKNOWN: Final = 4
NO_ACCESS: Final = 5
PARTLY: Final = 6
LATE: Final = 7
INTERRUPTED: Final = 130

EXIT_CODES: Final[dict[int, str]] = {
    DONE: "done; what was asked for is running, or ready; `serve`: stopped as asked, or done",
    FAILED: "failed: `serve`: the tree failed; `check`: there are findings; a verb: it did not work",
    REFUSED: "bad usage, a bad tree or a bad configuration",
    NOT_RUNNING: "what was asked for is not running, or not ready",
    UNKNOWN: "there is no such child, or no running tree was found",
    NO_ACCESS: "refused: read-only, or without permission",
    PARTLY: "partly done: some of several failed; stderr says which",
    LATE: "not done within `--timeout`",
    INTERRUPTED: "interrupted; `serve`: twice",
}
"""The exit codes and what they mean."""


class Ended(Exception):
    """A command cannot go on: one sentence that says why and what to do, and the exit code."""

    def __init__(self, text: str, code: int = REFUSED) -> None:
        super().__init__(text)
        self.code = code


def put(text: str) -> None:
    """A line of data."""
    write(f"{text}\n")


def write(text: str) -> None:
    """Text on stdout. What the terminal cannot show, and what is no text at all, is shown escaped."""
    out = sys.stdout
    with _complaining():
        try:
            out.write(text)
        except UnicodeEncodeError:
            code = out.encoding or "utf-8"
            out.write(text.encode(code, "backslashreplace").decode(code))


def flush() -> None:
    """Write what has been collected for stdout."""
    with _complaining():
        sys.stdout.flush()


@contextmanager
def _complaining() -> Generator[None]:
    """Say that output was lost, as on a full disk. A reader that has left is another matter."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What could not be written would be tried again, and complained about, at the end of the program.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Ended(f"the output cannot be written: {error.strerror or error}", FAILED) from error


def complain(error: Exception, *, verbose: bool) -> None:
    """Say what was wrong, each problem on a line of its own."""
    if verbose:
        traceback.print_exception(error)
        sys.stderr.flush()
    for problem in error.problems if isinstance(error, ConfigError) else [str(error)]:
        say(problem)


def some(number: int, noun: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def colour(stream: TextIO) -> bool:
    """True if `stream` is a terminal whose user wants colour."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and stream.isatty()


def confirmed(question: str, *, yes: bool) -> None:
    """Ask before work is lost; where nobody can be asked, `--yes` has to be given.

    Raises:
        Ended: it is not wanted.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Ended(f"{question} This loses work: add --yes if it is meant")
    sys.stderr.write(f"{question} This loses work. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Ended("nothing was done", FAILED)


# -- flags -----------------------------------------------------------------------------------------


def variable(name: str) -> str:
    """The environment variable of a flag."""
    return f"TREEWARDEN_{name.strip('-').replace('-', '_').upper()}"


def flag(parser: argparse.ArgumentParser, name: str, text: str, default: Any = None, **more: Any) -> None:  # fmt: skip
    """Add an option that has an environment variable of the same name."""
    value = os.environ.get(variable(name)) or default
    parser.add_argument(name, default=value, help=f"{text} [{variable(name)}]", **more)


def switch(parser: argparse.ArgumentParser, name: str, text: str, *short: str) -> None:
    """Add a flag without a value; its variable turns it on with 1, true or yes."""
    on = os.environ.get(variable(name), "").lower() in ("1", "true", "yes", "on")
    parser.add_argument(
        *short, name, action="store_true", default=on, help=f"{text} [{variable(name)}]"
    )


def several(parser: argparse.ArgumentParser, name: str, text: str, metavar: str) -> None:
    """Add an option that may be given again; its variable holds several, with spaces or commas between."""
    value = os.environ.get(variable(name))
    text = f"{text}; may be given again [{variable(name)}]"
    default = [value] if value else []
    parser.add_argument(name, action="append", default=default, metavar=metavar, help=text)


def words_of(texts: Iterable[str]) -> list[str]:
    """The words in the values of an option that may be given again."""
    return [word for text in texts for word in text.replace(",", " ").split()]


def seconds(text: str) -> float:
    """A number of seconds, 0 or more; inf is one."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def finite(text: str) -> float:
    """A number of seconds that ends."""
    value = seconds(text)
    if value == inf:
        raise argparse.ArgumentTypeError(f"{text!r} would be never; leave it out for that")
    return value


def whole(text: str) -> int:
    """A whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def one_of(words: Iterable[str]) -> Callable[[str], str]:
    """One of `words`. Not argparse's `choices`: those do not see a default that comes from the environment."""
    from actors.options import nearest

    known = tuple(words)

    def one(text: str) -> str:
        if text.lower() not in known:
            hint = nearest(text, known)
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(known)}.{hint}")
        return text.lower()

    return one
