"""What keeps actors alive: trees of workers and supervisors."""

from __future__ import annotations

# Running a tree.
from supervision import supervisor
from supervision.errors import (
    AlreadyPresent,
    ConfigError,
    IllegalTransition,
    MissingExtra,
    NotRunning,
    ObserverUnavailable,
    ServiceMissing,
    SpecError,
    StartFailed,
    StartTimeout,
    SupervisionError,
    SupervisorFailed,
    TooManyChildren,
    TreeFailed,
    WatchdogExpired,
)
from supervision.events import StopReport
from supervision.health import Health
from supervision.pool import Pool
from supervision.report import Counts, Snapshot, SupervisorInfo, WorkerInfo

# Declaring a tree.
from supervision.restart import RestartPolicy, RestartType
from supervision.specs import AutoShutdown, OnFailed, Ready, Start, Strategy, Supervisor, Worker
from supervision.states import Phase, State
from supervision.supervisor import running, serve
from supervision.telemetry import Telemetry

# Options that come from `actors`.
from actors import MailboxSpec, Overflow  # isort: skip

__all__ = [
    "AlreadyPresent",
    "AutoShutdown",
    "ConfigError",
    "Counts",
    "Health",
    "IllegalTransition",
    "MailboxSpec",
    "MissingExtra",
    "NotRunning",
    "ObserverUnavailable",
    "OnFailed",
    "Overflow",
    "Phase",
    "Pool",
    "Ready",
    "RestartPolicy",
    "RestartType",
    "ServiceMissing",
    "Snapshot",
    "SpecError",
    "Start",
    "StartFailed",
    "StartTimeout",
    "State",
    "StopReport",
    "Strategy",
    "SupervisionError",
    "Supervisor",
    "SupervisorFailed",
    "SupervisorInfo",
    "Telemetry",
    "TooManyChildren",
    "TreeFailed",
    "WatchdogExpired",
    "Worker",
    "WorkerInfo",
    "running",
    "serve",
    "supervisor",
]
