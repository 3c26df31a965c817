"""Verbs: what can be asked of a running tree, and of whom, as data; and what one command means.

Floor: above messages. The rule: what cannot work is not offered, and what is asked is understood as a whole, with all its targets,
before anything is done. Nothing here touches a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, cast

import attrs

from actors.options import nearest
from actors.records import Record
from supervision.observer.messages import Trouble
from supervision.states import Phase, State

__all__ = ["ACTIONS", "VERBS", "About", "Command", "is_glob", "offered", "understand", "which"]


class About(StrEnum):
    """What a verb is said of."""

    CHILD = "child"
    """Replicas, workers and supervisors, by path; globs are allowed."""
    BREAKER = "breaker"
    """A dependency by its name."""
    QUEUE = "queue"
    """The jobs of one type."""
    JOB = "job"
    """A job by its key."""
    LETTER = "letter"
    """A job that was set aside as poison, by its key; or dead letters, by path."""
    TREE = "tree"
    """The whole."""


VERBS: Final[Mapping[str, About]] = {
    "start": About.CHILD,
    "stop": About.CHILD,
    "restart": About.CHILD,
    "drain": About.CHILD,
    "enable": About.CHILD,
    "disable": About.CHILD,
    "scale": About.CHILD,
    "reset": About.CHILD,
    "breaker_open": About.BREAKER,
    "breaker_close": About.BREAKER,
    "pause": About.QUEUE,
    "resume": About.QUEUE,
    "limit": About.QUEUE,
    "retry": About.JOB,
    "cancel": About.JOB,
    "requeue": About.LETTER,
    "drop": About.LETTER,
    "stop_tree": About.TREE,
}
"""Every verb, and what it is said of."""

LOSES_WORK: Final = frozenset({"cancel", "drop", "stop_tree"})
"""Verbs that have to be confirmed."""

ACTIONS: Final[Mapping[State, tuple[str, ...]]] = {
    State.PENDING: ("start", "disable"),
    State.RUNNING: ("restart", "drain", "stop", "disable"),
    State.RESTARTING: ("restart", "stop", "disable"),
    State.STOPPED: ("start", "disable"),
    State.FAILED: ("restart", "disable"),
    State.DISABLED: ("enable",),
}
"""What is offered for a child in each state, the likeliest first."""


def offered(state: State, phase: Phase | None) -> tuple[str, ...]:
    """What can be done to a child that is so now."""
    if phase in (Phase.STOPPING, Phase.DRAINING):
        return ("restart", "disable")
    return ACTIONS[state]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Command(Record):
    """One thing that somebody wants done."""

    verb: str
    path: str = ""
    n: int | None = None
    by: bool = False
    """True if `n` is a change (`+2`), not the new number."""
    key: str = ""
    type: str = ""
    engine: str = ""
    confirm: bool = False

    @property
    def about(self) -> About:
        """What it is said of."""
        return VERBS[self.verb]


_FIELDS: Final = frozenset({"verb", "path", "n", "key", "type", "engine", "confirm", "who"})


def understand(body: Any) -> Command:
    """The command that a JSON body means.

    Raises:
        Trouble: it means none; the text says what is missing.
    """
    if not isinstance(body, dict):
        raise Trouble(
            "bad_request", 'a command is a JSON object: {"verb": "restart", "path": "..."}'
        )
    asked = cast("dict[str, Any]", body)
    for name in asked:
        if name not in _FIELDS:
            hint = nearest(str(name), _FIELDS)
            raise Trouble("bad_request", f"a command has no field {str(name)[:60]!r}.{hint}")
    verb = asked.get("verb")
    if not isinstance(verb, str) or verb not in VERBS:
        known = ", ".join(VERBS)
        raise Trouble("bad_request", f"the verb is one of {known}, not {str(verb)[:60]!r}")
    texts = {name: _text(asked, name) for name in ("path", "key", "type", "engine")}
    confirm = asked.get("confirm", False)
    if not isinstance(confirm, bool):
        raise Trouble("bad_request", "confirm is true or false")
    number, by = _number(asked.get("n"))
    command = Command(verb=verb, n=number, by=by, confirm=confirm, **texts)
    _complete(command)
    return command


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > 1000:
        raise Trouble("bad_request", f"{name} is a text of at most 1000 characters")
    return value


def _number(value: Any) -> tuple[int | None, bool]:
    if value is None:
        return None, False
    by = isinstance(value, str) and value[:1] in ("+", "-")
    if isinstance(value, str) and value.lstrip("+-").isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1_000_000:
        raise Trouble("bad_request", "n is a whole number, or a change such as '+2' or '-1'")
    if value < 0 and not by:
        raise Trouble("bad_request", "n must be 0 or more; write '-1' as a text for one less")
    return value, by


def _complete(command: Command) -> None:
    """Raise `Trouble` for a command without what its verb needs."""
    verb, about = command.verb, command.about
    if about in (About.CHILD, About.BREAKER) and not command.path:
        what = "the name of a breaker" if about is About.BREAKER else "a path"
        raise Trouble("bad_request", f"{verb} needs {what} in 'path'")
    if verb == "scale" and command.n is None:
        raise Trouble("bad_request", "scale needs the number of replicas in 'n'")
    if about is About.QUEUE and not command.type:
        raise Trouble("bad_request", f"{verb} needs the type of jobs in 'type'")
    if about is About.JOB and not command.key:
        raise Trouble("bad_request", f"{verb} needs the 'key' of a job")
    if verb == "retry" and command.n is not None and (command.by or not command.n):
        raise Trouble(
            "bad_request", "n is how often the job may still fail, from 1; it is no change"
        )
    if about is About.LETTER and not (command.key or command.path):
        raise Trouble("bad_request", f"{verb} needs a job's 'key', or a 'path' for dead letters")
    if verb in LOSES_WORK and not command.confirm:
        raise Trouble("conflict", f'{verb} loses work: say "confirm": true if it is meant')


def which(pattern: str, paths: Iterable[str]) -> list[str]:
    """The paths that a glob means, in their order, without the parts of a whole that matches.

    It may begin at any name of a path; `all` is every one.
    """
    pattern = "*" if pattern == "all" else pattern
    chosen: dict[str, None] = {}
    for path in paths:
        hit = fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")
        if hit and not any(above in chosen for above in _above(path)):
            chosen[path] = None
    return list(chosen)


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def is_glob(path: str) -> bool:
    """True if it may mean more than one thing by itself."""
    return path == "all" or any(sign in path for sign in "*?[")
