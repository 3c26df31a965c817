"""A model of an engine of jobs, as simple as can be: a list of records and the rules, without a database."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from actors.jobs import Completed, Errored, Failed, Incident, Lease, Outcome, Poisoned, Why


@attrs.define
class Entry:
    """One job."""

    key: str
    priority: int
    due: float
    retries: int
    unique: str | None
    state: str = "waiting"  # until it is due, and after: the model does not tell the two apart
    attempt: int = 0
    deliveries: int = 0
    snoozes: int = 0
    claims: int = 0
    until: float = 0.0
    ends: int = 0
    poison: bool = False

    @property
    def unfinished(self) -> bool:
        return self.state in ("waiting", "active", "incident")


class Model:
    """All jobs of one type."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.jobs: dict[str, Entry] = {}
        self.paused = False
        self.most: int | None = None

    def enqueue(self, key: str, priority: int, delay: float, retries: int, unique) -> None:
        self.jobs[key] = Entry(key, priority, self.now + delay, retries, unique)

    def unique(self, text: str) -> Entry | None:
        found = [e for e in self.jobs.values() if e.unique == text and e.unfinished]
        assert len(found) <= 1
        return found[0] if found else None

    def claim(self, most: int, lease: float, max_deliveries: int) -> tuple[list[str], list[str]]:
        """The keys handed out, in order, and those set aside."""
        if self.paused:
            return [], []
        if self.most is not None:
            held = [e for e in self.jobs.values() if e.state == "active" and e.until > self.now]
            most = min(most, max(0, self.most - len(held)))
        able = [
            e
            for e in self.jobs.values()
            if (e.state == "waiting" and e.due <= self.now)
            or (e.state == "active" and e.until <= self.now)
        ]
        able.sort(key=lambda e: (-e.priority, e.due, int(e.key)))
        out, aside = [], []
        for entry in able:
            if len(out) == most:
                break
            if entry.deliveries >= max_deliveries:
                entry.state, entry.poison = "incident", True
                aside.append(entry.key)
                continue
            entry.state = "active"
            entry.until = self.now + lease
            entry.claims += 1
            entry.attempt += 1
            entry.deliveries += 1
            out.append(entry.key)
        return out, aside

    def listed(self, state: str) -> list[str]:
        """The keys of the jobs in a state, the oldest first."""

        def word(entry: Entry) -> str:
            if entry.state != "waiting":
                return entry.state
            return "ready" if entry.due <= self.now else "scheduled"

        return sorted((e.key for e in self.jobs.values() if word(e) == state), key=int)

    def holds(self, lease: Lease) -> Entry | None:
        entry = self.jobs[lease.key]
        ours = entry.state == "active" and str(entry.claims) == lease.token
        return entry if ours else None

    def settle(self, lease: Lease, outcome: Outcome) -> bool:
        entry = self.holds(lease)
        if entry is None:
            return False
        if isinstance(outcome, (Completed, Errored)):
            entry.state = "completed" if isinstance(outcome, Completed) else "errored"
            entry.ends += 1
        elif isinstance(outcome, Poisoned):
            entry.state, entry.poison = "incident", True
        elif isinstance(outcome, Incident):
            entry.state, entry.deliveries = "incident", 0
        elif isinstance(outcome, Failed):
            entry.retries, entry.deliveries = outcome.retries, 0
            entry.state = "waiting" if outcome.retries else "incident"
            if outcome.retries:
                entry.due = self.now + outcome.retry_in
        else:
            entry.state, entry.due = "waiting", self.now + outcome.retry_in
            if outcome.why is not Why.CRASHED:
                entry.attempt -= 1
                kept = entry.deliveries - 1 if outcome.why is Why.INTERRUPTED else 0
                entry.deliveries = kept
                entry.snoozes += outcome.why is Why.SNOOZED
        return True

    def extend(self, leases: Sequence[Lease], seconds: float) -> set[Lease]:
        lost = set()
        for lease in leases:
            entry = self.holds(lease)
            if entry is None:
                lost.add(lease)
            else:
                entry.until = self.now + seconds
        return lost

    def cancel(self, key: str) -> bool:
        entry = self.jobs[key]
        if not entry.unfinished:
            return False
        entry.state, entry.poison = "cancelled", False
        entry.ends += 1
        return True

    def resolve(self, key: str, retries: int | None) -> str:
        """`ok`, or the error that is due."""
        entry = self.jobs[key]
        if entry.state != "incident":
            return "NoSuchJob"
        left = entry.retries if retries is None else retries
        if not left:
            return "NoRetriesLeft"
        entry.state, entry.due, entry.retries = "waiting", self.now, left
        entry.deliveries, entry.poison = 0, False
        return "ok"

    def run_now(self, key: str) -> str:
        """`ok`, or the error that is due."""
        entry = self.jobs[key]
        if entry.state != "waiting" or entry.due <= self.now:
            return "NoSuchJob"
        entry.due = self.now
        return "ok"
