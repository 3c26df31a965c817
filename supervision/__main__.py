"""The command line: `treewarden`, which is also `python -m supervision`.

Floor: the highest. The rule: it says in one sentence on stderr what is wrong, and its exit code says whose turn it is: see `EXIT_CODES`
in supervision/cli/words.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from actors.options import OptionError
from supervision.cli.parser import understand
from supervision.cli.words import FAILED, INTERRUPTED, REFUSED, Ended, complain, flush
from supervision.errors import (
    ConfigError,
    MissingExtra,
    ObserverUnavailable,
    StartFailed,
    TreeFailed,
)
from supervision.signals import say

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    _open_closed_streams()
    args = understand(argv)
    try:
        with ExitStack() as args.closing:
            code = int(args.command(args))
        flush()
    except Ended as ended:
        complain(ended, verbose=args.verbose)
        return ended.code
    except (ConfigError, OptionError, MissingExtra, ObserverUnavailable) as error:
        complain(error, verbose=args.verbose)
        return REFUSED
    except (TreeFailed, StartFailed) as error:
        complain(error, verbose=args.verbose)
        return FAILED
    except BrokenPipeError:  # `treewarden events | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    return code


def _open_closed_streams() -> None:
    """Let nothing else become descriptor 0, 1 or 2.

    A program that was started without one of them gives its number to the next file or socket that it opens, and what is said
    on it would end up in there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        with suppress(OSError):
            os.fstat(number)
            continue  # taken already
        nothing = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
        if nothing != number:
            os.dup2(nothing, number)
            os.close(nothing)
        setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


if __name__ == "__main__":
    sys.exit(main())
