"""BackoffMachine: one worker that fails when the machine says so, and the exact times at which it has to run again."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from supervision.pool import Pool
from supervision.report import WorkerInfo
from supervision.restart import RestartPolicy
from supervision.specs import OnFailed, Supervisor, Worker
from supervision.testing.faulty import faulty, idle
from supervision.testing.machine import TrioStateMachine, initialize, invariant, precondition, rule
from supervision.testing.moment import GRAIN

__all__ = ["BackoffMachine"]

_POLICIES = st.builds(
    RestartPolicy,
    max_restarts=st.integers(1, 5),
    initial_backoff=st.sampled_from([0.0, 0.5, 1.0]),
    factor=st.sampled_from([1.0, 2.0, 3.0]),
    max_backoff=st.sampled_from([1.0, 4.0, 30.0]),
    reset_after=st.sampled_from([0.5, 2.0, 8.0]),
    jitter=st.sampled_from([0.0, 0.0, 0.25]),
)


class BackoffMachine(TrioStateMachine):
    """A model of one worker's restarts: which failure in a row this is, how long the wait may be, when it begins again."""

    policies: ClassVar[SearchStrategy[RestartPolicy]] = _POLICIES
    """What is drawn; a subclass may say `just(my_policy)`."""
    worker: ClassVar[Worker] = Worker("w", idle)
    """Whose runs fail; its own policy is replaced."""

    pool: Pool

    def __init__(self) -> None:
        super().__init__()
        self.policy = RestartPolicy()
        self.failures = 0
        self.began = 0.0
        self.gone = False
        """True once the limit is used up."""

    @initialize(data=st.data())
    def declare(self, data: DataObject) -> None:
        """Start the tree."""
        self.policy = policy = data.draw(self.policies)
        self.worker_now = Worker(
            self.worker.name, self.worker.run, restart=policy, on_failed=OnFailed.HOLD
        )
        self.pool = self.sim.supervise(Supervisor("t", [faulty(self.worker_now)]))
        self.began = self.sim.now

    def info(self) -> WorkerInfo:
        """The worker now."""
        found = self.pool.info(self.worker_now.name)
        assert isinstance(found, WorkerInfo)
        return found

    def bounds(self) -> tuple[float, float]:
        """The shortest and the longest wait that the policy allows now."""
        policy = self.policy
        plain = policy.initial_backoff * policy.factor ** (self.failures - 1)
        plain = min(plain, policy.max_backoff / (1 + policy.jitter))
        return plain * (1 - policy.jitter), plain * (1 + policy.jitter)

    @precondition(lambda self: self.sim.grips)
    @rule()
    def crash(self) -> None:
        """Its run fails."""
        lasted = self.sim.now - self.began
        if lasted >= self.policy.reset_after:
            self.failures = 0
        self.failures += 1
        for grip in list(self.sim.grips.values()):
            grip.crash()
        self.sim.settle()
        info = self.info()
        if 0 < self.policy.max_restarts < self.failures:
            self.gone = True
            assert info.state == "failed", f"failure {self.failures} in a row: {info}"
            return
        low, high = self.bounds()
        if info.next_restart is None:
            assert low <= GRAIN, f"it did not wait {low:g} s"
            self.began = self.sim.now
            return
        wait = info.next_restart - self.sim.now
        assert low - GRAIN <= wait <= high + GRAIN, f"it waits {wait:g} s, not {low:g} to {high:g}"
        self.began = info.next_restart

    @rule(seconds=st.sampled_from([0.125, 0.5, 1.0, 2.0, 8.0]))
    def time_passes(self, seconds: float) -> None:
        """Time passes."""
        self.sim.advance(seconds)

    @rule(late=st.sampled_from([-0.125, 0.0]))
    def time_passes_to_the_restart(self, late: float) -> None:
        """Time passes to the restart, or to just before it."""
        self.sim.advance(max(0.0, self.began + late - self.sim.now))

    @invariant()
    def runs_when_it_should(self) -> None:
        """It runs from the very time on that was decided."""
        if not hasattr(self, "pool"):
            return
        info = self.info()
        if self.gone:
            assert info.state == "failed", info
        else:
            due = self.sim.now >= self.began - GRAIN
            assert info.state == ("running" if due else "restarting"), info
            assert info.failures == self.failures, info
