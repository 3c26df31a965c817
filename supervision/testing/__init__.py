"""Property-based tests of supervision trees, in virtual time. Needs the extra: `pip install 'treewarden[testing]'`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("hypothesis") is None:  # said before anything half works
    raise ImportError(
        "supervision.testing needs Hypothesis: install the extra, pip install 'treewarden[testing]'"
    )

# A run, stepped by hand; a scenario from beginning to end.
from supervision.testing.errors import (
    Deadlock,
    InjectedFault,
    InvariantViolation,
    KitWarning,
    Livelock,
    Nondeterminism,
    RealWorld,
    Survivors,
    TooLong,
)
from supervision.testing.schedule import Schedule, replay
from supervision.testing.sim import Pending, Sim
from supervision.testing.simulate import check_determinism, simulate
from supervision.testing.trace import Trace, TreeTrace

from supervision.testing.timeline import render  # isort: skip

# What to draw, and how it is made to happen.
from supervision.faults import fault_point
from supervision.testing.backoff_machine import BackoffMachine
from supervision.testing.breaker_machine import BreakerMachine
from supervision.testing.bulkhead_machine import BulkheadMachine
from supervision.testing.commands import Command, Verb, do, operate
from supervision.testing.doubles import FakeNetwork, Line, memory_streams
from supervision.testing.faulty import Grip, faulty, idle
from supervision.testing.jobs_machine import JobsMachine

# What must hold.
from supervision.testing.jobs_oracle import one_outcome_each
from supervision.testing.life import Kind, Life, Plan
from supervision.testing.lives_oracles import no_orphans, nothing_after_stop, shutdown_in_time

# State machines.
from supervision.testing.machine import (
    Bundle,
    TrioStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from supervision.testing.moment import Moment, Oracle, must
from supervision.testing.oracles import DEFAULT, judge
from supervision.testing.pool_machine import PoolMachine
from supervision.testing.restart_oracles import (
    backoff_exact,
    intensity_respected,
    no_lost_restart,
)
from supervision.testing.sometimes import sometimes
from supervision.testing.state_oracles import (
    breaker_generations,
    every_message_accounted,
    health_tells_the_truth,
)
from supervision.testing.strategies import (
    commands,
    durations,
    lives,
    plans,
    schedules,
    trees,
)

from supervision.testing.profiles import register_profiles  # isort: skip

register_profiles()

__all__ = [
    "DEFAULT",
    "BackoffMachine",
    "BreakerMachine",
    "BulkheadMachine",
    "Bundle",
    "Command",
    "Deadlock",
    "FakeNetwork",
    "Grip",
    "InjectedFault",
    "InvariantViolation",
    "JobsMachine",
    "Kind",
    "KitWarning",
    "Life",
    "Line",
    "Livelock",
    "Moment",
    "Nondeterminism",
    "Oracle",
    "Pending",
    "Plan",
    "PoolMachine",
    "RealWorld",
    "Schedule",
    "Sim",
    "Survivors",
    "TooLong",
    "Trace",
    "TreeTrace",
    "TrioStateMachine",
    "Verb",
    "backoff_exact",
    "breaker_generations",
    "check_determinism",
    "commands",
    "consumes",
    "do",
    "durations",
    "every_message_accounted",
    "fault_point",
    "faulty",
    "health_tells_the_truth",
    "idle",
    "initialize",
    "intensity_respected",
    "invariant",
    "judge",
    "lives",
    "memory_streams",
    "multiple",
    "must",
    "no_lost_restart",
    "no_orphans",
    "nothing_after_stop",
    "one_outcome_each",
    "operate",
    "plans",
    "precondition",
    "render",
    "replay",
    "rule",
    "schedules",
    "shutdown_in_time",
    "simulate",
    "sometimes",
    "trees",
]
