"""What job workers report.

Floor: the lowest of this room. The rule: one event for each end of a job, whichever way it came about, and one more for each
that needs a person (NicolasLM/spinach#16: a hook on one of two ways to the end is missed on the other).
"""

from __future__ import annotations

from typing import ClassVar

from actors.errors import shown
from actors.events import Event
from actors.records import record

__all__ = [
    "EngineFailing",
    "EngineRecovered",
    "IntakePaused",
    "IntakeResumed",
    "JobDuplicate",
    "JobFailed",
    "JobIncident",
    "JobSettled",
    "LeaseGone",
    "ResultAtRisk",
]


@record
class JobSettled(Event):
    """A job that was handed out here has ended, or goes back."""

    level: ClassVar[str] = "debug"
    job: str
    """Its key."""
    type: str
    outcome: str
    """completed, failed, incident, errored, poisoned, snoozed, refused, interrupted, crashed, superseded or expired."""
    attempt: int
    reason: str = ""

    def sentence(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"job {self.job} ({self.type}) {self.outcome} in attempt {self.attempt}{why}"


@record
class JobFailed(Event):
    """A handler failed. What becomes of the job is said by the `JobSettled` that follows."""

    level: ClassVar[str] = "warning"
    traced: ClassVar[bool] = True
    job: str
    type: str
    attempt: int
    error: Exception
    """What it raised."""
    retries: int
    """How often the job may fail from now on."""
    retry_in: float
    """Seconds until it is due again, if it is."""

    def sentence(self) -> str:
        times = "once" if self.retries == 1 else f"{self.retries} times"
        then = (
            f"it is due again in {self.retry_in:.3g} s and may fail {times} more"
            if self.retries
            else "no retries are left"
        )
        return f"job {self.job} ({self.type}) failed in attempt {self.attempt}: {shown(self.error)}; {then}"


@record
class JobIncident(Event):
    """A job needs a person: it has no retries left, asked for one, or was set aside as poison."""

    level: ClassVar[str] = "error"
    decision: ClassVar[bool] = True
    job: str
    type: str
    reason: str
    poison: bool
    """True if it was set aside."""

    def sentence(self) -> str:
        what = "was set aside as poison" if self.poison else "is an incident"
        return f"job {self.job} ({self.type}) {what}: {self.reason}"


@record
class LeaseGone(Event):
    """The lease of a job was lost while its handler ran; the handler is cancelled."""

    level: ClassVar[str] = "warning"
    job: str
    type: str

    def sentence(self) -> str:
        return (
            f"{self.path} lost the lease of job {self.job} ({self.type}); its handler is cancelled"
        )


@record
class JobDuplicate(Event):
    """A job was handed out again to the worker that is still at it. It is not run twice."""

    level: ClassVar[str] = "warning"
    job: str
    type: str

    def sentence(self) -> str:
        return f"{self.path} was handed job {self.job} ({self.type}) again while it runs here"


@record
class IntakePaused(Event):
    """No jobs are taken while a dependency that they need refuses calls."""

    level: ClassVar[str] = "warning"
    decision: ClassVar[bool] = True
    type: str
    dependency: str

    def sentence(self) -> str:
        return f"{self.path} takes no {self.type} jobs while {self.dependency} refuses calls"


@record
class IntakeResumed(Event):
    """Jobs are taken again."""

    type: str

    def sentence(self) -> str:
        return f"{self.path} takes {self.type} jobs again"


@record
class EngineFailing(Event):
    """The engine does not do what it is asked; it is asked again."""

    level: ClassVar[str] = "error"
    engine: str
    error: BaseException | None = None
    retry_in: float = 0.0

    def sentence(self) -> str:
        return (
            f"{self.path}: engine {self.engine} fails with {shown(self.error)},"
            f" tried again in {self.retry_in:.3g} s"
        )


@record
class EngineRecovered(Event):
    """The engine works again."""

    engine: str

    def sentence(self) -> str:
        return f"{self.path}: engine {self.engine} works again"


@record
class ResultAtRisk(Event):
    """The result of work that was done could not be stored: the work may be done again."""

    level: ClassVar[str] = "error"
    key: str
    """The idempotency key."""
    error: BaseException | None = None

    def sentence(self) -> str:
        return f"{self.path}: the result of {self.key} could not be stored ({shown(self.error)})"
