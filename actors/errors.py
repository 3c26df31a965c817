"""Every exception of `actors`, built from fields.

Floor: the lowest; this file imports nothing of the project.
The rule: each class says whose fault it is and what to do, and a failed send hands its message back.
"""

from __future__ import annotations

import trio

__all__ = [
    "ActorError",
    "ActorStopped",
    "AskCycle",
    "AskTimeout",
    "HandlerFailed",
    "MailboxFull",
    "NameTaken",
    "NoSuchActor",
    "SendError",
    "WouldWaitForItself",
]


class ActorError(Exception):
    """Base of the errors below; never raised itself."""


class SendError(ActorError):
    """A message was not delivered; it is handed back as `message`."""

    def __init__(self, text: str, *, path: str, message: object) -> None:
        super().__init__(text)
        self.path = path
        self.message = message


class MailboxFull(SendError):
    """The receiver is slower than its senders. Wait with `await ref.tell()`, or enlarge the mailbox."""

    def __init__(self, path: str, message: object, *, queued: int, capacity: float) -> None:
        super().__init__(
            f"mailbox of {path} is full ({queued} of {capacity:g}), so {_brief(message)} was not"
            " queued. Wait for room with 'await ref.tell()', or give it a larger MailboxSpec.",
            path=path,
            message=message,
        )
        self.queued = queued
        self.capacity = capacity


class ActorStopped(SendError):
    """The receiver has ended for good (or is disabled). Nobody will read this message."""

    def __init__(self, path: str, message: object, *, why: str) -> None:
        super().__init__(
            f"{path} is {why}, so {_brief(message)} was not delivered."
            " Start it again, or route to another replica.",
            path=path,
            message=message,
        )
        self.why = why


class HandlerFailed(ActorError):
    """The receiver failed while it worked on this ask; its error is the `__cause__`."""

    def __init__(self, path: str, message: object, *, error: BaseException) -> None:
        super().__init__(
            f"{path} failed with {error!r} while handling {_brief(message)}; there is no answer."
        )
        self.path = path
        self.message = message
        self.error = error
        self.__cause__ = error


class AskTimeout(ActorError, trio.TooSlowError):
    """No answer came in time. The message may still be handled; its answer will be discarded."""

    def __init__(self, path: str, message: object, *, timeout: float, doing: str) -> None:
        super().__init__(
            f"ask({_brief(message)}) to {path} got no answer within {timeout:g} s; {doing}."
            " Raise timeout=, or find out what holds the handler up."
        )
        self.path = path
        self.message = message
        self.timeout = timeout


class AskCycle(ActorError):
    """This ask closes a circle of actors waiting for each other; it would never be answered."""

    def __init__(self, circle: tuple[str, ...]) -> None:
        super().__init__(
            f"ask would wait for itself: {' -> '.join(circle)}."
            " Use tell() in one place, or answer later with ctx.answer_later()."
        )
        self.circle = circle


class WouldWaitForItself(ActorError):
    """A run asked to be stopped and waited for its own end. Use `ctx.stop()`, which does not wait."""

    def __init__(self, path: str, verb: str) -> None:
        super().__init__(
            f"{path} would wait for itself: '{verb}' waits for its end, and it is called from inside"
            " it. Call ctx.stop() and return, or let another task do it."
        )
        self.path = path
        self.verb = verb


class NameTaken(ActorError):
    """Somebody else holds the name; a name has one owner at a time."""

    def __init__(self, name: str, *, owner: str) -> None:
        super().__init__(
            f"the name {name!r} belongs to {owner}; it is free when that run has ended."
        )
        self.name = name
        self.owner = owner


class NoSuchActor(ActorError, LookupError):
    """Nothing has this path or name. The message lists the nearest ones."""

    def __init__(self, name: str, *, candidates: tuple[str, ...] = (), why: str = "") -> None:
        hint = f" Did you mean {', '.join(candidates)}?" if candidates else ""
        super().__init__(why or f"there is no actor {name!r} in this tree.{hint}")
        self.name = name
        self.candidates = candidates

    def __str__(self) -> str:
        return str(self.args[0])


def _brief(message: object) -> str:
    text = repr(message)
    return text if len(text) <= 60 else f"{text[:57]}..."
