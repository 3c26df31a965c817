"""The tree's own records: what happened to its children, and what it decided about them.

Floor: above states. The rule: every decision is reported when it is made, with time, path and run number; logs,
telemetry, the page and the test kit only listen.
"""

from __future__ import annotations

from typing import ClassVar

from actors.errors import shown
from actors.events import Event
from actors.records import Record, record

__all__ = [
    "Abandoned",
    "Asked",
    "Changed",
    "Ended",
    "Failed",
    "FailedForGood",
    "Forced",
    "GaveUp",
    "LoopStuck",
    "Ready",
    "Rested",
    "RestartScheduled",
    "Started",
    "StopReport",
    "StopRequested",
    "Stuck",
    "TreeStopped",
]


@record
class Started(Event):
    """A run began."""

    level: ClassVar[str] = "debug"

    def sentence(self) -> str:
        return f"{self.path} started (run {self.run})"


@record
class Ready(Event):
    """A run is ready."""

    level: ClassVar[str] = "debug"
    after: float
    """Seconds since it began."""

    def sentence(self) -> str:
        return f"{self.path} is ready after {self.after:.3g} s"


@record
class Ended(Event):
    """A run ended without a failure."""

    how: str
    """`returned` or `stopped`."""
    lasted: float
    """Seconds it was ready."""
    error: BaseException | None = None
    """What it raised although it had been asked to stop."""

    def sentence(self) -> str:
        extra = f", raising {shown(self.error)}" if self.error is not None else ""
        return f"{self.path} {self.how} (run {self.run}){extra}"


@record
class Failed(Event):
    """A run failed."""

    level: ClassVar[str] = "warning"
    traced: ClassVar[bool] = True
    error: BaseException | None
    """What it raised."""
    lasted: float
    """Seconds it was ready; 0 if it never was."""

    def sentence(self) -> str:
        return f"{self.path} failed (run {self.run}): {shown(self.error)}"


@record
class RestartScheduled(Event):
    """Decision: there will be another run."""

    level: ClassVar[str] = "warning"
    decision: ClassVar[bool] = True
    delay: float
    """Seconds from now."""
    attempt: int
    """Which consecutive restart this is."""
    limit: int
    """How many are allowed; 0 is unlimited."""
    group: tuple[str, ...] = ()
    """The names of the children that are restarted with it."""

    def sentence(self) -> str:
        when = f"in {self.delay:.3g} s" if self.delay else "at once"
        count = (
            f"{self.attempt} of {self.limit} consecutive"
            if self.limit
            else f"{self.attempt} consecutive, without limit"
        )
        with_ = f", together with {', '.join(self.group)}" if self.group else ""
        return f"{self.path} restarts {when} ({count}){with_}"


@record
class Rested(Event):
    """Decision: it has ended well and stays down."""

    decision: ClassVar[bool] = True

    def sentence(self) -> str:
        return f"{self.path} has ended for good"


@record
class FailedForGood(Event):
    """Decision: its limit is used up and it stays failed; its siblings go on."""

    level: ClassVar[str] = "error"
    decision: ClassVar[bool] = True
    why: str
    """Which limit, in words."""
    failures: tuple[Exception, ...] = ()
    """The last errors, oldest first."""

    def sentence(self) -> str:
        return f"{self.path} stays failed: {self.why}"


@record
class GaveUp(Event):
    """Decision: a supervisor gives up, because a child's limit or its own is used up."""

    level: ClassVar[str] = "error"
    decision: ClassVar[bool] = True
    child: str
    """The path of the child that made it."""
    why: str
    """Which limit, in words."""
    failures: tuple[Exception, ...] = ()
    """The last errors, oldest first."""

    def sentence(self) -> str:
        last = f" Last: {shown(self.failures[-1])}." if self.failures else ""
        return f"{self.path} gives up because of {self.child}: {self.why}.{last}"


@record
class StopRequested(Event):
    """Decision: somebody or something asks a child, a supervisor or the tree to stop."""

    level: ClassVar[str] = "debug"
    decision: ClassVar[bool] = True
    why: str
    """Who asked, in words."""
    deadline: float | None = None
    """Time of Trio's clock at which it will be cancelled; None for a supervisor."""

    def sentence(self) -> str:
        return f"{self.path} is asked to stop: {self.why}"


@record
class Changed(Event):
    """An operator changed something: enabled, disabled, scaled, added, removed."""

    decision: ClassVar[bool] = True
    what: str
    """Such as `was disabled`."""

    def sentence(self) -> str:
        return f"{self.path} {self.what}"


@record
class Asked(Event):
    """Somebody outside asked for something to be done."""

    decision: ClassVar[bool] = True
    who: str
    """Who asked, as far as the connection proves it, and as whom they presented themselves."""
    verb: str
    """What for, such as `restart`."""

    def sentence(self) -> str:
        return f"{self.who} asked for {self.verb} of {self.path}"


@record
class LoopStuck(Event):
    """The event loop stood still: something blocked it, so that nothing in this process went on. Reported when it turns again."""

    level: ClassVar[str] = "error"
    seconds: float
    """For how long."""
    at: str = ""
    """The line that blocked it."""
    stack: tuple[str, ...] = ()
    """Where that was, outermost first."""

    def sentence(self) -> str:
        at = f" at {self.at}" if self.at else ""
        return f"the event loop stood still for {self.seconds:.3g} s{at}"


@record
class Forced(Event):
    """The stop deadline has passed with work still in hand; the run was cancelled."""

    level: ClassVar[str] = "warning"
    decision: ClassVar[bool] = True
    why: str
    """Which deadline, or who, in words."""

    def sentence(self) -> str:
        return f"{self.path} was cancelled: {self.why}"


@record
class Stuck(Event):
    """A run that was cancelled is still there. Trio can kill nothing; this says where it is."""

    level: ClassVar[str] = "error"
    overrun: float
    """Seconds since it was cancelled."""
    stack: tuple[str, ...]
    """Where it waits, outermost first."""
    thread: bool
    """True if it waits for a thread that cannot be abandoned."""

    def sentence(self) -> str:
        what = "is still waiting for a thread" if self.thread else "is still running"
        at = f" at {self.stack[-1]}" if self.stack else ""
        return f"{self.path} {what} {self.overrun:.3g} s after it was cancelled{at}"


@record
class Abandoned(Event):
    """A run ended while a thread it had started goes on, as it said it may (`abandon_on_cancel`)."""

    level: ClassVar[str] = "warning"

    def sentence(self) -> str:
        return f"{self.path} ended and left a thread behind that is still running"


@record
class StopReport(Record):
    """How the stop of a tree went."""

    orderly: tuple[str, ...] = ()
    """Replicas that ended within their deadline."""
    forced: tuple[str, ...] = ()
    """Replicas that had to be cancelled with work in hand, or that overran their deadline."""
    abandoned_threads: int = 0
    """Threads left running by runs that may abandon them."""
    seconds: float = 0.0
    """From the first request to the end."""
    overrun: float = 0.0
    """The longest time a replica lived on after its deadline."""


@record
class TreeStopped(Event):
    """The last event of a tree."""

    report: StopReport
    """How the stop went."""

    def sentence(self) -> str:
        report = self.report
        forced = f", forced: {', '.join(report.forced)}" if report.forced else ""
        return (
            f"{self.path} stopped in {report.seconds:.3g} s ({len(report.orderly)} orderly{forced})"
        )
