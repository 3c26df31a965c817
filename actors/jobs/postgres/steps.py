"""Steps: what is to be asked of a database, without asking it.

Floor: the lowest of this room. The rule: the store is functions that yield steps and are sent rows, so there is one copy of the
SQL and whoever has a connection, blocking or not, can carry it out. What one yield holds is one transaction: a single statement
in a round trip, several of them in one pipeline. A plan that decides between statements of one transaction says so (`Atomic`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = ["Copy", "Plan", "Rows", "Step", "Steps", "Task"]

T = TypeVar("T")
Rows: TypeAlias = list[tuple[Any, ...]]


class Step(NamedTuple):
    """One statement; `hot` ones are worth being prepared."""

    sql: bytes
    values: Mapping[str, object] = {}
    hot: bool = True


class Copy(NamedTuple):
    """Rows for `COPY ... FROM STDIN`."""

    sql: bytes
    rows: Sequence[tuple[object, ...]]


Steps: TypeAlias = Step | Copy | list[Step]
Plan: TypeAlias = Generator[Steps, Any, T]
"""Is sent the rows of a step, or a list of rows for a list of steps."""


class Task(NamedTuple, Generic[T]):
    """A plan that can be begun, and begun anew."""

    make: Callable[[], Plan[T]]
    atomic: bool = False
    """All that it yields is one transaction."""
    write: bool = True
    """A write that has begun is waited for; a read is cancelled."""
