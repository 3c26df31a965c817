"""What the kit itself raises.

The rule: a finding is an `AssertionError`, so that test runners show it as one; a misuse of the kit is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.events import Event

__all__ = [
    "Deadlock",
    "InjectedFault",
    "InvariantViolation",
    "KitWarning",
    "Livelock",
    "Nondeterminism",
    "RealWorld",
    "Survivors",
    "TooLong",
]


class KitWarning(UserWarning):
    """Something of the kit is not available here."""


class InvariantViolation(AssertionError):
    """An invariant does not hold.

    Attributes:
        invariant: its name.
        events: the records that show it, the breaking one last; may be empty.
    """

    def __init__(self, invariant: str, text: str, events: Sequence[Event] = ()) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.events = tuple(events)


class Livelock(AssertionError):
    """Tasks keep one another busy and time cannot go on."""

    def __init__(self, passes: int) -> None:
        super().__init__(
            f"livelock: tasks are still ready after {passes} passes of the loop without a pause."
            " A loop without a wait, or a restart without a backoff and without a limit?"
        )


class Deadlock(AssertionError):
    """Every task waits, no timer is set, and what the test waits for has not happened."""

    def __init__(self, what: str, stacks: Sequence[str]) -> None:
        where = "".join(f"\n  {stack}" for stack in stacks)
        super().__init__(f"deadlock: {what} waits, and nothing will ever wake a task:{where}")


class TooLong(AssertionError):
    """It did not come to its end in the virtual time it was given."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} has not come to its end within {seconds:g} virtual seconds")


class Survivors(AssertionError):
    """Tasks outlive the cancellation of the whole run."""

    def __init__(self, stacks: Sequence[str]) -> None:
        where = "".join(f"\n  {stack}" for stack in stacks)
        super().__init__(f"tasks survive the cancellation of the whole run:{where}")


class Nondeterminism(AssertionError):
    """The same schedule gave two traces: something reads a wall clock, its own randomness, or the order of a set."""

    def __init__(self, number: int, first: str, second: str) -> None:
        super().__init__(
            f"the same schedule gave different traces; event {number} was first\n  {first}\nand then\n  {second}"
        )


class RealWorld(RuntimeError):
    """A thread or a socket is waited for in virtual time, which would pass it by."""

    def __init__(self, what: str, tasks: Sequence[str] = ()) -> None:
        where = "".join(f"\n  {task}" for task in tasks)
        super().__init__(
            f"{what} in a run in virtual time. Virtual time does not pass while real work is done, so timeouts"
            " around it mean nothing. Use a double (testing.memory_streams, or a worker of your own), or opt in"
            f" with Sim(real=True), which lets threads end before time moves.{where}"
        )


class InjectedFault(Exception):
    """The failure that a plan, a machine or a fault point made happen."""
