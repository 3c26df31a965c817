"""fault_point: a named place at which a test may let something fail.

Floor: the lowest. The rule: in production it does nothing, not even a checkpoint, and costs one look at a context variable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["ARMED", "fault_point"]

ARMED: Final[ContextVar[Callable[[str], Awaitable[None]] | None]] = ContextVar(
    "supervision.armed", default=None
)
"""What a fault point calls; None in production."""


class _Nothing:
    """Awaiting it returns at once."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


_NOTHING: Final = _Nothing()


def fault_point(name: str) -> Awaitable[None]:
    """`await fault_point("after the insert")`: a place at which a simulation may fail, wait or hang, see `Sim.arm`."""
    armed = ARMED.get()
    return _NOTHING if armed is None else armed(name)
