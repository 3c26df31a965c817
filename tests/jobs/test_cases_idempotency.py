"""IDEMPOTENCY: public bug reports about doing things twice, retold, with their numbers; and the rest of what stores promise."""

from __future__ import annotations

import pytest
import trio

from actors.errors import IncidentError
from actors.jobs import (
    Begin,
    IdempotencyPolicy,
    MemoryEngine,
    SQLIdempotencyStore,
    State,
    open_sqlite,
)
from actors.jobs.errors import (
    AmbiguousAttempt,
    KeyBusy,
    KeyReused,
    NotStorable,
    ResultNotStored,
    StoredFailure,
)
from actors.options import OptionError
from actors.resilience import degrade
from tests.jobs.tree import at_work, one, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


@pytest.fixture
def store(engine):
    return SQLIdempotencyStore(engine)


class Effect:
    """Something that should happen once."""

    def __init__(self, *errors: Exception | None, seconds: float = 0.0):
        self.errors = list(errors)
        self.seconds = seconds
        self.times: list[float] = []

    async def __call__(self, *args):
        self.times.append(trio.current_time())
        await trio.sleep(self.seconds)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return {"n": len(self.times)}


async def try_claim(store, key, seconds=30.0):
    """True if the key can be claimed now."""
    try:
        return isinstance(await store.claim(key, "", "w", claim_for=seconds, run_again=True), Begin)
    except KeyBusy:
        return False


async def test_b095_no_time_is_not_no_limit(autojump_clock, store):
    """B095, aws-powertools/powertools-lambda-python#4759: a claim with 0 s left ends at once, one without a deadline after 30."""
    assert await try_claim(store, "hurry", 0.0)
    assert await try_claim(store, "calm")
    assert await try_claim(store, "hurry")
    await trio.sleep(29)
    assert not await try_claim(store, "calm")
    await trio.sleep(2)
    assert await try_claim(store, "calm")


async def test_b097_a_replayed_failure_says_so(autojump_clock, store):
    """B097, KeeperHub/keeperhub#1849: a stored failure is told again as such, with its time, and nothing runs."""
    act = Effect(ValueError("no such card"))
    policy = IdempotencyPolicy(final=(ValueError,))
    with pytest.raises(ValueError, match="no such card"):
        await store.once("k", act, policy=policy)
    for _ in range(2):
        await trio.sleep(10)
        with pytest.raises(StoredFailure, match="no such card") as info:
            await store.once("k", act, policy=policy)
        assert (info.value.replayed, info.value.at) == (True, 0)

    assert act.times == [0]


@pytest.mark.parametrize("down", [3.5, 60.0])
async def test_b098_the_store_is_down_after_the_effect(autojump_clock, store, monkeypatch, down):
    """B098, openmeterio/openmeter#4485: a result is stored as soon as the store works; if it never does, that is reported."""
    tries, act, real = [], Effect(), store.finish

    async def finish(*args, **options):
        tries.append(trio.current_time())
        if trio.current_time() < down:
            raise OSError("down")
        return await real(*args, **options)

    monkeypatch.setattr(store, "finish", finish)
    if down < 10:
        assert await store.once("k", act) == {"n": 1}
        assert (tries, trio.current_time()) == ([0, 1, 2, 3, 4], 4)
        await trio.sleep(16)
        assert await store.once("k", act) == {"n": 1}
        assert act.times == [0]
    else:
        with pytest.raises(ResultNotStored, match="'k'"):
            await store.once("k", act)
        assert (len(tries), trio.current_time()) == (11, 10)


async def test_b098_is_reported(autojump_clock, engine, store, monkeypatch):
    """B098 in a worker: the event names the key, and the job is not done."""

    async def finish(*args, **options):
        raise OSError("down")

    monkeypatch.setattr(store, "finish", finish)
    act = Effect()

    async def handler(job, ctx):
        await store.once_for(job, act)

    async with at_work(worker(handler, engine)) as seen:
        key = await one(engine, retries=1)
        await trio.sleep(20)
        info = await engine.find(key)

    (at_risk,) = (event for event in seen.events if event.kind == "ResultAtRisk")
    assert at_risk.time == 10
    assert at_risk.key.startswith(f"shop/{key}-")
    assert (info.state, act.times) == (State.INCIDENT, [0])


async def test_b099_a_store_that_cannot_be_opened(tmp_path):
    """B099, MervinPraison/PraisonAI#4768: a shared store that cannot be opened is an error that names it, never a local one."""
    where = tmp_path / "missing" / "jobs.db"

    with pytest.raises(Exception, match="unable to open") as info:
        async with open_sqlite(where):
            pass

    assert str(where) in "".join(info.value.__notes__)


async def test_b099_going_on_without_it_is_said(autojump_clock, store):
    """B099 with the policy "open": a worker that goes on with a local store says so from its start."""
    act = Effect()

    async def shared():
        raise OSError("no such host")

    async def run(ctx):
        found = await degrade("shared idempotency store", default=store).call(shared)
        await found.value.once("k", act)
        await ctx.sleep(100)

    async with at_work(run) as seen:
        await trio.sleep(1)
        health = seen.pool.health()

    assert act.times == [0]
    assert health.degraded == ("feature shared idempotency store degraded",)
    assert health.ready
    assert seen.times("DegradationChanged", feature="shared idempotency store", degraded=True) == [
        0
    ]


async def test_a_hit_is_counted_and_completes(autojump_clock, engine, store):
    """A job repeated under its key is completed with the stored result, and the hit is counted by type."""
    act = Effect()
    counts = []

    async def handler(job, ctx):
        result = await store.once_for(job, act, 7)
        counts.append(dict(ctx.mailbox.office.counts))
        if job.attempt == 1:
            raise ValueError("after the effect")
        return result

    async with at_work(worker(handler, engine)):
        key = await one(engine)
        await trio.sleep(5)
        info = await engine.find(key)

    assert (info.state, info.result, act.times) == (State.COMPLETED, '{"n":1}', [0])
    hits = "wf_worker_idempotency_cache_hits_total", "a"
    assert [count.get(hits) for count in counts] == [None, 1]


async def test_steps_of_one_job(autojump_clock, engine, store):
    """Several effects of one job have a key each."""
    first, second = Effect(), Effect(ConnectionError())

    async def handler(job, ctx):
        await store.once_for(job, first, step="one")
        return await store.once_for(job, second, step="two")

    async with at_work(worker(handler, engine)):
        key = await one(engine)
        await trio.sleep(5)
        info = await engine.find(key)

    assert (info.state, first.times, second.times) == (State.COMPLETED, [0], [0, 1])


async def test_another_payload_is_an_error(autojump_clock, store):
    """The same key with another payload is refused; the order of names in it does not matter."""
    act = Effect()
    await store.once("k", act, payload={"a": 1, "b": 2})
    assert await store.once("k", act, payload={"b": 2, "a": 1}) == {"n": 1}

    with pytest.raises(KeyReused) as info:
        await store.once("k", act, payload={"a": 1})

    assert isinstance(info.value, IncidentError)
    with pytest.raises(NotStorable):
        await store.once("k", act, payload={1, 2})
    assert len(act.times) == 1


async def test_somebody_is_at_it(autojump_clock, engine, store):
    """While one is at work under a key, another is sent away and told when to come back, which costs a job nothing."""
    act = Effect(seconds=45)

    async def handler(job, ctx):
        return await store.once("k", act)

    async with at_work(worker(handler, engine)) as seen:
        await one(engine)
        await one(engine)
        await trio.sleep(200)

    assert act.times == [0]
    assert seen.outcomes().count("completed") == 2
    assert "refused" in seen.outcomes()
    assert "failed" not in seen.outcomes()


async def test_long_work_keeps_its_claim(autojump_clock, store):
    """The claim is renewed while the work goes on."""
    act = Effect(seconds=100)

    async def second():
        await trio.sleep(95)
        assert not await try_claim(store, "k")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.once, "k", act)
        nursery.start_soon(second)

    assert act.times == [0]


@pytest.mark.parametrize("ambiguous", ["run", "park"])
async def test_an_attempt_that_never_ended(autojump_clock, store, ambiguous):
    """When an earlier attempt may have acted, the policy says whether to run again or to have a person look."""
    policy = IdempotencyPolicy(ambiguous=ambiguous)
    act = Effect(seconds=10)
    with trio.move_on_after(5):
        await store.once("k", act, policy=policy)
    if ambiguous == "run":
        assert await store.once("k", act, policy=policy) == {"n": 2}
    else:
        with pytest.raises(AmbiguousAttempt) as info:
            await store.once("k", act, policy=policy)
        assert isinstance(info.value, IncidentError)
        assert await store.forget("k")
        assert await store.once("k", act, policy=policy) == {"n": 2}


async def test_a_failure_frees_the_key(autojump_clock, store):
    """An ordinary failure leaves nothing behind: the next attempt runs."""
    act = Effect(ConnectionError())
    with pytest.raises(ConnectionError):
        await store.once("k", act, policy=IdempotencyPolicy(ambiguous="park"))

    assert await store.once("k", act, policy=IdempotencyPolicy(ambiguous="park")) == {"n": 2}


async def test_a_result_that_is_no_json(autojump_clock, store):
    """A result that cannot be stored is an incident, and the work is not done again."""
    times = []

    async def act():
        times.append(1)
        return {1, 2}

    with pytest.raises(IncidentError, match="no JSON"):
        await store.once("k", act)
    assert await store.once("k", act) is None
    assert times == [1]


async def test_records_expire(autojump_clock, store):
    """A record lasts as long as it should, then the key is free and the record can be pruned."""
    act, policy = Effect(), IdempotencyPolicy(keep_for=100)
    await store.once("k", act, policy=policy)
    await trio.sleep(99)
    assert await store.once("k", act, policy=policy) == {"n": 1}
    assert await store.prune() == 0
    await trio.sleep(1)
    assert await store.once("k", act, policy=policy) == {"n": 2}
    await trio.sleep(100)
    assert await store.prune() == 1


async def test_a_record_lasts_as_long_as_its_job(autojump_clock, engine):
    """alphagov/pay-connector#4573: an incident resolved after the record should have expired does not act again."""
    acts, store = [], SQLIdempotencyStore(engine, IdempotencyPolicy(keep_for=100))

    async def act():
        acts.append(trio.current_time())
        return {"charge": len(acts)}

    async def handler(job, ctx):
        result = await store.once_for(job, act)
        if job.attempt == 1:
            raise IncidentError("look")
        return result

    async with at_work(worker(handler, engine)) as seen:
        key = await one(engine)
        while "incident" not in seen.outcomes(key):
            await trio.sleep(0.1)
        await trio.sleep(1000)
        assert await store.prune() == 0
        await engine.resolve(key)
        while (await engine.find(key)).state is not State.COMPLETED:
            await trio.sleep(0.1)
        assert (await engine.find(key)).result == '{"charge":1}'
        assert await store.prune() == 1
    assert len(acts) == 1


async def test_recorded_even_if_cancelled(autojump_clock, store, monkeypatch):
    """Work that was done is recorded although its caller is cancelled at that very moment."""
    real = store.finish

    async def finish(*args, **options):
        await trio.sleep(1)
        return await real(*args, **options)

    monkeypatch.setattr(store, "finish", finish)
    act = Effect()
    with trio.move_on_after(0.5):
        await store.once("k", act)

    assert await store.once("k", act) == {"n": 1}


async def test_recorded_but_not_heard_of(autojump_clock, store, monkeypatch):
    """A record that was written although the answer was lost is no fault: the work is done, and nothing is at risk."""
    real, answers = store.finish, [ConnectionError("lost"), None]

    async def finish(*args, **options):
        done = await real(*args, **options)
        if (error := answers.pop(0)) is not None:
            raise error
        return done

    monkeypatch.setattr(store, "finish", finish)
    act = Effect()

    assert await store.once("k", act) == {"n": 1}
    assert answers == []


async def test_work_that_outlasts_the_cancellation(autojump_clock, store):
    """Work that was shielded from its caller's cancellation is recorded, and one that fails so leaves its key free."""
    act = Effect()

    async def shielded(error=None):
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
            if error is not None:
                raise error
            return await act()

    with trio.move_on_after(1):
        await store.once("k", shielded)
    with pytest.raises(OSError):
        with trio.move_on_after(1):
            await store.once("other", shielded, OSError("it broke"))

    assert await store.once("k", act) == {"n": 1}
    assert await store.once("other", act) == {"n": 2}


@pytest.mark.parametrize(
    "options", [{"ambiguous": "perhaps"}, {"claim_for": -1}, {"keep_for": 0}, {"keep": 1}]
)
def test_refused_at_the_door(options):
    """A policy that cannot be is refused where it is written."""
    with pytest.raises(OptionError):
        IdempotencyPolicy(**options)
