"""Ledger: what the job workers of a tree and one engine said to each other.

Theory. Events tell what a worker reported. Whether it told the engine the same, once, and of jobs that were its own to tell of, only
their conversation shows. So the engine's `exchange` and `transact` are listened to while a tree lives in a simulation. What is wrong
whatever follows becomes a fault at once; the rest is for `one_outcome_each`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from actors.jobs.outcomes import label
from supervision.specs import Spec, Supervisor, Worker

if TYPE_CHECKING:
    from actors.jobs.engine import Claim, Engine, Exchange, Settlement
    from actors.jobs.job import Lease

__all__ = ["Asked", "Held", "Ledger", "engines"]

_FINAL: Final = ("completed", "errored")


@attrs.define
class Held:
    """One lease, from when it was handed out."""

    key: str
    path: str
    """Of the replica that has it; empty if it is none of this tree."""
    run: int
    told: str | None = None
    """The outcome that the engine accepted, or `superseded` if it refused one; None while it knows of none."""
    wrote: bool = False
    """True if a transaction of its own completed it."""


@attrs.frozen
class Asked:
    """A worker asked for jobs, or told outcomes."""

    path: str
    run: int
    time: float
    number: int
    """How many events there were before."""
    claims: bool


class Ledger:
    """Listens to one engine until it is closed.

    Args:
        engine: which; its methods are wrapped in place.
        mark: returns the time and the number of events so far.
        ours: whether a path belongs to the tree.
    """

    def __init__(
        self,
        engine: Engine,
        mark: Callable[[], tuple[float, int]],
        ours: Callable[[str], bool],
    ) -> None:
        self.leases: dict[Lease, Held] = {}
        """All that were handed out."""
        self.asked: list[Asked] = []
        self.poisoned: Counter[str] = Counter()
        """Keys set aside in place of being handed out to this tree."""
        self.troubled = False
        """True once the engine failed, or did not answer: what it was told then may be known to it or not."""
        self.faults: list[str] = []
        self._engine: Any = engine
        self._own: dict[str, Any] = vars(engine)
        self._mark = mark
        self._ours = ours
        self._newest: dict[str, Lease] = {}
        self._final: dict[str, str] = {}
        self._exchange, self._transact = engine.exchange, engine.transact
        self._before: dict[str, Any] = {
            name: self._own.get(name) for name in ("exchange", "transact")
        }
        self._own.update(exchange=self.exchange, transact=self.transact)

    def close(self) -> None:
        """Listen no more."""
        for name, before in self._before.items():
            if before is None:
                self._own.pop(name, None)
            else:
                self._own[name] = before

    # -- what is said ----------------------------------------------------------------------------

    async def exchange(
        self, settlements: Sequence[Settlement] = (), claim: Claim | None = None
    ) -> Exchange:
        """The engine's own, listened to."""
        for one in settlements:
            self._tells(one)
        if claim is not None:
            self._note(claim.worker, claims=True)
        try:
            found = await self._exchange(settlements, claim)
        except BaseException:
            self.troubled = True
            raise
        for one in settlements:
            self._answered(one, refused=one.lease in found.refused)
        if claim is not None:
            self._gave(found, claim)
        return found

    async def transact(self, lease: Lease, fn: Callable[..., Any], *args: object) -> Any:
        """The engine's own, listened to."""
        try:
            result = await self._transact(lease, fn, *args)
        except BaseException:
            self.troubled = True
            raise
        held = self.leases.get(lease)
        if held is not None:
            held.wrote = True
            self._accepted(lease, held, "completed")
        return result

    def _tells(self, one: Settlement) -> None:
        word, held = label(one.outcome), self.leases.get(one.lease)
        if held is None:
            return  # of a time before this tree, or of somebody else
        if held.told is not None and held.path:
            self.faults.append(
                f"{held.path} tells that job {held.key} is {word}, and the engine knows it as {held.told} already"
            )
        self._note(f"{held.path}#{held.run}.", claims=False)

    def _answered(self, one: Settlement, *, refused: bool) -> None:
        held = self.leases.get(one.lease)
        if held is None:
            return
        if refused:
            held.told = held.told or "superseded"
        else:
            self._accepted(one.lease, held, label(one.outcome))

    def _accepted(self, lease: Lease, held: Held, word: str) -> None:
        held.told = word
        if self._newest.get(held.key) != lease:
            self.faults.append(
                f"job {held.key} is {word} by {held.path or 'somebody'}, whose lease is not the newest: somebody else has the job"
            )
        if word in _FINAL:
            self._final[held.key] = word

    def _gave(self, found: Exchange, claim: Claim) -> None:
        path, run = _who(claim.worker)
        mine = path if self._ours(path) else ""
        for job in found.jobs:
            ended = self._final.get(job.key)
            if ended is not None:
                self.faults.append(f"job {job.key} is {ended}, and was handed out again to {path}")
            self.leases[job.lease] = Held(job.key, mine, run)
            self._newest[job.key] = job.lease
        if mine:
            self.poisoned.update(poison.key for poison in found.poisoned)

    def _note(self, worker: str, *, claims: bool) -> None:
        path, run = _who(worker)
        if self._ours(path):
            self.asked.append(Asked(path, run, *self._mark(), claims))

    def __repr__(self) -> str:
        return f"<Ledger of {self._engine!r}: {len(self.leases)} leases>"


def _who(worker: str) -> tuple[str, int]:
    """The path and the run that a worker's name begins with."""
    path, _, rest = worker.rpartition("#")
    run = rest.partition(".")[0]
    return path, int(run) if run.isdecimal() else 0


def engines(spec: Spec) -> Iterator[Engine]:
    """Those of the job workers in a declaration."""
    jobs = sys.modules.get("actors.jobs.worker")
    if jobs is None:
        return  # there can be none
    for _, child in spec.walk() if isinstance(spec, Supervisor) else [("", spec)]:
        run: Any = child.run if isinstance(child, Worker) else None
        while run is not None and not isinstance(run, jobs.JobWorker):
            run = getattr(run, "__wrapped__", None)
        if run is not None and run.engine is not None:
            yield run.engine
