"""Schema: which options a worker and a supervisor have, read from the fields of their specs.

Floor: above specs. The rule: there is no second list. An option is a field with a `doc`; a field whose value is itself
a value with options (`restart`, `mailbox`) is a section. Configuration, command line and docs read this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from math import inf
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

from actors.options import OptionError
from supervision.specs import Spec, Supervisor, Worker

__all__ = ["GROUPS", "PREFIX", "Option", "changed", "every", "fields", "options"]

GROUPS: Final[dict[str, type[Worker | Supervisor]]] = {
    "workers": Worker,
    "supervisors": Supervisor,
}
"""Tables of the configuration, below `worker`, and what they configure."""
PREFIX: Final = "TREEWARDEN_WORKER_"
"""What the environment variables of the configuration begin with."""

_SCALARS: Final = (bool, int, float, str)
_WORDS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@attrs.frozen(kw_only=True)
class Option:
    """One option that configuration can set."""

    group: str
    """`workers` or `supervisors`."""
    path: tuple[str, ...]
    """Where it is below the name, such as `("restart", "max_restarts")`."""
    doc: str
    default: object
    kind: type
    """bool, int, float or an enum."""
    optional: bool
    """True if it may be none."""
    field: attrs.Attribute[Any] = attrs.field(repr=False)

    @property
    def name(self) -> str:
        """Its dotted name below the worker, such as `restart.max_restarts`."""
        return ".".join(self.path)

    @property
    def key(self) -> str:
        """The key in TOML, with `<name>` for the worker or supervisor."""
        return f"worker.{self.group}.<name>.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable, with `<NAME>` for the worker or supervisor."""
        return f"{PREFIX}{self.group.upper()}__<NAME>__{self.suffix}"

    @property
    def suffix(self) -> str:
        """The end of its environment variable."""
        return "__".join(self.path).upper()

    @property
    def choices(self) -> tuple[str, ...]:
        """The values it may have, if they are few."""
        return tuple(map(str, self.kind)) if issubclass(self.kind, StrEnum) else ()

    @property
    def values(self) -> str:
        """What may be written, for people."""
        names: dict[type, str] = {bool: "true or false", int: "whole number", float: "number"}
        text = names.get(self.kind) or ", ".join(map(repr, self.choices))
        return f'{text}, or "none"' if self.optional else text

    def check(self, value: object) -> object:
        """`value` as the field takes it.

        Raises:
            OptionError: the type is wrong, or the value is out of range.
        """
        if value == "none" and self.optional:
            value = None
        elif value == "inf" and self.kind is float:
            value = inf
        elif isinstance(value, bool) and self.kind is not bool:
            raise self.refused(value)
        convert: Any = getattr(self.field, "converter")  # noqa: B009
        if convert is not None:
            value = convert(value)
        if self.field.validator is not None:
            self.field.validator(None, self.field, value)
        return value

    def parse(self, text: str) -> object:
        """The value that a text of the environment stands for; checked as any other.

        Raises:
            OptionError: it does not stand for one, or the value is out of range.
        """
        bare = text.strip()
        if self.kind is bool:
            if bare.lower() not in _WORDS:
                raise self.refused(text)
            return self.check(_WORDS[bare.lower()])
        if self.kind in (int, float) and bare.lower() not in ("none", "inf"):
            return self.check(self._number(bare, text))
        return self.check(bare.lower())

    def _number(self, bare: str, text: str) -> object:
        for kind in (int, float):
            try:
                return kind(bare)
            except ValueError:
                continue
        raise self.refused(text)

    def refused(self, value: object) -> OptionError:
        """The error for a value of a wrong type."""
        last = self.path[-1]
        return OptionError(f"{last} must be {_article(self.values)}, not {value!r}", option=last)


def _article(text: str) -> str:
    return f"a {text}" if "number" in text else text


def options() -> tuple[Option, ...]:
    """Every option that configuration can set, workers' first, in the order of the specs."""
    return tuple(option for group in GROUPS for option in fields(group).values())


@cache
def fields(group: str) -> dict[tuple[str, ...], Option]:
    """The options of `workers` or `supervisors` by their path."""
    return {option.path: option for option in _options(group, GROUPS[group], ())}


def _options(group: str, home: type, path: tuple[str, ...]) -> Iterator[Option]:
    for field in attrs.fields(home):
        if not field.init or "doc" not in field.metadata:
            continue
        below = (*path, field.name)
        kind, optional = _scalar(_hint(home, field))
        if attrs.has(kind):
            yield from _options(group, kind, below)
        elif issubclass(kind, _SCALARS):
            yield Option(
                group=group,
                path=below,
                doc=field.metadata["doc"],
                default=field.default,
                kind=kind,
                optional=optional,
                field=field,
            )


def _hint(home: type, field: attrs.Attribute[Any]) -> Any:
    # Not `get_type_hints(home)`: a field may have the name of a type that another's annotation uses.
    alone = SimpleNamespace(__annotations__={field.name: field.type})
    return get_type_hints(alone, vars(sys.modules[home.__module__]))[field.name]


def _scalar(hint: Any) -> tuple[type, bool]:
    """The type in `hint`, and whether it may be None; `object` for what configuration cannot write."""
    optional = False
    if get_origin(hint) in (Union, UnionType):
        inner = [arm for arm in get_args(hint) if arm is not NoneType]
        optional = len(inner) < len(get_args(hint))
        hint = inner[0] if len(inner) == 1 else object
    return (hint, optional) if isinstance(hint, type) else (object, optional)


def changed(spec: Spec) -> dict[str, object]:
    """The options of `spec` that differ from their default, by dotted name."""
    return {option.name: value for option, value in _valued(spec) if value != option.default}


def every(spec: Spec) -> dict[str, object]:
    """All options of `spec`, by dotted name."""
    return {option.name: value for option, value in _valued(spec)}


def _valued(spec: Spec) -> Iterator[tuple[Option, object]]:
    group = "workers" if isinstance(spec, Worker) else "supervisors"
    for path, option in fields(group).items():
        value: Any = spec
        for part in path:
            value = getattr(value, part)
        yield option, value
