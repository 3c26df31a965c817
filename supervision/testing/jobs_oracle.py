"""The oracle over jobs: whatever befalls workers and their engine, each lease has one outcome, told once and reported once."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Final

from actors.events import Event
from actors.jobs.signals import JobDuplicate, JobIncident, JobSettled
from supervision.events import Ended, Failed, Started, StopRequested
from supervision.testing.ledger import Asked, Ledger
from supervision.testing.moment import GRAIN, Moment, must
from supervision.testing.trace import TreeTrace

__all__ = ["one_outcome_each"]

_ME: Final = "one_outcome_each"
_UNTOLD: Final = ("superseded", "expired")
"""What a worker says of jobs whose outcome counts no more."""


def one_outcome_each(tree: TreeTrace, at: Moment) -> None:
    """Each lease of a job ends once: one outcome, told by its holder while it may, and reported as what it was.

    * Nothing is told twice, or of a job that somebody else has; what is completed is never handed out again.
    * No jobs are asked for later than a stop was asked for, and nothing is told after the end of a run.
    * Each outcome that the engine accepted is reported by one `JobSettled` of that name, each incident by one `JobIncident`.
    """
    if not tree.ledgers:
        return
    for ledger in tree.ledgers:
        must(not ledger.faults, _ME, "; ".join(ledger.faults))
        _nothing_late(tree, ledger)
    if at.quiescent:
        _reported(tree)


def _nothing_late(tree: TreeTrace, ledger: Ledger) -> None:
    last: dict[str, Event] = {}
    """The last event of each run's life."""
    asked = deque(ledger.asked)
    for number, event in enumerate(tree.events):
        while asked and asked[0].number <= number:
            _in_time(asked.popleft(), last)
        if isinstance(event, (Started, StopRequested, Ended, Failed)):
            last[event.path] = event
    for one in asked:
        _in_time(one, last)


def _in_time(asked: Asked, last: dict[str, Event]) -> None:
    event = last.get(asked.path)
    if event is None:
        return
    must(
        not isinstance(event, (Ended, Failed)),
        _ME,
        f"{asked.path} speaks with the engine at {asked.time:g}, after the end of run {asked.run}",
        [event],
    )
    must(
        not (isinstance(event, StopRequested) and asked.claims and asked.time > event.time + GRAIN),
        _ME,
        f"{asked.path} asks for jobs at {asked.time:g}, although its stop was asked for",
        [event],
    )


def _reported(tree: TreeTrace) -> None:
    said: defaultdict[str, Counter[str]] = defaultdict(Counter)
    incidents, replaced = Counter[str](), Counter[str]()
    for event in tree.events:
        if isinstance(event, JobSettled):
            said[event.job][event.outcome] += 1
        elif isinstance(event, JobIncident):
            incidents[event.job] += 1
        elif isinstance(event, JobDuplicate):
            replaced[event.job] += 1
    told: defaultdict[str, Counter[str]] = defaultdict(Counter)
    open_, wrote = Counter[str](), Counter[str]()
    due = Counter[str]()
    for ledger in tree.ledgers:
        due.update(ledger.poisoned)
        for held in ledger.leases.values():
            if not held.path:
                continue
            if held.told is None:
                open_[held.key] += 1
            elif held.wrote:
                wrote[held.key] += 1  # its handler may go on for a while, and is reported then
            else:
                told[held.key][held.told] += 1
                due[held.key] += held.told in ("incident", "poisoned")
    over = tree.live.done.is_set() and not any(ledger.troubled for ledger in tree.ledgers)
    for key in {*said, *told, *open_, *wrote}:
        _one_job(key, said[key], told[key], wrote[key], open_[key], replaced[key], over=over)
    for key in {*due, *incidents}:
        must(
            incidents[key] == due[key],
            _ME,
            f"job {key} became an incident {due[key]} times, and {incidents[key]} were reported",
        )


def _one_job(
    key: str,
    said: Counter[str],
    told: Counter[str],
    wrote: int,
    unknown: int,
    replaced: int,
    *,
    over: bool,
) -> None:
    """Compare what was reported of a job with what its engine was told."""
    for word in {*said, *told} - set(_UNTOLD):
        most = told[word] + (wrote if word == "completed" else 0)
        must(
            told[word] <= said[word] <= most,
            _ME,
            f"job {key} is {word} {most} times for its engine, and {said[word]} times by what was reported",
        )
    leases = told.total() + wrote + unknown
    must(
        told.total() <= said.total() <= leases,
        _ME,
        f"job {key} was handed out {leases} times, told of {told.total()} times, and {said.total()} ends were reported",
    )
    must(
        not over or said.total() >= leases - replaced,
        _ME,
        f"the tree has ended, and of the {leases} times that job {key} was handed out, {said.total()} ends were reported",
    )
