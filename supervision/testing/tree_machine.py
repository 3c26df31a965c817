"""TreeMachine: a tree, what befalls its runs, operators and time: what the machines over whole trees have in common.

Every worker of the tree is wrapped by `faulty`, so its own code runs, and fails when the machine says so.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from supervision.pool import Pool
from supervision.specs import AutoShutdown, Supervisor, Worker
from supervision.testing.commands import Command, Verb, do
from supervision.testing.faulty import Grip, faulty, idle
from supervision.testing.machine import TrioStateMachine, initialize, precondition, rule
from supervision.testing.moment import members
from supervision.testing.sim import Pending
from supervision.testing.strategies import durations, trees

__all__ = ["TreeMachine"]

_PLAIN = Supervisor("t", [Worker("w", idle)], auto_shutdown=AutoShutdown.NEVER)
_TREES = st.just(_PLAIN) | trees(max_depth=2)
_FATES = ("crash", "crash", "crash", "finish", "stop", "hang")
_HOW_MANY = (0, 1, 1, 1, 1, 2, 2, 2, 3, 3)


class TreeMachine(TrioStateMachine):
    """One tree, and what can befall any."""

    tree: ClassVar[Supervisor | None] = None
    """The tree to test; a drawn one by default."""
    options: ClassVar[dict[str, Any]] = {"stop_timeout": 8.0}
    """Of `serve`."""

    pool: Pool

    def __init__(self) -> None:
        super().__init__()
        self.spec: Supervisor = _PLAIN
        self.calls: list[Pending] = []

    @initialize(data=st.data())
    def declare(self, data: DataObject) -> None:
        """Start the tree."""
        self.spec = self.make(data)
        self.pool = self.sim.supervise(faulty(self.spec), **self.options)

    def make(self, data: DataObject) -> Supervisor:
        """The tree to start. Override it for one that has to be new each time."""
        return type(self).tree or data.draw(_TREES)

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

    def advance_to(self, when: float) -> None:
        """Let time pass until then."""
        self.sim.advance(max(0.0, when - self.sim.now))

    def send(self, command: Command) -> None:
        """Put a command in flight."""
        self.calls.append(self.sim.start(do, self.pool, command))

    # -- rules -----------------------------------------------------------------------------------

    @precondition(lambda self: self.live())
    @rule(data=st.data(), count=st.sampled_from(_HOW_MANY), fate=st.sampled_from(_FATES))
    def befall(self, data: DataObject, count: int, fate: str) -> None:
        """Something happens to some runs in one instant."""
        live = self.live()
        for _ in range(min(count, len(live))):
            path = live.pop(data.draw(st.integers(0, len(live) - 1)))
            getattr(self.grip(path), fate)()

    @precondition(lambda self: self.running and self.workers())
    @rule(
        data=st.data(),
        verb=st.sampled_from([Verb.STOP, Verb.RESTART, Verb.DISABLE, Verb.ENABLE]),
    )
    def operate(self, data: DataObject, verb: Verb) -> None:
        """An operator acts."""
        self.send(Command(0.0, verb, data.draw(st.sampled_from(self.workers()))))

    @rule(data=st.data())
    def time_passes(self, data: DataObject) -> None:
        """Time passes by what the tree speaks of, and what is just beside it."""
        self.sim.advance(data.draw(durations(self.spec)))

    @rule(n=st.integers(1, 3))
    def time_passes_to_a_timer(self, n: int) -> None:
        """Time passes exactly to the next timer, or a few of them."""
        self.sim.advance_to_next(n)

    @precondition(lambda self: self.running)
    @rule(how=st.sampled_from(["not yet", "not yet", "not yet", "asked", "ended"]))
    def shut_down(self, how: str) -> None:
        """The whole tree is asked to stop, or has the time to end too; not often, since nothing much happens after it.

        What shows only at the end would need all steps if only the last one led there, and never become small.
        """
        if how == "asked":
            self.pool.request_stop("the machine")
        elif how == "ended":
            self.end()

    def end(self) -> None:
        """Stop the tree, and give it the time that it takes; every call in flight has to come to its end with it."""
        self.pool.request_stop("the steps are over")
        self.sim.settle()
        for _ in range(1000):
            if not self.running:
                break
            self.sim.advance_to_next()
        assert not self.running, f"the tree does not stop: {self.sim.tasks()}"
        left = [call for call in self.calls if not call.done]
        assert not left, f"still waiting after the tree has ended: {left}"

    def finish(self) -> None:
        """The steps are over: the tree ends."""
        if hasattr(self, "pool"):
            self.end()
