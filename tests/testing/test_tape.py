"""Machines that take every step twice: the same is reported, or what differs is shown."""

from __future__ import annotations

import random

import pytest
import trio
from hypothesis import settings, strategies as st
from hypothesis.stateful import run_state_machine_as_test

from supervision import RestartPolicy, Supervisor, Worker
from supervision.testing import (
    BackoffMachine,
    BreakerMachine,
    BulkheadMachine,
    Bundle,
    JobsMachine,
    Nondeterminism,
    PoolMachine,
    TrioStateMachine,
    faulty,
    idle,
    precondition,
    rule,
)
from supervision.testing.simulate import Different, Twice
from tests.properties.looking import looking


@pytest.fixture(autouse=True)
def twice(monkeypatch):
    """As with `--supervision-check-determinism`."""
    monkeypatch.setattr(Twice, "on", True)


def run(machine, examples: int = 10, steps: int = 12) -> None:
    """As Hypothesis runs it."""
    wanted = settings(looking(examples), stateful_step_count=steps, database=None)
    run_state_machine_as_test(machine, settings=wanted)


@pytest.mark.parametrize(
    "machine", [BackoffMachine, BreakerMachine, BulkheadMachine, JobsMachine, PoolMachine]
)
def test_our_machines_do_the_same_twice(machine) -> None:
    """Whatever is drawn, the second time is like the first."""
    run(machine)


class Shop(TrioStateMachine):
    """Bundles, drawn data and async preconditions are all noted."""

    jitter = 0.0
    rule_timeout = 5.0

    def setup(self) -> None:
        self.heard: list[object] = []
        policy = RestartPolicy(max_restarts=0, initial_backoff=1, jitter=self.jitter)
        tree = Supervisor("t", [Worker("w", idle, restart=policy)])
        self.pool = self.sim.supervise(faulty(tree), random=self.source())

    def source(self) -> random.Random:
        return random.Random(1)

    @rule(target=Bundle("things"))
    def make(self) -> object:
        return Thing().about(self)

    @rule(thing=Bundle("things"))
    def use(self, thing) -> None:
        assert thing.owner is self

    async def is_up(self) -> bool:
        await trio.lowlevel.checkpoint()
        return bool(self.sim.grips)

    @precondition(is_up)
    @rule(data=st.data())
    def crash(self, data) -> None:
        self.sim.grips[data.draw(st.sampled_from(sorted(self.sim.grips)))].crash()

    @rule(seconds=st.sampled_from([1.0, 3.0]))
    async def passes(self, seconds) -> None:
        await trio.sleep(seconds)


class Thing:
    """Knows whose it is."""

    def about(self, owner) -> Thing:
        self.owner = owner
        return self


def test_a_machine_of_ones_own_does_the_same_twice() -> None:
    """What one rule gives another is the second machine's own the second time."""
    run(Shop, 30)


def test_a_machine_that_differs_is_found() -> None:
    """Randomness of its own shows at the first event that differs."""

    class Jittery(Shop):
        jitter = 0.5

        def source(self) -> random.Random:
            return random.SystemRandom()

    with pytest.raises(Different) as caught:
        run(Jittery, 50)
    assert isinstance(caught.value.error, Nondeterminism)
