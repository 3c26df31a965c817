"""PoolMachine: operators, failures, messages and time on one tree, in any order and several in one instant.

Theory. Hypothesis makes a failing example small by taking out at most five neighbouring choices at a time, and three of them say that
there is one more step, and of which rule. So the simplest call of a rule should draw no more than two values, and then do nothing or
little: the steps that do not matter become such calls first, and can be taken out then.
"""

from __future__ import annotations

from typing import Any, ClassVar

import trio
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from supervision.branch import Branch
from supervision.testing.commands import Command, Verb, do
from supervision.testing.machine import precondition, rule
from supervision.testing.moment import members
from supervision.testing.strategies import STEP
from supervision.testing.tree_machine import TreeMachine

__all__ = ["PoolMachine"]

_ACTS = ("crash", "crash", Verb.TELL, Verb.TELL, Verb.STOP, Verb.RESTART, Verb.DISABLE)


class PoolMachine(TreeMachine):
    """All that can befall a tree.

    Synopsis::

        class Shop(PoolMachine):
            tree = my_tree  # or leave it out: trees are drawn


        TestShop = Shop.TestCase
    """

    messages: ClassVar[SearchStrategy[Any] | None] = None
    """What is told to its workers: numbers, each a new one, by default."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 1000  # each number a new object: a message is spoilt by identity

    def message(self, data: DataObject) -> Any:
        """The next one to tell."""
        self.told += 1
        drawn = type(self).messages
        return self.told if drawn is None else data.draw(drawn)

    # -- rules -----------------------------------------------------------------------------------

    @precondition(lambda self: self.live())
    @rule(data=st.data(), times=st.integers(0, 6), edge=st.booleans())
    def storm(self, data: DataObject, times: int, *, edge: bool) -> None:
        """A run fails, and so does each that follows it as soon as it has begun; the last perhaps at the edge of a window."""
        path = data.draw(st.sampled_from(self.live())) if times else ""
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
        for what, path, passes in data.draw(st.lists(act, max_size=6)):
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
    @rule(data=st.data(), replicas=st.integers(0, 3))
    def scale(self, data: DataObject, replicas: int) -> None:
        """An operator scales a worker."""
        names = sorted({path.rpartition("/")[0] for path in self.workers()})
        self.send(Command(0.0, Verb.SCALE, data.draw(st.sampled_from(names)), replicas))

    @precondition(lambda self: self.workers())
    @rule(
        data=st.data(),
        gaps=st.lists(st.integers(0, 3), max_size=6),
        spoilt=st.integers(0, 3),
    )
    def tell(self, data: DataObject, gaps: list[int], spoilt: int) -> None:
        """Messages come in one instant, some passes of the loop apart; an actor may fail at the first, perhaps again and again."""
        path = data.draw(st.sampled_from(self.workers())) if gaps else ""
        passes = 0
        for number, gap in enumerate(gaps):
            message, passes = self.message(data), passes + gap
            if spoilt and not number:
                self.sim.grips.spoil(message, spoilt)
            self.calls.append(self.sim.start(self._act, Verb.TELL, path, passes, message))

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
    @rule(data=st.data(), crash=st.booleans())
    def time_passes_to_an_edge(self, data: DataObject, *, crash: bool) -> None:
        """Time passes exactly to the edge of a window, or to just beside it; runs may crash right then."""
        whens = [edge + off for off in (0.0, 0.0, -STEP, STEP) for edge in self.edges()]
        self.advance_to(data.draw(st.sampled_from(whens)))
        if crash and self.live():
            self.grip(data.draw(st.sampled_from(self.live()))).crash()
