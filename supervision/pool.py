"""Pool: the handle on a running tree: look, find, start, stop, restart, scale, wait.

Floor: above view. The rule: what an operator asks is decided in one synchronous step, then waited for; asking what cannot
be done in the present state is an error that says what can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs
import trio

from actors.errors import NoSuchActor, WouldWaitForItself
from actors.ref import ActorRef, Ref, running
from supervision.branch import Branch
from supervision.child import Replica
from supervision.errors import (
    AlreadyPresent,
    IllegalTransition,
    NotRunning,
    StartFailed,
    TooManyChildren,
)
from supervision.events import Changed, StopReport
from supervision.member import BY_ITSELF, Member
from supervision.report import walk
from supervision.restart import Budget
from supervision.slot import Slot
from supervision.specs import Spec, Worker, check_child, check_makeable, check_runnable
from supervision.states import Phase, State
from supervision.view import View

__all__ = ["Pool"]

_DOWN: Final = (State.PENDING, State.STOPPED, State.FAILED, State.DISABLED)


class Pool(View):
    """What `serve` hands out. Valid after the tree's end too: looking goes on, changing raises `NotRunning`.

    Wherever a path is expected, the bare name of a worker or supervisor will do if only one has it. The path of a worker with
    replicas means all of them.
    """

    __slots__ = ()

    # -- the whole tree --------------------------------------------------------------------------

    def request_stop(self, why: str = "asked by the program") -> None:
        """Begin the ordered stop of the tree and do not wait. Asking again changes nothing. Any thread may."""
        self._tree.call(self._tree.request_stop, why)

    async def shutdown(self, why: str = "asked by the program") -> StopReport:
        """Stop the tree in order and wait for its end; late callers wait for the same end.

        Raises:
            WouldWaitForItself: called from inside the tree; use `request_stop`.
        """
        self._refuse_own(self._tree.root.path, "shutdown")
        self._tree.request_stop(why)
        await self._tree.done.wait()
        assert self._tree.report is not None
        return self._tree.report

    def cancel(self, why: str = "cancelled by the program") -> None:
        """Cancel everything that runs, at once: what a second signal does. Any thread may."""
        self._tree.call(self._tree.force, why)

    # -- one child -------------------------------------------------------------------------------

    async def start_child(self, parent: str, spec: Spec) -> Ref | None:
        """Add a child to a running supervisor, start it, wait until it is ready; returns its address.

        If its first run fails before that, the child is discarded. If the caller is cancelled, it is stopped and discarded.

        Raises:
            StartFailed: its first run failed; that error is the cause.
            AlreadyPresent: a child of that name exists.
            TooManyChildren: `max_children` is reached, those waiting for a restart included.
            SpecError: it may not be a child here.
            NotRunning: the supervisor, or the tree, is not running.
        """
        branch = self._running_branch(parent, "start_child")
        check_child(spec, branch.spec)
        check_runnable(spec)
        if self._tree.builder is None:
            check_makeable(spec)
        path = f"{branch.path}/{spec.name}"
        present = branch.slots.get(spec.name)
        if present is not None:
            first = present.members[0] if present.members else None
            raise AlreadyPresent(
                path, first.state if first else State.STOPPED, self._address(present)
            )
        limit = branch.spec.max_children
        if limit is not None and len(branch.slots) >= limit:
            raise TooManyChildren(branch.path, limit)
        slot = branch.add(spec)
        self._tree.slot_added(branch, slot)
        self._tree.emit(Changed, path, what="was added")
        if not spec.enabled:
            await trio.lowlevel.checkpoint()
            return self._address(slot)
        try:
            await self._try_start(branch, list(slot.members), discard=True)
        except trio.Cancelled:
            for member in list(slot.members):
                self._let_go(branch, member, doomed=True)
            raise
        return self._address(slot)

    async def start(self, path: str) -> None:
        """Start what is stopped, failed or disabled-then-enabled, and wait until it is ready.

        Raises:
            StartFailed: its run failed before that; it stays down, its supervisor is not disturbed.
            IllegalTransition: it is running, restarting or disabled.
        """
        branch, members = self._targets(path, "start")
        for member in members:
            if member.state is State.DISABLED:
                raise IllegalTransition(member.path, member.state, "running", "Enable it first.")
            if member.state not in _DOWN:
                raise IllegalTransition(member.path, member.state, "running", "It needs no start.")
        await self._try_start(branch, members, discard=False)

    async def stop(self, path: str, *, drain: bool = False) -> None:
        """Stop it in order and wait; nothing starts it again by itself. Of a stopped one, nothing happens.

        With `drain` it takes no more messages and handles those that are queued first, within its stop deadline.
        A child added at run time is forgotten as well if it is temporary or its supervisor is dynamic.

        Raises:
            WouldWaitForItself: called from inside what is to stop; use `ctx.stop()`.
        """
        self._refuse_own(path, "stop")
        if self._tree.final:
            await self._until_down(self._members(path))  # it stops with all the others already
            return
        branch, members = self._targets(path, "stop")
        for replica in (each for member in members for each in walk(member)):
            if isinstance(replica, Replica):
                replica.drains = drain
        for member in reversed(members):
            self._let_go(branch, member, doomed=branch.forgets(member))
        await self._until_down(members)

    async def restart(self, path: str) -> None:
        """Stop it in order and start it again, or, if it waits for a restart, start it now. Counts against no limit.

        Raises:
            IllegalTransition: it is disabled.
            StartFailed: the new run failed before it was ready; its supervisor goes on as after any failure.
            NotRunning: somebody stopped it, or the tree, meanwhile, or is about to remove it.
        """
        branch, members = self._targets(path, "restart")
        self._refuse_own(path, "restart")
        members = [member for member in members if not member.doomed]
        if not members:
            raise NotRunning(path, "restart", "is being removed")
        runs = {member: member.run for member in members}
        for member in members:
            if member.state is State.DISABLED:
                raise IllegalTransition(member.path, member.state, "running", "Enable it first.")
        for member in members:
            member.wanted = True
            if member.alive:
                member.ask("an operator restarts it")
            else:
                member.halt()
                member.forgive()
                member.start()
        for member in members:
            while member.run == runs[member] or member.phase is Phase.STARTING:
                if branch.closing or not member.wanted:
                    raise NotRunning(member.path, "restart", "was stopped meanwhile")
                await member.changed()
                if member.run > runs[member] and not member.alive and member.ready_at is None:
                    if member.cause is not None:
                        raise NotRunning(member.path, "restart", "was stopped meanwhile")
                    raise StartFailed(member.path, member.error)

    async def remove(self, path: str) -> None:
        """Forget a child that is down, and free its name.

        Raises:
            IllegalTransition: it is running or restarting; stop it first.
        """
        await trio.lowlevel.checkpoint()
        branch, slot, _ = self._tree.locate(path)
        if slot is not None and not slot.members:  # a worker that was scaled to none
            self._running_branch(branch.path, "remove")
            del branch.slots[slot.spec.name]
            self._tree.slot_removed(branch, slot.spec.name)
            self._tree.emit(Changed, f"{branch.path}/{slot.spec.name}", what="was removed")
            return
        branch, members = self._targets(path, "remove")
        for member in members:
            if member.state not in _DOWN:
                raise IllegalTransition(member.path, member.state, "removed", "Stop it first.")
        for member in members:
            member.doomed = True
            member.wanted = False  # a plan under way may have been about to start it
            member.halt()
            member.retire("removed")
            branch.forget(member)
            self._tree.emit(Changed, member.path, what="was removed")

    async def scale(self, path: str, replicas: int) -> None:
        """Change the number of replicas of a worker; waits for new ones to be ready and for old ones to stop.

        The ones with the highest numbers go first. New ones of a worker that is disabled are disabled too. One that fails before it
        is ready is not waited for: that is a failure like any other, after which it may be restarted.
        """
        branch, slot, _ = self._tree.locate(path)
        self._running_branch(branch.path, "scale")
        if slot is None or not isinstance(slot.spec, Worker):
            raise NoSuchActor(path, why=f"{path!r} is a supervisor; only workers have replicas")
        spec = attrs.evolve(slot.spec, replicas=replicas)
        present = [member for member in slot.members if not member.doomed]
        surplus = present[replicas:]
        for member in surplus:
            self._refuse_own(member.path, "scale")
        slot.spec = spec
        added = branch.grow(slot, max(0, replicas - len(present)))
        if present and all(member.state is State.DISABLED for member in present):
            for member in added:
                member.wanted = False
                member.become(State.DISABLED)
                member.retire("disabled")
        elif present:  # it runs, also if it was declared disabled
            for member in added:
                member.wanted = True
                member.become(State.PENDING)
        self._tree.emit(
            Changed, f"{branch.path}/{slot.spec.name}", what=f"was scaled to {replicas}"
        )
        for member in reversed(surplus):
            self._let_go(branch, member, doomed=True)
        wanted = [member for member in added if member.wanted]
        for member in wanted:
            member.start()
        for member in wanted:
            while member.alive and member.phase is Phase.STARTING:
                await member.changed()
        await self._until_down(surplus)

    async def disable(self, path: str) -> None:
        """Stop it and keep it from being started, also by a restart of its group, until it is enabled."""
        branch, members = self._targets(path, "disable")
        self._refuse_own(path, "disable")
        while True:  # until nobody has started it again meanwhile
            for member in reversed(members):
                self._let_go(branch, member)
            await self._until_down(members)
            if not any(member.alive or member.wanted for member in members):
                break
        self._require_tree("disable")
        for member in members:
            if member.state is not State.DISABLED:
                member.become(State.DISABLED)
                member.retire("disabled")
                self._tree.emit(Changed, member.path, what="was disabled")

    def reset(self, path: str) -> None:
        """Forget its failures so far: its limit, and the one of a supervisor, count from none again. Changes no state."""
        _, members = self._targets(path, "reset")
        for member in members:
            member.failures = 0
            if isinstance(member, Branch):
                member.budget = Budget(member.spec.intensity, member.spec.period)
            self._tree.emit(Changed, member.path, what="has its failures forgotten")

    async def enable(self, path: str) -> None:
        """Undo `disable`, and start it.

        Raises:
            IllegalTransition: it is not disabled.
        """
        branch, members = self._targets(path, "enable")
        for member in members:
            if member.state is not State.DISABLED:
                raise IllegalTransition(member.path, member.state, "enabled", "It is not disabled.")
        for member in members:
            member.become(State.STOPPED)
            self._tree.emit(Changed, member.path, what="was enabled")
        await self._try_start(branch, members, discard=False)

    # -- how -------------------------------------------------------------------------------------

    async def _try_start(self, branch: Branch, members: list[Member], *, discard: bool) -> None:
        for member in members:
            member.forgive()
            member.wanted = True
            member.on_trial = True
            member.start()
        failed: Member | None = None
        try:
            await trio.lowlevel.checkpoint()
            for member in members:
                # Its group may restart meanwhile, and it with it: that is not the end of its first run yet.
                while (
                    member.on_trial
                    and member.wanted
                    and member.ready_at is None
                    and not branch.closing
                ):
                    await member.changed()
                if member.on_trial and member.state is State.FAILED:
                    failed = failed or member
        finally:
            for member in members:
                member.on_trial = False
        if failed is not None:
            error = failed.error
            if discard:
                for member in members:
                    self._let_go(branch, member, doomed=True)
            raise StartFailed(failed.path, error)
        for member in members:
            asked = member.cause is not None and member.cause != BY_ITSELF
            if asked and member.ready_at is None:
                raise NotRunning(member.path, "start", "was stopped before it was ready")

    def _let_go(self, branch: Branch, member: Member, *, doomed: bool = False) -> None:
        member.wanted = False
        member.doomed = member.doomed or doomed
        if member.alive:
            member.ask("an operator stops it")
            return
        member.halt()
        if member.state is State.FAILED:
            member.become(State.STOPPED)
        if member.state is not State.DISABLED:
            member.retire("stopped")
        if doomed:
            branch.forget(member)
        branch.settled(member)

    async def _until_down(self, members: Iterable[Member]) -> None:
        runs = [(member, member.run) for member in members]
        await trio.lowlevel.checkpoint()
        for member, run in runs:
            while member.alive and member.run == run:
                await member.changed()

    def _address(self, slot: Slot) -> Ref | None:
        if not isinstance(slot.spec, Worker) or not slot.members:
            return None
        first = slot.members[0]
        assert isinstance(first, Replica)
        if len(slot.members) == 1:
            return ActorRef(first.mailbox)
        return slot.address(first.path.rpartition("/")[0])

    def _targets(self, path: str, verb: str) -> tuple[Branch, list[Member]]:
        branch, _, member = self._tree.locate(path)
        self._require_tree(verb)
        if member is self._tree.root:
            why = "is the root, which only shutdown() or request_stop() can end"
            raise NotRunning(path, verb, why)
        if not branch.alive or branch.closing:
            raise NotRunning(branch.path, verb)
        return branch, self._members(path)

    def _running_branch(self, path: str, verb: str) -> Branch:
        self._require_tree(verb)
        branch = self._branch(path)
        if not branch.alive or branch.closing:
            raise NotRunning(branch.path, verb)
        return branch

    def _require_tree(self, verb: str) -> None:
        if self._tree.done.is_set():
            raise NotRunning(self._tree.root.path, verb, "has ended")
        if self._tree.final:
            raise NotRunning(self._tree.root.path, verb, "is stopping")

    def _refuse_own(self, path: str, verb: str) -> None:
        me: Any = running.get()
        if me is None or me.mailbox.office is not self._tree.office or not me.alive:
            return
        mine: str = me.path
        if path == self._tree.root.path or any(
            mine == m.path or mine.startswith(f"{m.path}/") for m in self._members(path)
        ):
            raise WouldWaitForItself(mine, verb)
