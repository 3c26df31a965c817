"""How a mailbox behaves, and what it looks like from outside, as values.

Floor: above options and records.
"""

from __future__ import annotations

from math import inf
from typing import Any

import attrs

from actors.options import Choice, OptionError, checked, count, flag
from actors.records import Record, record

__all__ = ["MailboxSpec", "MailboxStatistics", "Overflow"]


class Overflow(Choice):
    """What a full mailbox does with one more message."""

    WAIT = "wait"
    """`tell` waits for room; `tell_nowait` raises `MailboxFull`."""
    REJECT = "reject"
    """Both raise `MailboxFull`."""
    DROP_OLDEST = "drop_oldest"
    """The oldest queued message is dropped and counted."""
    DROP_NEWEST = "drop_newest"
    """The new message is dropped and counted."""


def _capacity(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not (value == inf or (isinstance(value, int) and value >= 0)):
        raise OptionError(
            f"{field.name} must be a whole number of messages, 0 or more, or math.inf, not {value!r}",
            option=field.name,
        )


@checked()
@attrs.frozen(kw_only=True, eq=False, repr=False)
class MailboxSpec(Record):
    """How the mailbox of each replica behaves."""

    capacity: float = attrs.field(
        default=1024,
        validator=_capacity,
        metadata={"doc": "messages it holds; 0 hands over, inf is unbounded"},
    )
    overflow: Overflow = attrs.field(
        default=Overflow.WAIT,
        converter=Overflow,
        metadata={"doc": "what a full mailbox does"},
    )
    redeliver: int = attrs.field(
        default=0,
        validator=count,
        metadata={"doc": "times a message in hand at a failure is given again before it is poison"},
    )
    drain: bool = attrs.field(
        default=False,
        validator=flag,
        metadata={"doc": "on stop, handle what is queued within the shutdown deadline"},
    )


@record
class MailboxStatistics(Record):
    """One look at a mailbox."""

    capacity: float
    """Messages it may hold."""
    queued: int
    """Messages waiting now."""
    in_hand: int
    """1 while a handler works on one."""
    peak: int
    """The largest `queued` a reader ever found."""
    sent: int
    """Messages offered to it: the sum of all below and of those queued and in hand."""
    handled: int
    """Handlers that came to their end."""
    rejected: int
    """Refused with an error to the sender."""
    dropped: int
    """Dropped by the overflow policy, skipped because their asker was gone, or ticks of an ended run."""
    skipped: int
    """The part of `dropped` that were asks of a caller who was gone or late."""
    dead_lettered: int
    """Gone to the dead letters."""
    waiting: int
    """Senders waiting for room."""
