"""View: everything that can be seen of a running tree, and waited for.

Floor: above health. The rule: looking changes nothing, costs the tree nothing, and goes on after its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import trio

from actors.deadletters import DeadLetters
from actors.errors import NoSuchActor
from actors.events import Subscription
from actors.options import nearest
from actors.ref import Ref
from actors.registry import Registry
from actors.routing import Router, Routing
from supervision import report
from supervision.branch import Branch
from supervision.errors import NotRunning
from supervision.events import StopReport
from supervision.health import Health, health
from supervision.member import Member
from supervision.report import Counts, Snapshot, SupervisorInfo, WorkerInfo
from supervision.specs import Worker
from supervision.states import Phase, State
from supervision.tree import Tree

if TYPE_CHECKING:
    from actors.resilience import Guards

__all__ = ["View"]


class View:
    """The looking half of a `Pool`."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    # -- looking ---------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Every replica now, in start order."""
        return report.worker_infos(self._tree)

    def supervisors(self) -> list[SupervisorInfo]:
        """Every supervisor now, parents first."""
        return report.supervisor_infos(self._tree)

    def info(self, path: str) -> WorkerInfo | SupervisorInfo:
        """One replica (of a worker, its first) or one supervisor now.

        Raises:
            NoSuchActor: nothing, or more than one thing, is meant.
        """
        return report.info(self._members(path)[0])

    def counts(self, path: str | None = None) -> Counts:
        """The direct children of a supervisor, of the root by default."""
        return report.counts(self._tree.root if path is None else self._branch(path))

    def snapshot(self) -> Snapshot:
        """The whole tree at this moment, frozen; `to_dict()` makes JSON of it."""
        return report.snapshot(self._tree)

    def health(self) -> Health:
        """Live, ready, started, and why not."""
        return health(self._tree)

    def events(self, size: int = 256) -> Subscription:
        """What happens from now on: `async for event in pool.events()`. Ends with the tree."""
        return self._tree.events.subscribe(size)

    @property
    def dead_letters(self) -> DeadLetters:
        """What could not be delivered or handled."""
        return self._tree.letters

    @property
    def registry(self) -> Registry:
        """Registered names and groups."""
        return self._tree.registry

    def dependencies(self) -> dict[str, Guards]:
        """The guards of every `Dependency` that the tree has called so far, by its name.

        To look at (`statistics()`), and to act on: open, close or isolate a breaker, resize a bulkhead.
        """
        shared = self._tree.office.shared.items()
        return {
            name: cast("Guards", guards) for (kind, name), guards in shared if kind == "dependency"
        }

    @property
    def seen_at(self) -> tuple[str, ...]:
        """Where its observer can be reached, such as `http://127.0.0.1:8023` and `unix:/run/app.sock`; empty without one."""
        return self._tree.seen_at

    @property
    def stop_report(self) -> StopReport | None:
        """How the stop of the tree went; None while it runs."""
        return self._tree.report

    # -- addresses -------------------------------------------------------------------------------

    def ref(self, name: str) -> Ref:
        """The address of a replica (by path), of a worker (over its replicas), or of a registered name.

        Raises:
            NoSuchActor: nothing, or more than one thing, is meant.
        """
        return self._tree.find(name)

    def router(
        self,
        name: str,
        routing: Routing | str = Routing.ROUND_ROBIN,
        *,
        key: Callable[[object], object] | None = None,
    ) -> Router:
        """One address over the replicas of a worker, with a routing of your choice."""
        branch, slot, _ = self._tree.locate(name)
        if slot is None or not isinstance(slot.spec, Worker):
            raise NoSuchActor(name, why=f"{name!r} is a supervisor, which takes no messages")
        return Router(f"{branch.path}/{slot.spec.name}", slot.refs, routing, key)

    # -- waiting ---------------------------------------------------------------------------------

    async def wait_ready(self) -> None:
        """Wait until the first start of the whole tree is complete (or the tree has ended).

        What failed its first start, and waits for another, does not hold it up; `health().ready` says whether all is ready.
        """
        await self._tree.ready.wait()

    async def wait_stopped(self) -> None:
        """Wait until the tree has ended."""
        await self._tree.done.wait()

    async def wait_state(
        self, path: str, *states: State | Phase | str
    ) -> WorkerInfo | SupervisorInfo:
        """Wait until what `path` means is in one of `states`; phases count too, `running` includes all of them.

        For a worker with replicas, until all are at once. Returns at once if so already.

        Raises:
            ValueError: there is no such state or phase.
            NotRunning: the tree has ended, so it will not be any more.
            NoSuchActor: it was removed or forgotten meanwhile.
        """
        wanted = {str(state) for state in states}
        for state in wanted.difference(State, Phase):
            hint = nearest(state, map(str, (*State, *Phase)))
            raise ValueError(f"there is no state or phase {state!r}.{hint}")
        members = self._members(path)

        def there(member: Member) -> bool:
            return str(member.state) in wanted or str(member.phase) in wanted

        await trio.lowlevel.checkpoint()
        while not all(map(there, members)):  # again: the first may have left it while the last came
            for member in members:
                while not there(member):
                    if self._tree.done.is_set():
                        raise NotRunning(member.path, "wait_state", f"is {member.state} for good")
                    if self._tree.locate(member.path)[2] is not member:
                        raise NoSuchActor(member.path, why=f"{member.path} was forgotten meanwhile")
                    await member.changed()
        return report.info(members[0])

    def _members(self, path: str) -> list[Member]:
        _, slot, member = self._tree.locate(path)
        if member is not None:
            return [member]
        if slot is None or not slot.members:
            raise NoSuchActor(path, why=f"{path!r} has no replicas now")
        return list(slot.members)

    def _branch(self, path: str) -> Branch:
        _, slot, member = self._tree.locate(path)
        if not isinstance(member, Branch):
            kind = "a worker" if slot is not None else "nothing"
            raise NoSuchActor(path, why=f"{path!r} is {kind}, not a supervisor")
        return member

    def __repr__(self) -> str:
        states = ", ".join(
            f"{count} {state}" for state, count in self.snapshot().counts.items() if count
        )
        return f"<Pool {self._tree.root.name}: {states or 'no workers'}>"
