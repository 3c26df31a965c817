"""sometimes: what a suite must have seen at least once.

Theory. A property that holds may hold because nothing interesting ever happened. `sometimes(name, condition)` notes whether a condition
was true in any example; at the end of the session every name that never was is an error. (The idea is Antithesis'.)
"""

from __future__ import annotations

import sys
from typing import Final

import attrs
from hypothesis import event

__all__ = ["forget_sometimes", "never_held", "sometimes"]


@attrs.define
class _Asked:
    """What is known of one name."""

    where: str
    times: int = 0
    held: bool = False


_ASKED: Final[dict[str, _Asked]] = {}


def sometimes(name: str, condition: object) -> None:
    """Say that `condition` should hold at least once in the whole session. Call it as often as you like."""
    asked = _ASKED.get(name)
    if asked is None:
        caller = sys._getframe(1)
        asked = _ASKED[name] = _Asked(f"{caller.f_code.co_filename}:{caller.f_lineno}")
    asked.times += 1
    if condition:
        asked.held = True
        try:
            event(f"sometimes: {name}")
        except Exception:  # outside a Hypothesis test there are no statistics to add to
            return


def never_held() -> dict[str, str]:
    """The names that were asked about and never held, each with where it is asked first and how often it was."""
    return {
        name: f"{asked.where}, asked {asked.times} times"
        for name, asked in _ASKED.items()
        if not asked.held
    }


def forget_sometimes(*names: str) -> None:
    """Forget what was seen, of these names or of all."""
    for name in names or tuple(_ASKED):
        _ASKED.pop(name, None)
