"""The six states, the phases of a running one, and the transitions between them, as data.

Floor: above errors. The rule: every change of state goes through `check`; what the table does not list is an
`IllegalTransition`, never a silent no-op. The diagram in the documentation is drawn from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from supervision.errors import IllegalTransition

__all__ = ["TRANSITIONS", "Phase", "State", "check", "diagram"]


class State(StrEnum):
    """What a replica, or a supervisor, is now."""

    PENDING = "pending"
    """Declared, never started; its turn has not come."""
    RUNNING = "running"
    """A run is alive, see its phase."""
    RESTARTING = "restarting"
    """No run is alive; the next one begins after a backoff, or when its group is complete."""
    STOPPED = "stopped"
    """It ended well, or was stopped; nothing will start it by itself."""
    FAILED = "failed"
    """It used up its limit; a person or the next supervisor has to act."""
    DISABLED = "disabled"
    """Not to be started until somebody enables it."""


class Phase(StrEnum):
    """How far a running one is."""

    STARTING = "starting"
    """It cannot work yet."""
    READY = "ready"
    """It can."""
    DRAINING = "draining"
    """It was asked to stop and still handles what is queued; new messages are refused."""
    STOPPING = "stopping"
    """It was asked to stop; work in hand may go on until the deadline."""


TRANSITIONS: Final[Mapping[State, Mapping[State, str]]] = MappingProxyType(
    {
        State.PENDING: {
            State.RUNNING: "its turn to start",
            State.STOPPED: "stopped before its turn",
            State.DISABLED: "disabled",
        },
        State.RUNNING: {
            State.RESTARTING: "failed, within its limits",
            State.STOPPED: "returned, or stopped as asked",
            State.FAILED: "failed, limit used up",
        },
        State.RESTARTING: {
            State.RUNNING: "the wait is over",
            State.STOPPED: "stopped while waiting",
            State.FAILED: "given up while waiting",
            State.DISABLED: "disabled",
        },
        State.STOPPED: {
            State.RUNNING: "started again",
            State.DISABLED: "disabled",
        },
        State.FAILED: {
            State.RUNNING: "started again",
            State.STOPPED: "stopped by hand",
            State.DISABLED: "disabled",
        },
        State.DISABLED: {
            State.PENDING: "enabled, its turn has not come",
            State.RUNNING: "enabled and started",
            State.STOPPED: "enabled, not started",
        },
    }
)
"""From each state: the states it can change to, and what that means."""


def check(path: str, old: State, new: State) -> None:
    """Raise `IllegalTransition` unless the table knows the way from `old` to `new`."""
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(path, old, new)


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> pending"]
    lines += [
        f"    {old} --> {new}: {why}"
        for old, ways in TRANSITIONS.items()
        for new, why in ways.items()
    ]
    return "\n".join(lines)
