"""Checks for options, shared by every spec and policy.

Floor: the lowest. The rule: a wrong option is refused where it is written, with its name, its value and what would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import StrEnum
from math import inf
from typing import Any, TypeAlias, TypeVar

import attrs

__all__ = [
    "amount",
    "choice",
    "count",
    "flag",
    "more_seconds",
    "nearest",
    "seconds",
    "share",
    "some_seconds",
]

E = TypeVar("E", bound=StrEnum)
Field: TypeAlias = "attrs.Attribute[Any]"


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def seconds(_: object, field: Field, value: Any) -> None:
    """A finite number of seconds, 0 or more."""
    if not _number(value) or not 0 <= value < inf:
        raise ValueError(
            f"{field.name} must be a finite number of seconds, 0 or more, not {value!r}"
        )


def some_seconds(_: object, field: Field, value: Any) -> None:
    """A finite number of seconds above 0, or None."""
    if value is not None and (not _number(value) or not 0 < value < inf):
        raise ValueError(
            f"{field.name} must be a finite number of seconds above 0, or None, not {value!r}"
        )


def more_seconds(_: object, field: Field, value: Any) -> None:
    """A number of seconds, 0 or more; infinity means to wait for ever."""
    if not _number(value) or not value >= 0:
        raise ValueError(
            f"{field.name} must be a number of seconds, 0 or more (inf waits for ever), not {value!r}"
        )


def amount(_: object, field: Field, value: Any) -> None:
    """A finite factor, 1 or more."""
    if not _number(value) or not 1 <= value < inf:
        raise ValueError(f"{field.name} must be a finite number, 1 or more, not {value!r}")


def share(_: object, field: Field, value: Any) -> None:
    """A share, from 0 up to but not 1."""
    if not _number(value) or not 0 <= value < 1:
        raise ValueError(f"{field.name} must be a share, from 0 up to but not 1, not {value!r}")


def count(_: object, field: Field, value: Any) -> None:
    """A whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{field.name} must be a whole number, 0 or more, not {value!r}")


def flag(_: object, field: Field, value: Any) -> None:
    """True or False, not something that merely counts as one."""
    if not isinstance(value, bool):
        raise ValueError(f"{field.name} must be True or False, not {value!r}")


def choice(kind: type[E]) -> Callable[[object], E]:
    """A converter to one of an enum's values, which may be written as plain text."""

    def convert(value: object) -> E:
        try:
            return kind(value)  # type: ignore[arg-type]
        except ValueError:
            options = [str(item) for item in kind]
            raise ValueError(
                f"{value!r} is not a {kind.__name__}; use {', '.join(map(repr, options))}."
                + nearest(str(value), options)
            ) from None

    convert.__annotations__ = {"value": object, "return": kind}
    return convert


def nearest(name: str, options: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing if none of `options` is near."""
    near = get_close_matches(name, list(options), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""
