"""What one actor is: its mailbox, its address, its context, and the tools its own code uses."""

from __future__ import annotations

# The handler class and what it is handed.
from actors.actor import Actor
from actors.context import Context

# What could not be delivered.
from actors.deadletters import (
    DeadLetter,
    DeadLettered,
    DeadLetters,
    DeadLetterStatistics,
    LateReply,
)

# Errors.
from actors.errors import (
    ActorError,
    ActorStopped,
    AskCycle,
    AskTimeout,
    HandlerFailed,
    MailboxFull,
    NameTaken,
    NoSuchActor,
    PoisonMessage,
    SendError,
    WouldWaitForItself,
)

# What is reported.
from actors.events import Event, Gap, Stream, StreamStatistics, Subscription
from actors.impairment import RunDegraded, RunRestored

# The queue and its options.
from actors.mailbox import Mailbox
from actors.mailbox_spec import MailboxSpec, MailboxStatistics, Overflow

# Addresses.
from actors.ref import ActorRef, Answer, Ref
from actors.registry import Registry, RegistryStatistics

# A schedule of waits.
from actors.resilience.backoff import Backoff
from actors.routing import Router, Routing
from actors.timers import Reminder
from actors.watching import Down, Watch

__all__ = [
    "Actor",
    "ActorError",
    "ActorRef",
    "ActorStopped",
    "Answer",
    "AskCycle",
    "AskTimeout",
    "Backoff",
    "Context",
    "DeadLetter",
    "DeadLetterStatistics",
    "DeadLettered",
    "DeadLetters",
    "Down",
    "Event",
    "Gap",
    "HandlerFailed",
    "LateReply",
    "Mailbox",
    "MailboxFull",
    "MailboxSpec",
    "MailboxStatistics",
    "NameTaken",
    "NoSuchActor",
    "Overflow",
    "PoisonMessage",
    "Ref",
    "Registry",
    "RegistryStatistics",
    "Reminder",
    "Router",
    "Routing",
    "RunDegraded",
    "RunRestored",
    "SendError",
    "Stream",
    "StreamStatistics",
    "Subscription",
    "Watch",
    "WouldWaitForItself",
]
