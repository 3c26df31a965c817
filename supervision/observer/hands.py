"""Hands: carrying out a command, and saying in one sentence what came of it.

Floor: above verbs and queues. The rule: each action is an event with its author's name, told before it is carried out; of several targets
each succeeds or fails by itself, and the answer says which.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import trio

from actors.deadletters import DeadLetter
from actors.errors import NoSuchActor
from supervision import report
from supervision.child import Replica
from supervision.events import Asked
from supervision.observer import guards, onejob
from supervision.observer.messages import Trouble
from supervision.observer.pieces import one_line
from supervision.observer.queues import Queues
from supervision.observer.verbs import About, Command, is_glob, which
from supervision.pool import Pool
from supervision.tree import Tree

__all__ = ["Hands"]

PATIENCE: Final = 60.0
"""Seconds that an answer waits for an action to be complete; the action itself goes on."""


class Hands:
    """Does what somebody outside asks for."""

    def __init__(self, pool: Pool, tree: Tree, queues: Queues) -> None:
        self._pool = pool
        self._tree = tree
        self._queues = queues

    async def do(self, command: Command, who: str) -> dict[str, Any]:
        """Carry out `command` for `who`.

        Raises:
            Trouble: nothing is meant by it.
        """
        targets = self._targets(command)
        outcome = _Outcome(command)
        for target in targets:
            self._tree.emit(Asked, target, who=who, verb=command.verb)
        with trio.move_on_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for target in targets:
                    nursery.start_soon(outcome.of, target, self._action(command, target, who))
        return outcome.told(targets)

    # -- whom it is about ------------------------------------------------------------------------

    def _targets(self, command: Command) -> list[str]:
        about, path = command.about, command.path
        if about is About.TREE:
            return [self._tree.root.path]
        if about is About.QUEUE:
            self._queues.named(command.engine)
            return [command.type]
        if about in (About.JOB, About.LETTER) and command.key:
            self._queues.named(command.engine)
            return [command.key]
        if about is About.BREAKER:
            return self._breakers(path)
        if about is About.LETTER:
            return self._with_letters(path)
        if not is_glob(path):
            try:
                self._pool._members(path)
            except NoSuchActor as error:
                if not error.candidates and command.verb == "scale":
                    return [path]  # a worker without replicas now
                raise Trouble("not_found", str(error)) from None
            return [path]
        workers = command.verb == "scale"
        found = which(path, self._paths(workers_only=workers))
        if not found:
            raise Trouble("not_found", f"nothing in the tree matches {path!r}")
        return found

    def _paths(self, *, workers_only: bool) -> Iterable[str]:
        """Everything that a glob may mean: parents first, and workers before their replicas; not the root."""
        seen: dict[str, None] = {}
        for member in report.walk(self._tree.root):
            if isinstance(member, Replica):
                seen[member.path.rpartition("/")[0]] = None
                if workers_only:
                    continue
            elif workers_only:
                continue
            if member is not self._tree.root:
                seen[member.path] = None
        return seen

    def _breakers(self, pattern: str) -> list[str]:
        known = list(dict.fromkeys(each.name for each in guards.breakers(self._tree.office)))
        found = which(pattern, known)
        if not found:
            raise Trouble(
                "not_found",
                f"there is no breaker {pattern!r}; there are: {', '.join(known) or 'none'}",
            )
        return found

    def _with_letters(self, pattern: str) -> list[str]:
        paths = dict.fromkeys(letter.path for letter in self._tree.letters)
        found = [path for path in paths if path == pattern or path.startswith(f"{pattern}/")]
        found = found or which(pattern, paths)
        if not found:
            raise Trouble("not_found", f"there are no dead letters of {pattern!r}")
        return found

    # -- what is done ----------------------------------------------------------------------------

    def _action(self, command: Command, target: str, who: str) -> Callable[[], Awaitable[str]]:
        async def act() -> str:
            match command.about:
                case About.CHILD:
                    return await self._child(command, target)
                case About.BREAKER:
                    return await self._breaker(command, target, who)
                case About.QUEUE | About.JOB | About.LETTER as about:
                    if about is About.LETTER and not command.key:
                        return await self._dead_letters(command, target)
                    deed = self._queue if about is About.QUEUE else self._job
                    try:
                        return await deed(command, target)
                    finally:
                        self._queues.changed()
                case About.TREE:
                    await trio.lowlevel.checkpoint()
                    self._pool.request_stop(f"{who} asked for it")
                    return "is stopping"

        return act

    async def _child(self, command: Command, path: str) -> str:
        pool, verb = self._pool, command.verb
        if verb == "scale":
            assert command.n is not None
            n = max(0, self._replicas(path) + command.n) if command.by else command.n
            await pool.scale(path, n)
            return f"has {n} replicas"
        if verb == "drain":
            await pool.stop(path, drain=True)
            return "has handled what was queued, and is stopped"
        if verb == "reset":
            await trio.lowlevel.checkpoint()
            pool.reset(path)
            return "has its failures forgotten"
        done = {
            "start": (pool.start, "is running"),
            "stop": (pool.stop, "is stopped"),
            "restart": (pool.restart, "is running again"),
            "enable": (pool.enable, "is enabled and running"),
            "disable": (pool.disable, "is disabled"),
        }
        act, words = done[verb]
        await act(path)
        return words

    def _replicas(self, path: str) -> int:
        _, slot, _ = self._tree.locate(path)
        return 0 if slot is None else sum(not member.doomed for member in slot.members)

    async def _breaker(self, command: Command, name: str, who: str) -> str:
        await trio.lowlevel.checkpoint()
        return guards.by_hand(self._tree.office, name, command.verb, command.n, f"by {who}")

    async def _queue(self, command: Command, job_type: str) -> str:
        for engine in self._queues.named(command.engine):
            if command.verb == "pause":
                await engine.pause(job_type)
            elif command.verb == "resume":
                await engine.resume(job_type)
            else:
                await engine.limit(job_type, command.n)
        if command.verb == "limit":
            return "has no limit" if command.n is None else f"has a limit of {command.n}"
        return f"is {'paused' if command.verb == 'pause' else 'handed out again'}"

    async def _job(self, command: Command, key: str) -> str:
        aside = command.about is About.LETTER
        engine, job = await onejob.the_job(self._queues.named(command.engine), key, incident=aside)
        match command.verb:
            case "retry":
                return await onejob.retry(engine, job, command.n)
            case "cancel":
                return await onejob.cancel(engine, job)
            case "requeue":
                return await onejob.requeue(engine, job, command.n)
            case _:
                return await onejob.drop(engine, job)

    async def _dead_letters(self, command: Command, path: str) -> str:
        await trio.lowlevel.checkpoint()
        letters = self._tree.letters.take(lambda letter: letter.path == path)
        if command.verb == "drop":
            return f"has {_some(letters)} less"
        failed: Exception | None = None
        sent = 0
        for letter in letters:
            try:
                self._pool.ref(letter.path).tell_nowait(letter.message)
                sent += 1
            except Exception as error:
                self._tree.letters.put_back(letter)
                failed = error
        if failed is not None:
            raise RuntimeError(f"{sent} of {len(letters)} sent again, then: {one_line(failed)}")
        return f"was sent {_some(letters)} again"


class _Outcome:
    """What came of one command, target by target."""

    def __init__(self, command: Command) -> None:
        self._verb = command.verb
        self.done: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    async def of(self, target: str, act: Callable[[], Awaitable[str]]) -> None:
        try:
            self.done[target] = await act()
        except Exception as error:
            self.failed[target] = str(error) or type(error).__name__

    def told(self, targets: list[str]) -> dict[str, Any]:
        for target in targets:
            if target not in self.done and target not in self.failed:
                self.failed[target] = f"was asked to, and is not done after {PATIENCE:g} s"
        return {"said": self._sentence(targets), "done": list(self.done), "failed": self.failed}

    def _sentence(self, targets: list[str]) -> str:
        if len(targets) == 1:
            (target,) = targets
            if target in self.done:
                return f"{target} {self.done[target]}"
            return f"{self._verb} of {target} failed: {self.failed[target]}"
        said = f"{self._verb}: {len(self.done)} of {len(targets)} done"
        if self.failed:
            first = next(iter(self.failed))
            said += f", {len(self.failed)} failed; the first, {first}: {self.failed[first]}"
        return said


def _some(letters: list[DeadLetter]) -> str:
    return "1 dead letter" if len(letters) == 1 else f"{len(letters)} dead letters"
