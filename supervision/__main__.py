"""The command line: `treewarden`, which is also `python -m supervision`.

Floor: the highest. The rule: it says in one sentence on stderr what is wrong, and its exit code says whose turn it is: see `EXIT_CODES`
in supervision/cli/words.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from actors.options import OptionError
from supervision.cli.parser import understand
from supervision.cli.words import FAILED, INTERRUPTED, REFUSED, Ended, complain
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
    args = understand(argv)
    try:
        with ExitStack() as args.closing:
            code = int(args.command(args))
        sys.stdout.flush()
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


if __name__ == "__main__":
    sys.exit(main())
