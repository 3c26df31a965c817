"""Commands: what operators and senders do to a tree, when, as values; and how they are done."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Any

import attrs
import trio

from actors.errors import ActorError
from actors.ref import Ref
from supervision.errors import SupervisionError
from supervision.pool import Pool

__all__ = ["Command", "Verb", "do", "operate"]


class Verb(StrEnum):
    """What a command does."""

    STOP = "stop"
    RESTART = "restart"
    SCALE = "scale"
    DISABLE = "disable"
    ENABLE = "enable"
    TELL = "tell"
    SHUTDOWN = "shutdown"


@attrs.frozen
class Command:
    """One act: at that many seconds, on that worker or tree."""

    at: float
    verb: Verb = attrs.field(converter=Verb)
    target: str
    number: int = 0
    """Replicas to scale to."""
    message: Any = None
    """What to tell."""

    def __repr__(self) -> str:
        said = {Verb.SCALE: f" {self.number}", Verb.TELL: f" {self.message!r}"}
        extra = said.get(self.verb, "")
        return f"<{self.verb} {self.target}{extra} at {self.at:g}>"


async def do(pool: Pool, command: Command) -> None:
    """Do it now, and wait for it. That it cannot be done in the present state is a result like any other."""
    try:
        match command.verb:
            case Verb.SCALE:
                await pool.scale(command.target, command.number)
            case Verb.TELL:
                found = pool.ref(command.target)
                assert isinstance(found, Ref)
                await found.tell(command.message)
            case Verb.SHUTDOWN:
                pool.request_stop("a command")
            case Verb.STOP | Verb.RESTART | Verb.DISABLE | Verb.ENABLE:
                await getattr(pool, str(command.verb))(command.target)
    except (SupervisionError, ActorError):
        pass


async def operate(pool: Pool, commands: Iterable[Command]) -> None:
    """Do each at its time; one that waits does not hold up the others. Returns when all are done."""
    began = trio.current_time()

    async def later(command: Command) -> None:
        await trio.sleep_until(began + command.at)
        await do(pool, command)

    async with trio.open_nursery() as nursery:
        for command in commands:
            nursery.start_soon(partial(later, command), name=repr(command))
