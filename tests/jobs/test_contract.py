"""What every engine promises about claims, leases and outcomes."""

from __future__ import annotations

import re

import pytest

from actors.jobs import (
    Errored,
    Incident,
    NewJob,
    NoSuchJob,
    NotStorable,
    Poisoned,
    Settlement,
    State,
    Why,
)
from actors.jobs.errors import LeaseLost
from tests.jobs.kit import DONE, ask, back, claim, failed, hears, put, sql, states, take


async def test_a_job_comes_as_it_was_put_in(engine):
    """A claimed job has its type, its variables, its numbers and a key of its own for downstream."""
    (key,) = await put(engine, "x", priority=3, retries=7)
    job = (await take(engine, by="w7"))["x"]

    assert (job.key, job.type, job.variables) == (key, "a", {"name": "x"})
    assert (job.retries, job.attempt, job.deliveries, job.priority) == (7, 1, 1, 3)
    assert (job.worker, job.fence) == ("w7", 1)
    assert re.fullmatch(rf"shop/{key}-[0-9a-f]+", job.idempotency_key)


async def test_a_key_for_downstream_stays(engine, clock):
    """The key that a job has of its own is the same in each of its runs, and another one for each job."""
    await put(engine, "x", "y")
    first = await take(engine)
    clock.pass_(100)
    again = await take(engine)

    assert {name: job.idempotency_key for name, job in first.items()} == {
        name: job.idempotency_key for name, job in again.items()
    }
    assert len({job.idempotency_key for job in first.values()}) == 2


async def test_a_key_for_downstream_can_be_given(engine):
    """An idempotency key that was given is kept."""
    await engine.enqueue(NewJob("a", {"name": "x"}, idempotency_key="order-7"))

    assert (await take(engine))["x"].idempotency_key == "order-7"


async def test_only_as_many_as_asked_for_and_of_the_type(engine):
    """A claim brings at most what it asks for, of its type only, in order."""
    await put(engine, *"abcd")
    await put(engine, "z", of="other")

    assert list(await take(engine, 3)) == ["a", "b", "c"]
    assert list(await take(engine, 3)) == ["d"]
    assert await take(engine, 3) == {}


async def test_urgent_first(engine):
    """Higher priority goes first, then what is due for longer."""
    await put(engine, "low", priority=-1)
    await put(engine, "first", "second")
    await put(engine, "high", priority=5)

    assert list(await take(engine)) == ["high", "first", "second", "low"]


async def test_a_delayed_job_waits(engine, clock):
    """A job with a delay is not handed out before, and the claim says when to ask again."""
    await put(engine, "x", delay=10)

    found = await engine.exchange((), claim())
    assert (found.jobs, found.next_in) == ((), 10)
    clock.pass_(9.9)
    assert await take(engine) == {}
    clock.pass_(0.1)
    assert list(await take(engine)) == ["x"]


async def test_completed_is_the_end(engine):
    """A completed job is stored with its result and never handed out again."""
    (key,) = await put(engine, "x")
    job = (await take(engine))["x"]

    assert await engine.settle(job.lease, DONE)
    assert (await engine.find(key)).state is State.COMPLETED
    assert not await engine.settle(job.lease, DONE)
    assert await take(engine) == {}


async def test_settling_and_claiming_in_one_exchange(engine):
    """One exchange settles a batch and claims the next one."""
    await put(engine, *"abcd")
    first = await engine.activate(claim(2))

    found = await engine.exchange([Settlement(job.lease, DONE) for job in first], claim(5))

    assert [job.variables["name"] for job in found.jobs] == ["c", "d"]
    assert await states(engine) == {"completed": 2, "active": 2}


async def test_a_lease_that_runs_out(engine, clock):
    """A job whose lease ran out is handed out again, and only the new holder's word counts."""
    (key,) = await put(engine, "x")
    old = (await take(engine, lease=60, by="w1"))["x"]
    clock.pass_(59.9)
    assert await take(engine, by="w2") == {}
    clock.pass_(0.1)
    new = (await take(engine, by="w2"))["x"]

    assert (new.attempt, new.deliveries, new.retries, new.fence) == (2, 2, 3, 2)
    assert not await engine.settle(old.lease, DONE)
    assert not await engine.settle(old.lease, failed(0))
    assert not await engine.settle(old.lease, Poisoned("no"))
    assert await engine.extend([old.lease, new.lease], 60) == {old.lease}
    assert await engine.poison() == ()
    assert await engine.settle(new.lease, DONE)
    assert (await engine.find(key)).state is State.COMPLETED


async def test_late_but_not_too_late(engine, clock):
    """A completion after the lease ran out is good if nobody else has claimed the job."""
    await put(engine, "x")
    job = (await take(engine, lease=60))["x"]
    clock.pass_(100)

    assert await engine.settle(job.lease, DONE)


async def test_renewed_leases_keep_their_token(engine, clock):
    """Renewed leases last from the renewal on, all in one call."""
    await put(engine, *"ab")
    jobs = await engine.activate(claim(lease=60))
    clock.pass_(50)
    assert await engine.extend([job.lease for job in jobs], 60) == frozenset()
    clock.pass_(59)
    assert await take(engine) == {}
    assert await engine.settle(jobs[0].lease, DONE)
    clock.pass_(1)
    assert list(await take(engine)) == ["b"]


async def test_a_failure(engine, clock):
    """A failed job comes again after its wait with the retries it was left, and is an incident with none."""
    (key,) = await put(engine, "x", retries=2)
    job = (await take(engine))["x"]
    await engine.settle(job.lease, failed(1, 30))
    assert await take(engine) == {}
    clock.pass_(30)
    job = (await take(engine))["x"]
    assert (job.retries, job.attempt, job.deliveries) == (1, 2, 1)

    await engine.settle(job.lease, failed(0, 30))

    info = await engine.find(key)
    assert (info.state, info.retries, info.error) == (State.INCIDENT, 0, "it broke")
    clock.pass_(1000)
    assert await take(engine) == {}


@pytest.mark.parametrize("why", [Why.SNOOZED, Why.REFUSED, Why.INTERRUPTED])
async def test_put_back_costs_nothing(engine, clock, why):
    """A job that is put off, refused or interrupted keeps its retries and gets its attempt back."""
    (key,) = await put(engine, "x")
    job = (await take(engine))["x"]
    await engine.settle(job.lease, back(why, 5))

    info = await engine.find(key)
    assert (info.state, info.due_in) == (State.SCHEDULED, 5)
    assert (info.retries, info.attempt, info.deliveries) == (3, 0, 0)
    assert info.snoozes == (why is Why.SNOOZED)
    clock.pass_(5)
    assert (await take(engine))["x"].attempt == 1


async def test_a_crash_counts(engine):
    """A job that went down with its worker is available at once and keeps its count of deliveries."""
    await put(engine, "x")
    await engine.settle((await take(engine))["x"].lease, back(Why.CRASHED))

    assert (await take(engine))["x"].deliveries == 2


async def test_put_back_is_told_once(engine):
    """Who has given a job back has no more say in it, even before anybody else has it."""
    await put(engine, "x")
    job = (await take(engine))["x"]
    await engine.settle(job.lease, back(Why.INTERRUPTED))

    assert not await engine.settle(job.lease, DONE)
    assert await states(engine) == {"ready": 1}


async def test_a_business_outcome(engine):
    """A job that ends with a code is finished and keeps the code, the message and the variables."""
    (key,) = await put(engine, "x")
    await engine.settle((await take(engine))["x"].lease, Errored("NO_FUNDS", "sorry", '{"b":1}'))

    info = await engine.find(key)
    assert (info.state, info.error_code) == (State.ERRORED, "NO_FUNDS")
    assert (info.error, info.result) == ("sorry", '{"b":1}')


async def test_an_incident_is_resolved(engine):
    """An incident waits for a person, keeps its retries, and then runs at once."""
    (key,) = await put(engine, "x")
    await engine.settle((await take(engine))["x"].lease, Incident("look"))
    assert (await engine.find(key)).state is State.INCIDENT
    assert await take(engine) == {}

    await engine.resolve(key)

    assert (await take(engine))["x"].retries == 3
    with pytest.raises(NoSuchJob, match="an incident"):
        await engine.resolve(key)


async def test_a_scheduled_job_runs_early(engine):
    """A job that waits for its time, or for its next try, can be had at once; one that does not is refused."""
    (later,) = await put(engine, "later", delay=60.0)
    (again,) = await put(engine, "again")
    await engine.settle((await take(engine))["again"].lease, failed(2, 60.0))
    assert await take(engine) == {}

    await engine.run_now(later)
    await engine.run_now(again)

    found = await take(engine)
    assert (found["later"].retries, found["again"].retries) == (3, 2)
    with pytest.raises(NoSuchJob, match="scheduled"):
        await engine.run_now(later)
    with pytest.raises(NoSuchJob, match="scheduled"):
        await engine.run_now("nothing")


async def test_poison_is_set_aside_and_comes_back(engine, clock):
    """A poison job is an incident with a copy set aside, until it is put back into the queue."""
    (key,) = await put(engine, "x")
    await engine.settle((await take(engine))["x"].lease, Poisoned("bad"))

    (poison,) = await engine.poison("a")
    assert (poison.key, poison.reason, poison.variables) == (key, "bad", '{"name":"x"}')
    assert (await engine.find(key)).state is State.INCIDENT
    assert await engine.poison("b") == ()
    await engine.requeue(key)
    assert await engine.poison() == ()
    assert (await take(engine))["x"].deliveries == 1


async def test_poison_is_dropped(engine):
    """A poison job that is dropped is cancelled, and nothing of it is left aside."""
    (key,) = await put(engine, "x")
    await engine.settle((await take(engine))["x"].lease, Poisoned("bad"))

    await engine.drop(key)

    assert (await engine.find(key)).state is State.CANCELLED
    assert await engine.poison() == ()
    with pytest.raises(NoSuchJob):
        await engine.drop(key)


async def test_a_job_that_kills_its_worker(engine, clock):
    """A job handed out too often without a word is set aside instead of being handed out once more."""
    (key,) = await put(engine, "x")
    for _ in range(3):
        assert len(await take(engine, lease=1, max_deliveries=3)) == 1
        clock.pass_(1)

    found = await engine.exchange((), claim(max_deliveries=3))

    assert found.jobs == ()
    assert [(p.key, p.deliveries) for p in found.poisoned] == [(key, 3)]
    assert "worker lost, last w1" in found.poisoned[0].reason
    assert (await engine.poison()) == found.poisoned


async def test_poison_leaves_room_for_others(engine, clock):
    """A claim that meets poison still brings as many good jobs as it asked for."""
    await put(engine, "bad", priority=1)
    await take(engine, 1, lease=1)
    clock.pass_(1)
    await put(engine, "good")

    found = await engine.exchange((), claim(1, max_deliveries=1))

    assert [job.variables["name"] for job in found.jobs] == ["good"]
    assert len(found.poisoned) == 1


async def test_only_the_variables_asked_for(engine):
    """A claim that names variables gets those that there are, unchanged, and no other."""
    values = {"n": 0.1 + 0.2, "yes": True, "no": None, "deep": {"a": [1, "ü"]}, "other": 1}
    await engine.enqueue(NewJob("a", values))

    (job,) = await engine.activate(claim(fetch=("n", "yes", "no", "deep", "missing")))

    assert job.variables == {k: v for k, v in values.items() if k != "other"}
    assert job.variables["yes"] is True


async def test_paused_types_are_not_handed_out(engine):
    """A paused type is handed out to nobody until it goes on; what runs can end."""
    await put(engine, *"ab")
    job = (await take(engine, 1))["a"]
    await engine.pause("a")
    assert await take(engine) == {}
    assert await engine.settle(job.lease, DONE)
    assert (await engine.statistics()).paused == {"a"}

    await engine.resume("a")

    assert list(await take(engine)) == ["b"]


async def test_a_limit_over_all_workers(engine, clock):
    """A limited type has no more active jobs than that; a lapsed lease holds no place."""
    await put(engine, *"abcd")
    await engine.limit("a", 2)
    first = await take(engine, by="w1", lease=60)
    assert list(first) == ["a", "b"]
    assert await take(engine, by="w2") == {}
    await engine.settle(first["a"].lease, DONE)
    assert list(await take(engine, by="w2", lease=600)) == ["c"]
    clock.pass_(60)
    assert list(await take(engine, by="w3")) == ["b"]
    await engine.limit("a", None)
    assert list(await take(engine)) == ["d"]


async def test_unique_jobs(engine):
    """Of jobs with one unique text, one is unfinished at a time, and others are told which."""
    one = await engine.enqueue(NewJob("a", {"name": "x"}, unique="u"))
    two = await engine.enqueue(NewJob("a", {"name": "y"}, unique="u"))
    other = await engine.enqueue(NewJob("b", {"name": "z"}, unique="u"))
    assert (one.created, two.created, other.created) == (True, False, True)
    assert two.key == one.key

    await engine.settle((await take(engine))["x"].lease, DONE)

    assert (await engine.enqueue(NewJob("a", {"name": "y"}, unique="u"))).created


async def test_a_period_fires_once(engine, clock):
    """Of any number of looks at a schedule, the first in a period enqueues its job."""
    clock.now = 1005.0
    job = NewJob("a", {"name": "x"})
    looks = [await engine.fire("nightly", 60, 0, job) for _ in range(3)]
    assert [look.key is not None for look in looks] == [True, False, False]
    assert looks[0].next_in == 15
    clock.pass_(15)
    assert (await engine.fire("nightly", 60, 0, job)).key is not None
    assert (await engine.fire("other", 60, 0, job)).key is not None
    assert await states(engine) == {"ready": 3}


async def test_cancel_anywhere(engine):
    """A cancelled job is not handed out; its holder learns at the renewal, and cannot complete it."""
    waiting, active = await put(engine, "w", "a")
    await engine.cancel(waiting)
    job = (await take(engine))["a"]
    assert await engine.cancel(active)
    assert not await engine.cancel(active)

    assert await engine.extend([job.lease], 60) == {job.lease}
    assert not await engine.settle(job.lease, DONE)
    assert await states(engine) == {"cancelled": 2}


async def test_all_or_none(engine):
    """If one of several jobs cannot be stored, none is."""
    with pytest.raises(NotStorable, match="set"):
        await engine.enqueue_many([NewJob("a", {"x": 1}), NewJob("a", {"x": {1}})])

    assert await states(engine) == {}


async def test_strange_keys(engine):
    """A key or token that this engine never gave is not found, not an error."""
    from actors.jobs import Lease

    assert not await engine.settle(Lease("x", "y"), DONE)
    assert await engine.extend([Lease("9", "1")], 60) == {Lease("9", "1")}
    assert not await engine.cancel("nobody")
    with pytest.raises(NoSuchJob):
        await engine.find("x")


async def test_a_listener_is_rung(engine):
    """Who listens for a type is rung when a job of it may be taken, and not after it has left."""
    rings = []
    end = engine.listen("a", lambda: rings.append(1))
    await hears(engine)
    rings.clear()
    await put(engine, "x", of="b")
    assert rings == []
    await put(engine, "x")
    assert len(rings) == 1
    end()
    end()
    await put(engine, "x")
    assert len(rings) == 1


async def test_pruning(engine, clock):
    """Only what was finished long enough ago is deleted."""
    keys = await put(engine, *"abc")
    jobs = await take(engine)
    await engine.settle(jobs["a"].lease, DONE)
    clock.pass_(100)
    await engine.settle(jobs["b"].lease, DONE)

    assert await engine.prune(50) == 1
    with pytest.raises(NoSuchJob):
        await engine.find(keys[0])
    assert await states(engine) == {"completed": 1, "active": 1}


async def test_effect_and_completion_are_one(engine):
    """What a handler writes in the job's transaction is there exactly if the job is completed."""
    await ask(engine, "CREATE TABLE effects (x TEXT)")
    (key,) = await put(engine, "x")
    job = (await take(engine))["x"]

    def act(db, amount):
        sql(db, "INSERT INTO effects VALUES (?)", amount)
        return {"paid": amount}

    def break_(db):
        act(db, "half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await job.transaction(break_)
    with pytest.raises(NotStorable):
        await job.transaction(lambda db: act(db, "bad") and {"x": object()})
    assert (await engine.find(key)).state is State.ACTIVE
    assert await job.transaction(act, "all") == {"paid": "all"}

    assert (await engine.find(key)).result == '{"paid":"all"}'
    assert await ask(engine, "SELECT x FROM effects") == [("all",)]
    with pytest.raises(LeaseLost):
        await job.transaction(act, "again")


async def test_a_lost_lease_has_no_effect(engine, clock):
    """A transaction of a job that somebody else has by now does not even begin."""
    await put(engine, "x")
    old = (await take(engine, lease=1))["x"]
    clock.pass_(1)
    await take(engine)
    ran = []

    with pytest.raises(LeaseLost):
        await old.transaction(lambda db: ran.append(1))

    assert ran == []


async def test_outbox(engine):
    """A job enqueued in the caller's own transaction is there exactly if what was written with it is."""
    await ask(engine, "CREATE TABLE orders (x TEXT)")

    def order(db, fail):
        sql(db, "INSERT INTO orders VALUES ('o')")
        engine.enqueue_in(db, NewJob("a", {"name": "mail"}))
        if fail:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await engine.run(order, True)
    assert await take(engine) == {}
    await engine.run(order, False)
    assert list(await take(engine)) == ["mail"]


async def test_unclaimed_types(engine):
    """Jobs of a type that nobody works on stay where they are, and are seen."""
    await put(engine, "x", of="nobody")

    assert await take(engine) == {}
    assert await states(engine, "nobody") == {"ready": 1}
