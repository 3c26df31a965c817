"""Names and groups.

Floor: above ref. The rule: the owner's end removes its names, not the owner's code; they are free before
anybody is told that it is down.
"""

from __future__ import annotations

from actors.errors import NameTaken
from actors.records import Record, record
from actors.ref import ActorRef

__all__ = ["Registry", "RegistryStatistics"]


@record
class RegistryStatistics(Record):
    """Counts of one registry."""

    names: int
    """Names held now."""
    groups: int
    """Groups with at least one member."""
    memberships: int
    """Members, summed over the groups; joining twice counts twice."""


class Registry:
    """The names and groups of a tree. A run takes them with `ctx.register()` and `ctx.join()`."""

    __slots__ = ("_groups", "_held", "_joins", "_names")

    def __init__(self) -> None:
        self._names: dict[str, ActorRef] = {}
        # By the number of the join, so that a member of a large group leaves at the price of one of a small group.
        self._groups: dict[str, dict[int, ActorRef]] = {}
        self._joins = 0
        # owner -> its names, and its joins: group and number
        self._held: dict[ActorRef, tuple[list[str], list[tuple[str, int]]]] = {}

    def register(self, name: str, owner: ActorRef) -> None:
        """Give `name` to `owner`. Taking one's own name again changes nothing.

        Raises:
            NameTaken: somebody else has it.
        """
        if not name or "/" in name:
            raise ValueError(f"a registered name is not empty and has no '/', unlike {name!r}")
        holder = self._names.get(name)
        if holder is not None and holder != owner:
            raise NameTaken(name, owner=holder.path)
        if holder is None:
            self._names[name] = owner
            self._holdings(owner)[0].append(name)

    def unregister(self, name: str, owner: ActorRef) -> bool:
        """Give `name` back; False if `owner` did not have it."""
        if self._names.get(name) != owner:
            return False
        del self._names[name]
        self._holdings(owner)[0].remove(name)
        self._tidy(owner)
        return True

    def join(self, group: str, member: ActorRef) -> None:
        """Add `member` to `group`; each join needs its own leave."""
        self._joins += 1
        self._groups.setdefault(group, {})[self._joins] = member
        self._holdings(member)[1].append((group, self._joins))

    def leave(self, group: str, member: ActorRef) -> bool:
        """Undo one join; False if there was none."""
        held = self._held.get(member)
        join = next((each for each in held[1] if each[0] == group), None) if held else None
        if held is None or join is None:
            return False
        held[1].remove(join)
        self._drop(join)
        self._tidy(member)
        return True

    def release(self, owner: ActorRef) -> None:
        """Free all that `owner` holds: its run has ended."""
        held = self._held.pop(owner, None)
        if held is None:
            return
        for name in held[0]:
            del self._names[name]
        for join in held[1]:
            self._drop(join)

    def whereis(self, name: str) -> ActorRef | None:
        """Who has `name` now, or None."""
        return self._names.get(name)

    def members(self, group: str) -> tuple[ActorRef, ...]:
        """The members of `group`, in order of joining."""
        return tuple(self._groups.get(group, {}).values())

    def names(self) -> dict[str, str]:
        """Every name and the path of its owner."""
        return {name: owner.path for name, owner in self._names.items()}

    def statistics(self) -> RegistryStatistics:
        """Counts now."""
        return RegistryStatistics(
            names=len(self._names),
            groups=len(self._groups),
            memberships=sum(map(len, self._groups.values())),
        )

    def __bool__(self) -> bool:
        return bool(self._held)

    def _drop(self, join: tuple[str, int]) -> None:
        group, number = join
        members = self._groups[group]
        del members[number]
        if not members:
            del self._groups[group]

    def _holdings(self, owner: ActorRef) -> tuple[list[str], list[tuple[str, int]]]:
        return self._held.setdefault(owner, ([], []))

    def _tidy(self, owner: ActorRef) -> None:
        if owner in self._held and not any(self._held[owner]):
            del self._held[owner]

    def __repr__(self) -> str:
        return f"<Registry {len(self._names)} names, {len(self._groups)} groups>"
