"""Tally: what one run of a job worker tells of its jobs: events, and counts.

Floor: above slot and signals. The rule: a job counts when the engine knows of its end, by what the engine made of it.
"""

from __future__ import annotations

from typing import Any, Final

from actors.context import Context
from actors.jobs.job import Job
from actors.jobs.outcomes import Failed, label
from actors.jobs.poison import PoisonJob
from actors.jobs.signals import JobFailed, JobIncident, JobSettled
from actors.jobs.slot import Slot

__all__ = ["Tally"]

HANDLED: Final = "wf_worker_jobs_handled_total"
PUT_BACK: Final = "supervision_jobs_put_back_total"
DURATION: Final = "wf_worker_job_duration_seconds"
_OUTCOMES: Final = {
    "completed": "success",
    "failed": "fail",
    "errored": "bpmn_error",
    "incident": "incident",
    "poisoned": "poison",
}
"""What counts as handled, and as what. Whatever else becomes of a claim, the job is still to be done, by somebody else perhaps."""


class Tally:
    """Of one run."""

    def __init__(self, ctx: Context, job_type: str) -> None:
        self.counts: dict[str, int] = {}
        """Jobs by how they ended."""
        self._ctx = ctx
        self._type = job_type
        self._office = ctx.mailbox.office

    @property
    def quiet(self) -> bool:
        """True if nobody hears of events: then plain ends can be counted together."""
        return not self._office.events.on

    def told(self, slot: Slot, *, refused: bool) -> None:
        """The engine knows of the end of a job, or did not want to hear of it."""
        outcome, job = slot.outcome, slot.job
        assert outcome is not None
        if refused:
            self.ended(job, "superseded", "somebody else has it, or it was cancelled")
            return
        word, reason = label(outcome), getattr(outcome, "reason", "")
        self.ended(job, word, reason)
        if word in ("incident", "poisoned"):
            self._incident(job.key, job.type, reason, poison=word == "poisoned")

    def ended(self, job: Job, word: str, reason: str) -> None:
        """A job has ended, or goes back."""
        self._add(word)
        if self.quiet:
            self._office.events.seq += 1
        else:
            self.emit(
                JobSettled,
                job=job.key,
                type=job.type,
                outcome=word,
                attempt=job.attempt,
                reason=reason,
            )

    def completed(self, many: int) -> None:
        """So many jobs were completed, and nobody wants to hear of each."""
        if many:
            self._add("completed", many)
            self._office.events.seq += many

    def set_aside(self, poison: PoisonJob) -> None:
        """The engine has set a job aside instead of handing it out."""
        self._incident(poison.key, poison.type, poison.reason, poison=True)
        self._add("poisoned")

    def failed(self, job: Job, error: Exception, outcome: Failed) -> None:
        """A handler failed."""
        self.emit(
            JobFailed,
            job=job.key,
            type=job.type,
            attempt=job.attempt,
            error=error,
            retries=outcome.retries,
            retry_in=outcome.retry_in if outcome.retries else 0.0,
        )

    def took(self, seconds: float) -> None:
        """A handler has come to its end."""
        self._office.took(DURATION, self._type, seconds=seconds)

    def emit(self, event: Any, **fields: Any) -> None:
        """Report something else."""
        self._office.events.emit(event, self._ctx.path, self._ctx.run, **fields)

    def _incident(self, key: str, job_type: str, reason: str, *, poison: bool) -> None:
        self.emit(JobIncident, job=key, type=job_type, reason=reason, poison=poison)

    def _add(self, word: str, many: int = 1) -> None:
        outcome = _OUTCOMES.get(word)
        key = (HANDLED, self._type, outcome) if outcome else (PUT_BACK, self._type, word)
        self._office.counts[key] = self._office.counts.get(key, 0) + many
        self.counts[word] = self.counts.get(word, 0) + many

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {word}" for word, count in self.counts.items())
        return f"<Tally of {self._ctx.path}: {counts or 'nothing yet'}>"
