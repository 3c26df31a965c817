"""Finding: one thing that is legal and usually a mistake; Rule: what looks for it.

Floor: the lowest of this room. The rule: a finding has the place, the numbers and the way out; who reads it needs no other page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from actors.records import Record, record

if TYPE_CHECKING:
    from supervision.checklist.looking import Seen

__all__ = ["Finding", "Hit", "Rule", "Severity"]


class Severity(StrEnum):
    """How sure it is that something has to be done. From the worst to the mildest."""

    ERROR = "error"
    """It will go wrong, at the latest when something else does."""
    WARNING = "warning"
    """It goes wrong under load, at a stop or in an outage."""
    NOTE = "note"
    """Worth a look; it may be meant so."""

    def at_least(self, other: Severity) -> bool:
        """True if this is as bad as `other`, or worse."""
        order = list(Severity)
        return order.index(self) <= order.index(other)


@record
class Hit(Record):
    """What a rule says: a finding that does not know its rule yet."""

    paths: tuple[str, ...]
    text: str
    way_out: str
    about: str = ""
    source: str = ""


@record
class Finding(Record):
    """One finding."""

    code: str
    """Of its rule, such as `TW301`; it never changes its meaning."""
    severity: Severity
    paths: tuple[str, ...]
    """Of the specs it is about, the first one first."""
    about: str
    """What it is about there, such as `dependency 'stripe'`; empty for the spec itself."""
    text: str
    """What is wrong, with the numbers."""
    way_out: str
    """What to write instead."""
    source: str
    """File and line, if it was seen in code; else empty."""

    @property
    def path(self) -> str:
        """Of the first spec it is about."""
        return self.paths[0]

    @property
    def place(self) -> str:
        """Where it is, for people."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        about = f", {self.about}" if self.about else ""
        return f"{self.path}{more}{about}{f' ({self.source})' if self.source else ''}"

    def __str__(self) -> str:
        return f"{self.code} {self.severity} {self.place}: {self.text}; {self.way_out}"


@record
class Rule(Record):
    """One line of the checklist."""

    code: str
    severity: Severity
    title: str
    """What it finds, in a few words."""
    check: Callable[[Seen], Iterable[Hit]]
    """A pure function of what was seen. Its docstring says why it matters."""
