"""PoolMachine: operators, failures and time on one tree, in any order and several in one instant.

Give it your own tree: every worker in it is wrapped by `faulty`, so its own code runs, and fails when the machine says so.
"""

from __future__ import annotations

from typing import Any, ClassVar

import trio
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from supervision.branch import Branch
from supervision.pool import Pool
from supervision.specs import AutoShutdown, Supervisor, Worker
from supervision.testing.commands import Command, Verb, do
from supervision.testing.faulty import Grip, faulty, idle
from supervision.testing.machine import TrioStateMachine, initialize, precondition, rule
from supervision.testing.moment import members
from supervision.testing.sim import Pending
from supervision.testing.strategies import STEP, durations, trees

__all__ = ["PoolMachine"]

_PLAIN = Supervisor("t", [Worker("w", idle)], auto_shutdown=AutoShutdown.NEVER)
_TREES = st.just(_PLAIN) | trees(max_depth=2)
_ACTS = ("crash", "crash", Verb.TELL, Verb.TELL, Verb.STOP, Verb.RESTART, Verb.DISABLE)
_FATES = ("crash", "crash", "crash", "finish", "stop", "hang")


class PoolMachine(TrioStateMachine):
    """All that can befall a tree.

    Synopsis::

        class Shop(PoolMachine):
            tree = my_tree  # or leave it out: trees are drawn


        TestShop = Shop.TestCase
    """

    tree: ClassVar[Supervisor | None] = None
    """The tree to test; a drawn one by default."""
    messages: ClassVar[SearchStrategy[Any] | None] = None
    """What is told to its workers: numbers, each a new one, by default."""
    options: ClassVar[dict[str, Any]] = {"stop_timeout": 8.0}
    """Of `serve`."""

    pool: Pool

    def __init__(self) -> None:
        super().__init__()
        self.spec: Supervisor = _PLAIN
        self.calls: list[Pending] = []
        self.told = 1000  # each number a new object: a message is spoilt by identity

    @initialize(data=st.data())
    def declare(self, data: DataObject) -> None:
        """Start the tree."""
        self.spec = type(self).tree or data.draw(_TREES)
        self.pool = self.sim.supervise(faulty(self.spec), **self.options)

    # -- what the rules use ----------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """True until the tree has ended."""
        return self.pool.stop_report is None

    def live(self) -> list[str]:
        """The paths of the runs that can be moved."""
        return sorted(self.sim.grips)

    def workers(self) -> list[str]:
        """The paths of all replicas."""
        return sorted(info.path for info in self.pool.workers())

    def grip(self, path: str) -> Grip:
        """The hold on a live run."""
        return self.sim.grips[path]

    def next_run(self, path: str) -> float | None:
        """When a replica that waits for its restart runs again."""
        member = members(self.sim.trace.trees[0]).get(path)
        return None if member is None else member.next_restart

    def message(self, data: DataObject) -> Any:
        """The next one to tell."""
        self.told += 1
        drawn = type(self).messages
        return self.told if drawn is None else data.draw(drawn)

    def advance_to(self, when: float) -> None:
        """Let time pass until then."""
        self.sim.advance(max(0.0, when - self.sim.now))

    def send(self, command: Command) -> None:
        """Put a command in flight."""
        self.calls.append(self.sim.start(do, self.pool, command))

    # -- rules -----------------------------------------------------------------------------------

    @precondition(lambda self: self.live())
    @rule(data=st.data(), fate=st.sampled_from(_FATES))
    def befall(self, data: DataObject, fate: str) -> None:
        """Something happens to some runs in one instant."""
        chosen = data.draw(st.sets(st.sampled_from(self.live()), min_size=1, max_size=3))
        for path in sorted(chosen):
            getattr(self.grip(path), fate)()

    @precondition(lambda self: self.live())
    @rule(data=st.data(), times=st.integers(2, 6), edge=st.booleans())
    def storm(self, data: DataObject, times: int, *, edge: bool) -> None:
        """A run fails, and so does each that follows it as soon as it has begun; the last perhaps at the edge of a window."""
        path = data.draw(st.sampled_from(self.live()))
        for number in range(1, times + 1):
            due = self.next_run(path)
            if path not in self.sim.grips and due is not None:
                self.advance_to(due)
            if number == times and edge and self.edges():
                self.advance_to(data.draw(st.sampled_from(self.edges())))
            if path not in self.sim.grips:
                return
            self.grip(path).crash()
            self.sim.settle()

    @precondition(lambda self: self.running and self.workers())
    @rule(data=st.data())
    def all_at_once(self, data: DataObject) -> None:
        """Crashes, messages and operators meet in one instant, each some passes of the loop after the others."""
        act = st.tuples(st.sampled_from(_ACTS), st.sampled_from(self.workers()), st.integers(0, 3))
        for what, path, passes in data.draw(st.lists(act, min_size=2, max_size=4)):
            message = self.message(data) if what is Verb.TELL else None
            self.calls.append(self.sim.start(self._act, what, path, passes, message))

    async def _act(self, what: str, path: str, passes: int, message: Any) -> None:
        for _ in range(passes):
            await trio.lowlevel.checkpoint()
        if what != "crash":
            await do(self.pool, Command(0.0, Verb(what), path, message=message))
        elif path in self.sim.grips:
            self.grip(path).crash()

    @precondition(lambda self: self.running and self.workers())
    @rule(
        data=st.data(),
        verb=st.sampled_from([Verb.STOP, Verb.RESTART, Verb.DISABLE, Verb.ENABLE]),
    )
    def operate(self, data: DataObject, verb: Verb) -> None:
        """An operator acts."""
        self.send(Command(0.0, verb, data.draw(st.sampled_from(self.workers()))))

    @precondition(lambda self: self.running and self.workers())
    @rule(data=st.data(), replicas=st.integers(0, 3))
    def scale(self, data: DataObject, replicas: int) -> None:
        """An operator scales a worker."""
        names = sorted({path.rpartition("/")[0] for path in self.workers()})
        self.send(Command(0.0, Verb.SCALE, data.draw(st.sampled_from(names)), replicas))

    @precondition(lambda self: self.workers())
    @rule(
        data=st.data(),
        gaps=st.lists(st.integers(0, 3), min_size=1, max_size=4),
        spoilt=st.integers(0, 3),
    )
    def tell(self, data: DataObject, gaps: list[int], spoilt: int) -> None:
        """Messages come in one instant, some passes of the loop apart; an actor may fail at the first, perhaps again and again."""
        path, passes = data.draw(st.sampled_from(self.workers())), 0
        for number, gap in enumerate(gaps):
            message, passes = self.message(data), passes + gap
            if spoilt and not number:
                self.sim.grips.spoil(message, spoilt)
            self.calls.append(self.sim.start(self._act, Verb.TELL, path, passes, message))

    @rule(data=st.data())
    def time_passes(self, data: DataObject) -> None:
        """Time passes by what the tree speaks of, and what is just beside it."""
        self.sim.advance(data.draw(durations(self.spec)))

    @rule(n=st.integers(1, 3))
    def time_passes_to_a_timer(self, n: int) -> None:
        """Time passes exactly to the next timer, or a few of them."""
        self.sim.advance_to_next(n)

    def edges(self) -> list[float]:
        """The next times at which something leaves a window, or a count of failures is cleared."""
        now, found = self.sim.now, set[float]()
        for member in members(self.sim.trace.trees[0]).values():
            if isinstance(member, Branch):
                found.update(stamp + member.budget.period for stamp in member.budget.stamps())
            if member.ready_at is not None and member.alive:
                found.add(member.ready_at + member.spec.restart.reset_after)
        return sorted(edge for edge in found if edge > now)

    @precondition(lambda self: self.edges())
    @rule(data=st.data(), off=st.sampled_from([0.0, 0.0, -STEP, STEP]), crash=st.booleans())
    def time_passes_to_an_edge(self, data: DataObject, off: float, *, crash: bool) -> None:
        """Time passes exactly to the edge of a window, or to just beside it; runs may crash right then."""
        edge = data.draw(st.sampled_from(self.edges()))
        self.advance_to(edge + off)
        if crash and self.live():
            self.grip(data.draw(st.sampled_from(self.live()))).crash()

    @precondition(lambda self: self.running)
    @rule(sure=st.sampled_from([False, False, False, True]))
    def shut_down(self, *, sure: bool) -> None:
        """The whole tree is asked to stop; not often, since nothing much happens after it."""
        if sure:
            self.pool.request_stop("the machine")

    def finish(self) -> None:
        """Stop the tree; every call in flight has to come to its end with it."""
        if not hasattr(self, "pool"):
            return
        self.pool.request_stop("the steps are over")
        self.sim.settle()
        for _ in range(1000):
            if not self.running:
                break
            self.sim.advance_to_next()
        assert not self.running, f"the tree does not stop: {self.sim.tasks()}"
        left = [call for call in self.calls if not call.done]
        assert not left, f"still waiting after the tree has ended: {left}"
