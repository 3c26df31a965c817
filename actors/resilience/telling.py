"""Telling: a listener that is called for each change, in order, one at a time.

Floor: the lowest. The rule: who listens may use what it listens to, and so cause the next change; that is told after this one. A
listener that waits is awaited in a task of its own, so that a change never waits for it. Its errors are only logged.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVarTuple, cast

import trio

__all__ = ["Telling"]

Change = TypeVarTuple("Change")

logger: Final = logging.getLogger("actors.resilience")


class Telling(Generic[*Change]):
    """Tells `listener(*change)`; `what` names it in the log."""

    def __init__(self, listener: Callable[[*Change], object], what: str) -> None:
        self._listener = listener
        self._what = what
        self._changes: deque[tuple[*Change]] = deque()
        self._telling = False

    def tell(self, *change: *Change) -> None:
        """Tell of this change when those before it have been told, also if the listener itself makes one."""
        self._changes.append(change)
        self._go_on()

    def _go_on(self) -> None:
        if self._telling:
            return
        self._telling = True
        later = False
        try:
            while self._changes and not later:
                later = self._call(self._changes.popleft())
        finally:
            self._telling = later

    def _call(self, change: tuple[*Change]) -> bool:
        """True if the listener waits; then a task of its own goes on telling."""
        try:
            waiting: Any = self._listener(*change)
            if not hasattr(waiting, "__await__"):
                return False
            # In the context of this call: what the listener reports belongs to its tree.
            trio.lowlevel.spawn_system_task(
                self._slowly, cast(Awaitable[object], waiting), context=copy_context()
            )
        except Exception:  # its own, or Trio's, whose run is at its end and begins nothing more
            self._failed()
            return False
        return True

    async def _slowly(self, waiting: Awaitable[object]) -> None:
        try:
            await waiting
        except Exception:
            self._failed()
        finally:
            self._telling = False
        self._go_on()

    def _failed(self) -> None:
        with suppress(Exception):  # logging may fail as well
            logger.exception("%s failed", self._what)
