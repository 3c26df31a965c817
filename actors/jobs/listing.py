"""Listing: what an operator asks a list of jobs for, checked at the door.

Floor: above outcomes. The rule: what no job can have is refused before a database is asked, so that every engine refuses the same and a
slip is not taken for "there are none".
"""

from __future__ import annotations

from typing import Any, Final

from actors.jobs.outcomes import State
from actors.options import OptionError, nearest

__all__ = ["the_most", "the_state", "the_type"]

_MANY: Final = 2**31 - 1
"""More than any list has: what is larger would only be too large for a database to count to."""


def the_state(value: object) -> State:
    """The state that is meant, by itself or by its word.

    Raises:
        OptionError: there is no such state.
    """
    words = [str(state) for state in State]
    if isinstance(value, str) and value in words:
        return State(value)
    hint = nearest(value, words) if isinstance(value, str) else ""
    known = ", ".join(words)
    raise OptionError(f"state must be one of {known}, not {_short(value)}.{hint}", option="state")


def the_type(value: Any) -> str | None:
    """A type of jobs, or None for all.

    Raises:
        OptionError: no job can have it.
    """
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise OptionError(
            f"job_type must be a text that is not empty, or None for all, not {_short(value)}",
            option="job_type",
        )
    if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise OptionError(
            f"job_type holds half a character, which no job has: {_short(value)}",
            option="job_type",
        )
    return value


def the_most(value: Any) -> int:
    """How many at most.

    Raises:
        OptionError: it is no whole number from 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError(
            f"most must be a whole number, 0 or more, not {_short(value)}", option="most"
        )
    return min(value, _MANY)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
