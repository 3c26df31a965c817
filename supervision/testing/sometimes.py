"""sometimes: what a suite must have seen at least once.

Theory. A property that holds may hold because nothing interesting ever happened. `sometimes(name, condition)` notes whether a condition
was true in any example; at the end of the session every name that never was is an error. (The idea is Antithesis'.)
"""

from __future__ import annotations

from typing import Final

from hypothesis import event

__all__ = ["forget_sometimes", "never_held", "sometimes"]

_SEEN: Final[dict[str, bool]] = {}


def sometimes(name: str, condition: object) -> None:
    """Say that `condition` should hold at least once in the whole session. Call it as often as you like."""
    holds = bool(condition)
    _SEEN[name] = _SEEN.get(name, False) or holds
    if holds:
        try:
            event(f"sometimes: {name}")
        except Exception:  # outside a Hypothesis test there are no statistics to add to
            return


def never_held() -> list[str]:
    """The names that were asked about and never held."""
    return [name for name, held in _SEEN.items() if not held]


def forget_sometimes(*names: str) -> None:
    """Forget what was seen, of these names or of all."""
    for name in names or tuple(_SEEN):
        _SEEN.pop(name, None)
