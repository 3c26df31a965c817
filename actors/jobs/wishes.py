"""Wishes: what an operator asks of an engine, checked at the door.

Floor: above outcomes. The rule: what no job can have is refused before a database is asked, so that every engine refuses the same and a
slip is not taken for "there are none".
"""

from __future__ import annotations

from typing import Any, Final

from actors.jobs.job import MOST_RETRIES
from actors.jobs.outcomes import State
from actors.options import OptionError, is_number, nearest

__all__ = ["one_type", "the_age", "the_limit", "the_most", "the_retries", "the_state", "the_type"]

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


def one_type(value: Any) -> str:
    """A type of jobs.

    Raises:
        OptionError: no job can have it.
    """
    if value is None:
        raise OptionError("job_type must be a text, not None", option="job_type")
    return the_type(value) or ""


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


def the_limit(value: Any) -> int | None:
    """How many of a type may run at once, or None for no limit.

    Raises:
        OptionError: it is neither.
    """
    return None if value is None else the_most(value)


def the_retries(value: Any) -> int:
    """How often a job may still fail.

    Raises:
        OptionError: it is no whole number from 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_RETRIES:
        raise OptionError(
            f"retries must be a whole number from 0 to {MOST_RETRIES:,}, not {_short(value)}",
            option="retries",
        )
    return value


def the_age(value: Any) -> float:
    """Seconds since something ended.

    Raises:
        OptionError: it is no number from 0.
    """
    if not is_number(value) or value < 0:
        raise OptionError(
            f"older_than must be a number of seconds, 0 or more, not {_short(value)}",
            option="older_than",
        )
    return float(value)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
