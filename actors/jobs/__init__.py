"""Jobs: work that outlives the process, with leases, retries and outcomes.

Each name is loaded on first use: a tree without jobs does not pay for them. The errors that handlers raise have their door here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.errors import (
        BpmnError,
        FailWithRetry,
        IncidentError,
        LeaseLost,
        NoRetriesLeft,
        NoSuchJob,
        NotStorable,
        NotSupported,
        SchemaTooNew,
    )
    from actors.jobs.engine import (
        Claim,
        Engine,
        EngineStatistics,
        Enqueued,
        Exchange,
        Fired,
        JobInfo,
        Settlement,
    )
    from actors.jobs.job import Job, Lease, NewJob
    from actors.jobs.outcomes import (
        Completed,
        Errored,
        Failed,
        Incident,
        Outcome,
        Poisoned,
        PutBack,
        State,
        Why,
    )
    from actors.jobs.poison import PoisonJob
    from actors.jobs.signals import (
        EngineFailing,
        EngineRecovered,
        IntakePaused,
        IntakeResumed,
        JobDuplicate,
        JobIncident,
        JobSettled,
        LeaseGone,
    )
    from actors.jobs.sqlite import MemoryEngine, SQLiteEngine, open_sqlite
    from actors.jobs.worker import Handler, JobWorker, job_worker

_HOMES: Final = {
    "actors.errors": (
        "BpmnError",
        "FailWithRetry",
        "IncidentError",
        "LeaseLost",
        "NoRetriesLeft",
        "NoSuchJob",
        "NotStorable",
        "NotSupported",
        "SchemaTooNew",
    ),
    "actors.jobs.engine": (
        "Claim",
        "Engine",
        "EngineStatistics",
        "Enqueued",
        "Exchange",
        "Fired",
        "JobInfo",
        "Settlement",
    ),
    "actors.jobs.job": ("Job", "Lease", "NewJob"),
    "actors.jobs.outcomes": (
        "Completed",
        "Errored",
        "Failed",
        "Incident",
        "Outcome",
        "Poisoned",
        "PutBack",
        "State",
        "Why",
    ),
    "actors.jobs.poison": ("PoisonJob",),
    "actors.jobs.signals": (
        "EngineFailing",
        "EngineRecovered",
        "IntakePaused",
        "IntakeResumed",
        "JobDuplicate",
        "JobIncident",
        "JobSettled",
        "LeaseGone",
    ),
    "actors.jobs.sqlite": ("MemoryEngine", "SQLiteEngine", "open_sqlite"),
    "actors.jobs.worker": ("Handler", "JobWorker", "job_worker"),
}

__all__ = [
    "BpmnError",
    "Claim",
    "Completed",
    "Engine",
    "EngineFailing",
    "EngineRecovered",
    "EngineStatistics",
    "Enqueued",
    "Errored",
    "Exchange",
    "FailWithRetry",
    "Failed",
    "Fired",
    "Handler",
    "Incident",
    "IncidentError",
    "IntakePaused",
    "IntakeResumed",
    "Job",
    "JobDuplicate",
    "JobIncident",
    "JobInfo",
    "JobSettled",
    "JobWorker",
    "Lease",
    "LeaseGone",
    "LeaseLost",
    "MemoryEngine",
    "NewJob",
    "NoRetriesLeft",
    "NoSuchJob",
    "NotStorable",
    "NotSupported",
    "Outcome",
    "PoisonJob",
    "Poisoned",
    "PutBack",
    "SQLiteEngine",
    "SchemaTooNew",
    "Settlement",
    "State",
    "Why",
    "job_worker",
    "open_sqlite",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
