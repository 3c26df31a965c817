"""Jobs: work that outlives the process, with leases, retries and outcomes.

Each name is loaded on first use: a tree without jobs does not pay for them. The errors that handlers raise have their door here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.errors import BpmnError, FailWithRetry, IncidentError, PoisonMessage
    from actors.jobs.database import DatabaseEngine
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
    from actors.jobs.errors import (
        AmbiguousAttempt,
        DatabaseMoved,
        EngineUnreachable,
        KeyBusy,
        KeyReused,
        LeaseLost,
        NoRetriesLeft,
        NoSuchJob,
        NotStorable,
        NotSupported,
        ResultNotStored,
        SchemaTooNew,
        StoredFailure,
    )
    from actors.jobs.idempotency import (
        Begin,
        Decision,
        IdempotencyPolicy,
        IdempotencyRecord,
        IdempotencyStore,
        decide,
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
    from actors.jobs.periodic import Periodic
    from actors.jobs.poison import PoisonJob
    from actors.jobs.postgres.engines import PostgresEngine, PostgresStatistics
    from actors.jobs.postgres.keys import PostgresIdempotencyStore
    from actors.jobs.postgres.opening import open_postgres
    from actors.jobs.postgres.runner import ListenerStatistics, PoolStatistics
    from actors.jobs.signals import (
        EngineFailing,
        EngineRecovered,
        IntakePaused,
        IntakeResumed,
        JobDuplicate,
        JobFailed,
        JobIncident,
        JobSettled,
        LeaseGone,
        ResultAtRisk,
    )
    from actors.jobs.sqlite.database import DatabaseStatistics
    from actors.jobs.sqlite.engines import (
        MemoryEngine,
        SQLEngine,
        SQLiteEngine,
        SQLiteStatistics,
        open_sqlite,
    )
    from actors.jobs.sqlite.keys import SQLIdempotencyStore
    from actors.jobs.worker import JobWorker, JobWorkerStatistics, job_worker

_HOMES: Final = {
    "actors.errors": ("BpmnError", "FailWithRetry", "IncidentError", "PoisonMessage"),
    "actors.jobs.errors": (
        "AmbiguousAttempt",
        "DatabaseMoved",
        "EngineUnreachable",
        "KeyBusy",
        "KeyReused",
        "LeaseLost",
        "NoRetriesLeft",
        "NoSuchJob",
        "NotStorable",
        "NotSupported",
        "ResultNotStored",
        "SchemaTooNew",
        "StoredFailure",
    ),
    "actors.jobs.database": ("DatabaseEngine",),
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
    "actors.jobs.idempotency": (
        "Begin",
        "Decision",
        "IdempotencyPolicy",
        "IdempotencyRecord",
        "IdempotencyStore",
        "decide",
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
    "actors.jobs.periodic": ("Periodic",),
    "actors.jobs.poison": ("PoisonJob",),
    "actors.jobs.postgres.engines": ("PostgresEngine", "PostgresStatistics"),
    "actors.jobs.postgres.keys": ("PostgresIdempotencyStore",),
    "actors.jobs.postgres.opening": ("open_postgres",),
    "actors.jobs.postgres.runner": ("ListenerStatistics", "PoolStatistics"),
    "actors.jobs.signals": (
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
    ),
    "actors.jobs.sqlite.database": ("DatabaseStatistics",),
    "actors.jobs.sqlite.engines": (
        "MemoryEngine",
        "SQLEngine",
        "SQLiteEngine",
        "SQLiteStatistics",
        "open_sqlite",
    ),
    "actors.jobs.sqlite.keys": ("SQLIdempotencyStore",),
    "actors.jobs.worker": ("JobWorker", "JobWorkerStatistics", "job_worker"),
}

__all__ = [
    "AmbiguousAttempt",
    "Begin",
    "BpmnError",
    "Claim",
    "Completed",
    "DatabaseStatistics",
    "DatabaseEngine",
    "DatabaseMoved",
    "Decision",
    "Engine",
    "EngineFailing",
    "EngineRecovered",
    "EngineStatistics",
    "EngineUnreachable",
    "Enqueued",
    "Errored",
    "Exchange",
    "FailWithRetry",
    "Failed",
    "Fired",
    "IdempotencyPolicy",
    "IdempotencyRecord",
    "IdempotencyStore",
    "Incident",
    "IncidentError",
    "IntakePaused",
    "IntakeResumed",
    "Job",
    "JobDuplicate",
    "JobFailed",
    "JobIncident",
    "JobInfo",
    "JobSettled",
    "JobWorker",
    "JobWorkerStatistics",
    "KeyBusy",
    "KeyReused",
    "Lease",
    "LeaseGone",
    "LeaseLost",
    "ListenerStatistics",
    "MemoryEngine",
    "NewJob",
    "NoRetriesLeft",
    "NoSuchJob",
    "NotStorable",
    "NotSupported",
    "Outcome",
    "Periodic",
    "PoisonJob",
    "PoisonMessage",
    "Poisoned",
    "PoolStatistics",
    "PostgresEngine",
    "PostgresIdempotencyStore",
    "PostgresStatistics",
    "PutBack",
    "ResultAtRisk",
    "ResultNotStored",
    "SQLEngine",
    "SQLIdempotencyStore",
    "SQLiteEngine",
    "SQLiteStatistics",
    "SchemaTooNew",
    "Settlement",
    "State",
    "StoredFailure",
    "Why",
    "decide",
    "job_worker",
    "open_postgres",
    "open_sqlite",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
