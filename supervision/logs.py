"""Logs: every event of the tree as one line of the standard library's logging.

Floor: above events. The rule: a listener like any other; the tree does not know it.
"""

from __future__ import annotations

import logging
from typing import Final

from actors.errors import shown
from actors.events import Event
from supervision.events import FailedForGood, GaveUp, Stuck

__all__ = ["log_event"]

logger: Final = logging.getLogger("supervision")

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def log_event(event: Event) -> None:
    """Log `event` at its level; failures with their traceback, a stuck run with where it waits."""
    level = _LEVELS[event.level]
    if not logger.isEnabledFor(level):
        return
    text = event.sentence()
    error: BaseException | None = None
    if event.traced:
        error = getattr(event, "error", None)
    elif isinstance(event, (GaveUp, FailedForGood)) and event.failures:
        error = event.failures[-1]
        if len(event.failures) > 1:
            text += "\nbefore that: " + "; ".join(shown(old) for old in event.failures[:-1])
    elif isinstance(event, Stuck) and event.stack:
        text += "\n" + "\n".join(f"    {line}" for line in event.stack)
    logger.log(
        level,
        "%s",
        text,
        exc_info=None if error is None else (type(error), error, error.__traceback__),
        extra={"event": event.kind, "actor_path": event.path, "actor_run": event.run},
    )
