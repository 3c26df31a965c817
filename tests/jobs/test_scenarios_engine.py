"""Scenarios from public reports about how job queues store and hand out, retold for every engine."""

from __future__ import annotations

import pytest

from actors.jobs import NewJob, NoRetriesLeft, Poisoned, Settlement, State, Why
from tests.jobs.kit import DONE, ask, back, claim, failed, put, states, take


async def test_more_lapsed_jobs_than_one_claim_brings(engine, clock):
    """riverqueue/river#1318: behind as many living jobs as there may be, every lapsed one is found, however many there are."""
    await put(engine, *(f"lost {n}" for n in range(70)))
    lost = await engine.activate(claim(70, lease=10, by="dead"))
    await put(engine, *(f"alive {n}" for n in range(70)))
    alive = await engine.activate(claim(70, lease=1000, by="alive"))
    clock.pass_(11)
    again: list[str] = []
    while jobs := await engine.activate(claim(16, lease=1000)):
        again += [job.key for job in jobs]

    assert sorted(again) == sorted(job.key for job in lost)
    assert await engine.extend([job.lease for job in alive], 60) == frozenset()


async def test_a_unique_job_that_waits_for_its_retry(engine, clock):
    """oban-bg/oban#1416, timgit/pg-boss#535: while a unique job waits for a retry no second one is made, and its retry is in nobody's way."""
    first = await engine.enqueue(NewJob("a", {"name": "u"}, unique="u"))
    await put(engine, "other")
    await engine.settle((await take(engine, 1))["u"].lease, failed(2, 30))

    second = await engine.enqueue(NewJob("a", {"name": "v"}, unique="u"))
    elsewhere = await engine.enqueue(NewJob("b", {"name": "w"}, unique="u"))
    assert (second.key, second.created, elsewhere.created) == (first.key, False, True)
    clock.pass_(30)
    jobs = await take(engine)

    assert set(jobs) == {"u", "other"}
    assert list(await take(engine, of="b")) == ["w"]


async def test_a_unique_job_that_is_an_incident(engine):
    """riverqueue/river#619: a unique job that waits for a person keeps its text; whether resolved or dropped, nothing conflicts."""
    first = await engine.enqueue(NewJob("a", {"name": "u"}, unique="u"))
    await engine.settle((await take(engine))["u"].lease, failed(0))
    assert not (await engine.enqueue(NewJob("a", unique="u"))).created
    await engine.resolve(first.key, 2)
    await engine.settle((await take(engine))["u"].lease, Poisoned("bad"))
    await engine.drop(first.key)

    again = await engine.enqueue(NewJob("a", {"name": "u"}, unique="u"))

    assert (again.created, again.key != first.key) == (True, True)
    assert await states(engine) == {"cancelled": 1, "ready": 1}


async def test_one_row_is_in_nobodys_way(engine, clock):
    """procrastinate-org/procrastinate#1408: of lapsed jobs, one that can be handed out to nobody any more does not stop the others."""
    keys = await put(engine, *map(str, range(9)))
    await engine.activate(claim(9, lease=5))
    await ask(engine, "UPDATE {s}jobs SET deliveries = 99 WHERE id = ?", int(keys[0]))
    clock.pass_(6)

    found = await engine.exchange((), claim(9, max_deliveries=5))

    assert [job.key for job in found.jobs] == keys[1:]
    assert [poison.key for poison in found.poisoned] == keys[:1]


async def test_a_worker_of_the_same_name(engine, clock):
    """oban-bg/oban#862, procrastinate-org/procrastinate#1518: a new process of the same name has no part in what the old one held."""
    await put(engine, "x", "y")
    old = await take(engine, by="shop/w/0#1", lease=10)
    clock.pass_(5)
    assert await take(engine, by="shop/w/0#1", lease=10) == {}
    clock.pass_(5)
    new = await take(engine, by="shop/w/0#1", lease=10)

    assert set(new) == {"x", "y"}
    assert not await engine.settle(old["x"].lease, DONE)
    assert await engine.settle(new["x"].lease, DONE)


async def test_a_dead_worker_is_found_without_being_known(engine, clock):
    """janbjorge/pgqueuer#475: what a killed worker held comes again after its lease, whoever asks, and without anybody's help."""
    await put(engine, "x")
    await take(engine, by="killed", lease=30)
    found = await engine.exchange((), claim(by="other"))
    assert (found.jobs, found.next_in) == ((), 30)
    clock.pass_(30)

    assert (await take(engine, by="other"))["x"].deliveries == 2


@pytest.mark.parametrize("before", [True, False])
async def test_a_late_word_and_a_new_owner(engine, clock, before):
    """camunda/camunda#57335, camunda/camunda#54840: after the lease ran out the first word counts, whoever says it, and the second is refused."""
    (key,) = await put(engine, "x")
    old = (await take(engine, lease=5))["x"].lease
    clock.pass_(6)
    if before:
        assert await engine.settle(old, DONE)
        assert await take(engine, by="w2") == {}
    else:
        new = (await take(engine, by="w2"))["x"].lease
        found = await engine.exchange([Settlement(old, failed(0)), Settlement(new, DONE)])
        assert found.refused == {old}

    assert (await engine.find(key)).state is State.COMPLETED


async def test_given_back_again_and_again(engine, clock):
    """riverqueue/river#1290, python-arq/arq#267: a hundred interruptions and snoozes use up nothing, and the job is never poison."""
    (key,) = await put(engine, "x", retries=1)
    for n in range(100):
        job = (await take(engine, max_deliveries=2))["x"]
        assert (job.attempt, job.deliveries, job.retries) == (1, 1, 1)
        await engine.settle(job.lease, back(Why.INTERRUPTED if n % 2 else Why.SNOOZED))

    assert (await engine.find(key)).snoozes == 50


async def test_resolving_what_cannot_run(engine):
    """camunda/camunda#18110: an incident without retries is not resolved without being given some, and stays an incident until then."""
    (key,) = await put(engine, "x", retries=1)
    await engine.settle((await take(engine))["x"].lease, failed(0))
    with pytest.raises(NoRetriesLeft):
        await engine.resolve(key)
    assert (await engine.find(key)).state is State.INCIDENT
    await engine.set_retries(key, 1)
    await engine.resolve(key)

    assert "x" in await take(engine)


async def test_order_is_kept_over_a_crash(engine, clock):
    """A lapsed job stands where it stood: more urgent ones go before it, and later ones behind it."""
    await put(engine, "first")
    await take(engine, lease=5)
    clock.pass_(1)
    await put(engine, "second")
    await put(engine, "urgent", priority=9)
    clock.pass_(5)

    assert list(await take(engine)) == ["urgent", "first", "second"]
