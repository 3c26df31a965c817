"""Watching every change of state, wherever in the library it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from supervision.member import Member
from supervision.states import TRANSITIONS


class _Watched:
    """Stands in for the slot `Member.state` and notes what the table does not allow."""

    def __init__(self, slot: Any, illegal: list[str]) -> None:
        self.slot = slot
        self.illegal = illegal

    def __get__(self, member: Any, kind: type | None = None) -> Any:
        return self if member is None else self.slot.__get__(member, kind)

    def __set__(self, member: Any, new: Any) -> None:
        try:
            old = self.slot.__get__(member)
        except AttributeError:
            old = new  # it is being made
        if new is not old and new not in TRANSITIONS[old]:
            self.illegal.append(f"{member.path}: {old} to {new}")
        self.slot.__set__(member, new)


@contextmanager
def watched_states() -> Iterator[list[str]]:
    """Inside, every change of state that the table lacks is added to the list."""
    slot = Member.__dict__["state"]
    illegal: list[str] = []
    Member.state = _Watched(slot, illegal)  # type: ignore[assignment]
    try:
        yield illegal
    finally:
        Member.state = slot
