"""The checklist itself: every rule with its code, as a table.

Floor: above the rules. The rule: a code keeps its meaning for ever; one that is dropped is not used again. The hundreds are
themes: 1 restarts and starts, 2 stops, 3 calls, 4 jobs, 5 mailboxes, 6 the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from supervision.checklist import guards, leases, restarts, stops
from supervision.checklist.finding import Hit, Rule, Severity
from supervision.checklist.looking import Seen

__all__ = ["AT_THE_DOOR", "RULES"]

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


def _rule(
    code: str, severity: Severity, title: str, check: Callable[[Seen], Iterable[Hit]]
) -> Rule:
    return Rule(code=code, severity=severity, title=title, check=check)


RULES: Final[tuple[Rule, ...]] = (
    _rule("TW101", ERROR, "unlimited restarts without a wait", restarts.endless),
    _rule("TW102", WARNING, "a supervisor's intensity that its children multiply", restarts.multiplied),
    _rule("TW103", NOTE, "limits of nested supervisors that multiply", restarts.nested),
    _rule("TW104", WARNING, "a supervisor's limit that is never reached", restarts.forgiven),
    _rule("TW105", WARNING, "a poison message that uses up the limit first", restarts.poisonous),
    _rule("TW106", NOTE, "a dynamic supervisor without max_children", restarts.growing),
    _rule("TW107", WARNING, 'ready="signal" without a start_timeout', restarts.never_ready),
    _rule("TW201", WARNING, "a shutdown deadline that leaves no time in the stop timeout", stops.no_time_left),
    _rule("TW202", WARNING, "shutdown deadlines that together exceed the stop timeout", stops.too_many_stops),
    _rule("TW203", NOTE, "a call that may take longer than the worker has to stop", stops.long_call),
    _rule("TW301", ERROR, "a guarded call without a timeout", guards.no_timeout),
    _rule("TW302", WARNING, "retries without an idempotency key", guards.no_key),
    _rule("TW303", WARNING, "more than five retries in the worker", guards.many_retries),
    _rule("TW304", WARNING, "waits above ten seconds in the worker", guards.long_waits),
    _rule("TW305", WARNING, "a breaker that counts every error beside a retry that names some", guards.blind_breaker),
    _rule("TW401", WARNING, "a lease out of proportion", leases.odd_lease),
    _rule("TW402", NOTE, "all variables fetched", leases.all_variables),
    _rule("TW403", NOTE, "twice as many jobs held as can run", leases.held_ahead),
    _rule("TW404", WARNING, "a stop too short to give jobs back", leases.short_stop),
    _rule("TW501", WARNING, "an unbounded mailbox", stops.unbounded),
    _rule("TW601", WARNING, "a worker that blocks the event loop", stops.blocks),
)  # fmt: skip

AT_THE_DOOR: Final[tuple[tuple[str, str], ...]] = (
    ("max_jobs_activated above twice the concurrency, or below it", "JobWorker"),
    ("retry attempts of 0: the first call counts", "RetryPolicy"),
    ("a breaker that nothing would ever open", "BreakerPolicy"),
    ("a waiting line without a limit", "Dependency"),
    ("a start_timeout that nothing could miss", "Worker"),
    ("an option in the wrong place, with the place it belongs to", "Worker, Supervisor"),
    ("a key of the configuration that does not exist, or a value of a wrong type", "configuration"),
)
"""What is refused when it is written, so that the checklist need not look for it."""
