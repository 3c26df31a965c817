"""Records: frozen values that report something.

Floor: the lowest. The rule: a record is made of its fields and compares and prints by them. That is written once here, not
generated for each class, since generated code is most of what importing a package of many small classes costs.
"""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform

import attrs

__all__ = ["Record", "record"]

C = TypeVar("C")


class Record:
    """Base of all records."""

    __slots__ = ()

    def _values(self) -> tuple[object, ...]:
        kind: type[Any] = type(self)
        return tuple(getattr(self, field.name) for field in attrs.fields(kind) if field.eq)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, Record)
            and self._values() == other._values()
        )

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        kind: type[Any] = type(self)
        values = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}"
            for field in attrs.fields(kind)
            if field.repr
        )
        return f"{kind.__name__}({values})"


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def record(kind: type[C]) -> type[C]:
    """Class decorator for a subclass of `Record`: frozen, slotted, made by keywords."""
    return attrs.frozen(kw_only=True, eq=False, repr=False)(kind)
