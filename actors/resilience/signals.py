"""What guards report, and how they find whom to report to.

Floor: above ref. The rule: a guard is declared once and used anywhere; it reports to the tree whose run is calling, and to
nobody outside of one. What is shared (breaker, bulkhead, budget) is shared per tree, or per Trio run outside of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakKeyDictionary

import trio

from actors.errors import shown
from actors.events import Event
from actors.office import Office
from actors.records import record
from actors.ref import running

__all__ = [
    "BreakerChanged",
    "CallRejected",
    "CallRetried",
    "DegradationChanged",
    "Degraded",
    "LimitChanged",
    "Unbounded",
    "current_office",
    "current_tree",
    "current_worker",
    "noticed",
    "report",
    "set_level",
    "shared",
]

T = TypeVar("T")


@record
class BreakerChanged(Event):
    """A breaker changed state."""

    level: ClassVar[str] = "warning"
    decision: ClassVar[bool] = True
    breaker: str
    old: str
    new: str
    why: str
    retry_after: float = 0.0

    def sentence(self) -> str:
        return f"breaker {self.breaker} went from {self.old} to {self.new}: {self.why}"


@record
class CallRejected(Event):
    """A guard refused a call."""

    level: ClassVar[str] = "debug"
    dependency: str
    reason: str
    """`breaker` or `bulkhead`."""
    retry_after: float

    def sentence(self) -> str:
        return f"{self.path}: a call to {self.dependency} was refused by its {self.reason}"


@record
class CallRetried(Event):
    """A failed call will be made again."""

    level: ClassVar[str] = "info"
    decision: ClassVar[bool] = True
    dependency: str
    attempt: int
    """The attempt that failed, from 1."""
    delay: float
    error: BaseException | None = None

    def sentence(self) -> str:
        what = self.dependency or "a call"
        return f"{self.path}: {what} failed ({shown(self.error)}), attempt {self.attempt + 1} in {self.delay:.3g} s"


@record
class Degraded(Event):
    """An optional step failed and its default was used."""

    level: ClassVar[str] = "warning"
    feature: str
    error: BaseException | None = None

    def sentence(self) -> str:
        return f"{self.path} goes on without {self.feature}: {shown(self.error)}"


@record
class DegradationChanged(Event):
    """A feature became degraded, or recovered."""

    level: ClassVar[str] = "warning"
    feature: str
    degraded: bool

    def sentence(self) -> str:
        return f"{self.feature} {'is degraded' if self.degraded else 'has recovered'}"


@record
class LimitChanged(Event):
    """A limit that finds itself has moved by a quarter or more since this was said last."""

    level: ClassVar[str] = "info"
    decision: ClassVar[bool] = True
    dependency: str
    old: int
    """Calls in flight that were allowed."""
    new: int
    """Those that are allowed now."""
    alone: float | None = None
    """Seconds that a call takes when it need not queue over there, as far as is known."""

    def sentence(self) -> str:
        known = "" if self.alone is None else f"; one alone takes {self.alone:.3g} s"
        return f"up to {self.new} calls to {self.dependency} may run at once now, not {self.old}{known}"


@record
class Unbounded(Event):
    """A guarded call has no deadline of any kind: it may hang for ever."""

    level: ClassVar[str] = "warning"
    dependency: str

    def sentence(self) -> str:
        return f"{self.path} calls {self.dependency} without any deadline; give it a timeout"


_outside: WeakKeyDictionary[trio.lowlevel.TrioToken, Office] = WeakKeyDictionary()


def current_office() -> Office:
    """The shared parts of the tree whose run is calling; outside of one, those of this Trio run."""
    run = running.get()
    if run is not None:
        return run.mailbox.office
    token = trio.lowlevel.current_trio_token()
    office = _outside.get(token)
    if office is None:
        office = _outside[token] = Office()
    return office


def current_tree() -> Office | None:
    """The shared parts of the tree whose run is calling, if one is."""
    run = running.get()
    return run.mailbox.office if run is not None else None


def current_worker() -> str:
    """The name of the worker that is calling, or nothing."""
    return str(getattr(running.get(), "name", ""))


def report(
    event: type[Event], *, home: Office | None = None, count: tuple[str, ...] = (), **fields: Any
) -> None:
    """Report to the tree `home`, or to the one that is calling; `count` is a counter's name and its label values."""
    office = home if home is not None else current_office()
    if count:
        office.counts[count] = office.counts.get(count, 0) + 1
    run = running.get()
    path = run.mailbox.path if run is not None else ""
    office.events.emit(event, path, int(getattr(run, "run", 0)), **fields)


def noticed(guard: object, home: Office | None) -> None:
    """Have the tree that is calling know of a guard that belongs to none: it says something there.

    Not at every call: what is well and lets everything through costs nothing.
    """
    if home is None:
        current_office().guards.add(guard)


def set_level(metric: str, label: str, value: int, *, home: Office | None = None) -> None:
    """Set a gauge of the tree `home`, or of the one that is calling."""
    (home if home is not None else current_office()).levels[metric, label] = value


def shared(kind: str, name: str, make: Callable[[], T]) -> T:
    """What is shared under (`kind`, `name`) by all runs of the calling tree, made on first use."""
    things = current_office().shared
    thing = things.get((kind, name))
    if thing is None:
        thing = things[kind, name] = make()
    return cast(T, thing)
