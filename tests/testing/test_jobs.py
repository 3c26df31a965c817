"""The oracle over jobs: what it says of job workers that keep their promises, and of traces and engines that do not."""

from __future__ import annotations

import attrs
import pytest

from actors.jobs import Completed, Failed, JobWorker, MemoryEngine, NewJob
from actors.jobs.signals import JobIncident, JobSettled
from supervision import Supervisor, Worker
from supervision.testing import (
    InvariantViolation,
    JobsMachine,
    Line,
    Sim,
    faulty,
    one_outcome_each,
)
from tests.properties.looking import looking

TestJobs = JobsMachine.TestCase
TestJobs.settings = looking(60, steps=20)


async def handle(job, ctx) -> None:
    if job.variables.get("fails"):
        raise OSError


def at_work(sim, engine, *jobs: NewJob, wrap=lambda tree: tree):
    """A tree that has done these jobs."""
    worker = Worker("w", JobWorker("a", handle, engine=engine))
    pool = sim.supervise(wrap(Supervisor("t", [worker])))
    sim.run(engine.enqueue_many, jobs)
    sim.advance(1)
    return pool


def spoil(trace, kind, *, twice: bool) -> None:
    """Drop the first event of a kind, or tell it once more."""
    events = trace.trees[0].events
    found = next(event for event in events if isinstance(event, kind))
    if twice:
        events.append(attrs.evolve(found, seq=found.seq + 1000))
    else:
        events.remove(found)


@pytest.mark.parametrize("kind", [JobSettled, JobIncident])
@pytest.mark.parametrize("twice", [True, False])
@pytest.mark.parametrize("wrap", [lambda tree: tree, faulty])
def test_what_is_reported_is_what_the_engine_was_told(kind, twice, wrap) -> None:
    """An outcome that is reported twice, or not at all, is found; also of a worker that is made faulty."""
    with Sim(invariants=[one_outcome_each]) as sim:
        at_work(sim, MemoryEngine(), NewJob("a"), NewJob("a", {"fails": 1}, retries=1), wrap=wrap)
        sim.judge()
        spoil(sim.trace, kind, twice=twice)
        with pytest.raises(InvariantViolation, match="one_outcome_each"):
            sim.judge()


def test_an_outcome_told_twice_is_found() -> None:
    """A lease that has ended is not told of again, by whatever name."""
    with Sim() as sim:
        engine = MemoryEngine()
        at_work(sim, engine, NewJob("a"))
        (lease,) = sim.trace.trees[0].ledgers[0].leases
        sim.run(engine.settle, lease, Failed("late", 1))
        with pytest.raises(InvariantViolation, match="the engine knows it as completed already"):
            sim.judge()


def test_an_engine_that_hands_out_what_is_done_is_found() -> None:
    """What is completed stays so."""
    with Sim() as sim:
        engine = MemoryEngine()
        at_work(sim, engine, NewJob("a"))
        sim.judge()
        revive = "UPDATE jobs SET state = 'ready'"
        sim.run(engine.run, lambda db: db.execute(revive).rowcount)
        sim.advance(3)
        with pytest.raises(InvariantViolation, match="was handed out again"):
            sim.judge()


def test_an_engine_is_left_as_it_was() -> None:
    """After the simulation nobody listens to it, and the next one may use it."""
    engine = MemoryEngine(clock=lambda: 0.0)
    before = dict(vars(engine))
    for _ in range(2):
        with Sim() as sim:
            at_work(sim, engine, NewJob("a"))
            assert vars(engine) != before
            sim.judge()
        assert vars(engine) == before


def test_other_users_of_an_engine_are_none_of_its_business() -> None:
    """A claim by somebody outside of the tree is not held against the tree's workers."""
    from actors.jobs import Claim

    with Sim() as sim:
        engine = MemoryEngine()
        at_work(sim, engine)
        sim.run(engine.enqueue, NewJob("b"))
        (job,) = sim.run(engine.activate, Claim(type="b", most=1, lease=5, worker="me"))
        assert sim.run(engine.settle, job.lease, Completed())
        assert not sim.run(engine.settle, job.lease, Completed())
        sim.judge()


def test_a_claim_that_is_longer_under_way_than_leases_last_costs_nothing() -> None:
    """A worker whose claim is on its way for longer than its leases last waits, and does not spin."""
    with Sim() as sim:
        engine, line = MemoryEngine(), Line()
        exchange = engine.exchange

        async def slow(*args):
            await line.cross()
            return await exchange(*args)

        engine.exchange = slow
        worker = JobWorker("a", handle, engine=engine, timeout=2, claim_timeout=5)
        sim.supervise(Supervisor("t", [Worker("w", worker)]))
        line.held = True
        sim.advance(4.5)  # raises Livelock if it spins
        line.held = False
        sim.run(engine.enqueue_many, [NewJob("a")])
        sim.advance(2)
        sim.judge()

    assert len(list(sim.trace.of(JobSettled))) == 1
