"""Checks for options, shared by every spec and policy.

Floor: the lowest. The rule: a wrong option is refused where it is written, with its name, its value and what would do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import wraps
from math import inf
from typing import Any, NoReturn, TypeAlias, TypeVar

import attrs

__all__ = [
    "Choice",
    "OptionError",
    "above_zero",
    "amount",
    "at_once",
    "checked",
    "close_to",
    "count",
    "flag",
    "is_async",
    "is_number",
    "is_wait",
    "more_seconds",
    "nearest",
    "refuse_unfit",
    "seconds",
    "share",
    "some_count",
    "some_seconds",
]

C = TypeVar("C")
Field: TypeAlias = "attrs.Attribute[Any]"


class OptionError(ValueError):
    """An option cannot have this value, or does not exist. Raised where it is written; correct it there."""

    def __init__(self, text: str, *, where: str = "", option: str = "") -> None:
        super().__init__(f"{where}: {text}" if where else text)
        self.text = text
        self.where = where
        """What is being declared, such as `worker 'orders'`."""
        self.option = option
        """The name of the option, if it is about one."""


class Choice(StrEnum):
    """One of a few words. As a converter it takes the member or the plain word, and refuses others by naming all."""

    @classmethod
    def option(cls) -> str:
        """The name of the option that takes it."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        words = [str(member) for member in cls]
        raise OptionError(
            f"{cls.option()} must be one of {', '.join(map(repr, words))},"
            f" not {value!r}.{nearest(str(value), words)}",
            option=cls.option(),
        )


def checked(
    error: type[OptionError] = OptionError,
    *,
    hint: Callable[[str], str] | None = None,
) -> Callable[[type[C]], type[C]]:
    """Class decorator, above `attrs.frozen`: whatever its constructor refuses says what was being declared.

    Args:
        error: what is raised, also for arguments that are missing or too many.
        hint: given an option that the class does not have, says where it belongs, or nothing.
    """

    def decorate(kind: type[C]) -> type[C]:
        init: Callable[..., None] = kind.__init__

        @wraps(init)
        def __init__(self: C, *args: object, **options: object) -> None:  # noqa: N807
            try:
                init(self, *args, **options)
            except OptionError as problem:
                if problem.where:
                    raise
                where = _where(kind, args, options)
                raise error(problem.text, where=where, option=problem.option) from None
            except TypeError:
                option, text = _misuse(kind, init, args, options, hint)
                if not text:
                    raise
                raise error(text, where=_where(kind, args, options), option=option) from None

        kind.__init__ = __init__  # type: ignore[assignment,method-assign]
        return kind

    return decorate


def _where(kind: type, args: tuple[object, ...], options: dict[str, object]) -> str:
    name = args[0] if args else options.get("name")
    if "name" not in attrs.fields_dict(kind):
        return kind.__name__
    noun = kind.__name__.lower()
    return f"{noun} {name!r}" if isinstance(name, str) else f"a {noun}"


def _misuse(
    kind: type,
    init: Callable[..., None],
    args: tuple[object, ...],
    options: dict[str, object],
    hint: Callable[[str], str] | None,
) -> tuple[str, str]:
    """The option and what is wrong with it, if the arguments do not fit the constructor; else nothing."""
    known = [field.name for field in attrs.fields(kind) if field.init]
    for option in options:
        if option not in known:
            elsewhere = hint(option) if hint is not None else ""
            text = f"there is no option {option!r}.{nearest(option, known)}"
            return option, elsewhere or text
    try:
        inspect.signature(init).bind(None, *args, **options)
    except TypeError as misfit:
        return "", f"{misfit}; write {_usage(kind)}"
    return "", ""


def _usage(kind: type) -> str:
    first = [field.name for field in attrs.fields(kind) if field.init and not field.kw_only]
    return f"{kind.__name__}({', '.join([*first, 'option=value, ...'])})"


def is_number(value: object) -> bool:
    """True for an int or a float that is neither NaN nor a bool, nor so large that it could not be added to a time."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return number == number  # noqa: PLR0124 - false for NaN only


def is_wait(value: Any) -> bool:
    """True for what can be waited: a number of any kind, 0 or more, infinity too."""
    try:
        return bool(value >= 0)
    except TypeError:
        return False


def _refused(field: Field, wanted: str, value: object) -> OptionError:
    return OptionError(f"{field.name} must be {wanted}, not {value!r}", option=field.name)


def seconds(_: object, field: Field, value: Any) -> None:
    """A finite number of seconds, 0 or more."""
    if not is_number(value) or not 0 <= value < inf:
        raise _refused(field, "a finite number of seconds, 0 or more", value)


def above_zero(_: object, field: Field, value: Any) -> None:
    """A finite number of seconds above 0."""
    if not is_number(value) or not 0 < value < inf:
        raise _refused(field, "a finite number of seconds above 0", value)


def some_seconds(_: object, field: Field, value: Any) -> None:
    """A finite number of seconds above 0, or None."""
    if value is not None and (not is_number(value) or not 0 < value < inf):
        raise _refused(field, "a finite number of seconds above 0, or None", value)


def more_seconds(_: object, field: Field, value: Any) -> None:
    """A number of seconds, 0 or more; infinity means to wait for ever."""
    if not is_number(value) or not value >= 0:
        raise _refused(field, "a number of seconds, 0 or more (inf waits for ever)", value)


def amount(_: object, field: Field, value: Any) -> None:
    """A finite factor, 1 or more."""
    if not is_number(value) or not 1 <= value < inf:
        raise _refused(field, "a finite number, 1 or more", value)


def share(_: object, field: Field, value: Any) -> None:
    """A share, from 0 up to but not 1."""
    if not is_number(value) or not 0 <= value < 1:
        raise _refused(field, "a share, from 0 up to but not 1", value)


def count(_: object, field: Field, value: Any) -> None:
    """A whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _refused(field, "a whole number, 0 or more", value)


def some_count(_: object, field: Field, value: Any) -> None:
    """A whole number, 0 or more, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise _refused(field, "a whole number, 0 or more, or None", value)


def at_once(_: object, field: Field, value: Any) -> None:
    """A function that answers at once, or None. What an async one hands out is never awaited, and counts as true."""
    if value is None:
        return
    if not callable(value):
        raise OptionError(f"{field.name} is a function or None, not {value!r}", option=field.name)
    if is_async(value):
        raise OptionError(
            f"{field.name} has to answer at once, so it cannot be an async function, {value!r}",
            option=field.name,
        )


def refuse_unfit(fn: object, where: str) -> None:
    """Refuse to decorate what cannot be called for an awaitable: an async generator, or no function at all."""
    if inspect.isasyncgenfunction(fn):
        what = "an async generator ('yield' in it); guard what it awaits"
    elif not callable(fn):
        what = "no function; below @classmethod or @property it would be"
    else:
        return
    raise OptionError(f"it decorates an async function, and {fn!r} is {what}", where=where)


def is_async(fn: Callable[..., object]) -> bool:
    """True for an async function, and for an object that is called like one."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


def flag(_: object, field: Field, value: Any) -> None:
    """True or False, not something that merely counts as one."""
    if not isinstance(value, bool):
        raise _refused(field, "True or False", value)


def nearest(name: str, options: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing if none of `options` is near."""
    near = close_to(name, options, most=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def close_to(name: str, options: Iterable[str], *, most: int = 3) -> list[str]:
    """Those of `options` that `name` may be a slip for, nearest first."""
    from difflib import get_close_matches  # only for a message, so not at import

    return get_close_matches(name, list(options), n=most, cutoff=0.6)
