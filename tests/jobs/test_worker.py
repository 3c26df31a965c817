"""A job worker at its work: fetching, places, outcomes and leases, in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import trio

from actors.errors import (
    BpmnError,
    BreakerOpen,
    BulkheadFull,
    FailWithRetry,
    IncidentError,
    PoisonMessage,
)
from actors.jobs import MemoryEngine, NewJob, State, job_worker
from actors.options import OptionError
from actors.resilience import BreakerPolicy, Dependency
from supervision import SpecError, Supervisor, Worker, supervisor
from supervision.logs import log_event
from tests.jobs.kit import claim, put, states
from tests.jobs.tree import at_work, one, worker


@pytest.fixture
def engine():
    return MemoryEngine("shop")


async def until(fn):
    """Wait for something to become true, in virtual time."""
    while not await fn():
        await trio.sleep(0.01)


async def settled(engine, key):
    await until(lambda: _finished(engine, key))
    return await engine.find(key)


async def _finished(engine, key):
    return (await engine.find(key)).state not in ("ready", "active", "scheduled")


async def nothing(job, ctx):
    """A handler that has nothing to do."""


async def test_a_job_is_handled(autojump_clock, engine):
    """What a handler returns completes the job, and is counted."""

    async def handler(job, ctx):
        return {"got": job.variables["n"], "by": ctx.name}

    async with at_work(worker(handler, engine)) as seen:
        key = await one(engine, variables={"n": 7})
        info = await settled(engine, key)

    assert (info.state, info.result) == (State.COMPLETED, '{"got":7,"by":"w0"}')
    assert seen.outcomes() == ["completed"]


@pytest.mark.parametrize(
    ("error", "state", "word", "retries"),
    [
        (ValueError("no"), State.SCHEDULED, "failed", 2),
        (FailWithRetry("later", retry_in=5), State.SCHEDULED, "snoozed", 3),
        (FailWithRetry("later", retry_in=5, retries=9), State.SCHEDULED, "failed", 9),
        (FailWithRetry("never", retries=0), State.INCIDENT, "incident", 0),
        (BpmnError("NO", "sorry", {"x": 1}), State.ERRORED, "errored", 3),
        (BpmnError("NO", "sorry", {"x": {1}}), State.INCIDENT, "incident", 3),
        (IncidentError("look"), State.INCIDENT, "incident", 3),
        (PoisonMessage("bad"), State.INCIDENT, "poisoned", 3),
        (
            BreakerOpen("bank", retry_after=5, trying=False, why="x"),
            State.SCHEDULED,
            "refused",
            3,
        ),
        (ExceptionGroup("g", [ValueError(), PoisonMessage("bad")]), State.INCIDENT, "poisoned", 3),
        (ExceptionGroup("g", [ValueError(), FailWithRetry()]), State.SCHEDULED, "failed", 2),
        (ValueError("half a character: \ud800"), State.SCHEDULED, "failed", 2),
        (BpmnError("\ud800"), State.ERRORED, "errored", 3),
        (BpmnError(404, ValueError("not there")), State.ERRORED, "errored", 3),
        (FailWithRetry("later", retry_in=Decimal("1.5")), State.SCHEDULED, "snoozed", 3),
        (
            BulkheadFull("b", limit=1, waiting=0, waited=None, retry_after=0),
            State.SCHEDULED,
            "refused",
            3,
        ),
    ],
)
async def test_what_an_exception_means(autojump_clock, engine, error, state, word, retries):
    """Each kind of exception has its outcome, and costs a retry only if it is a plain failure."""

    async def handler(job, ctx):
        raise error

    async with at_work(worker(handler, engine)) as seen:
        key = await one(engine)
        await trio.sleep(0.4)
        info = await engine.find(key)

    assert (info.state, info.retries, seen.outcomes()[0]) == (state, retries, word)
    incidents = [e for e in seen.events if e.kind == "JobIncident"]
    assert [e.poison for e in incidents] == ([word == "poisoned"] if state == "incident" else [])


async def test_put_off_until_a_time(autojump_clock, engine):
    """A job can be put off until a time with a zone."""

    async def handler(job, ctx):
        raise FailWithRetry(retry_at=datetime.now(UTC) + timedelta(seconds=1000))

    async with at_work(worker(handler, engine)):
        key = await one(engine)
        await trio.sleep(1)
        info = await engine.find(key)

    assert 990 < info.due_in < 1000


@pytest.mark.parametrize(
    "result", [7, {"x": object()}, {1: 2}, {"x": float("nan")}, "text", [1], {"x": "\ud800"}]
)
async def test_a_result_that_is_no_json(autojump_clock, engine, result):
    """A result that cannot be stored makes an incident at once: another run would repeat the work."""

    async def handler(job, ctx):
        return result

    async with at_work(worker(handler, engine)) as seen:
        info = await settled(engine, await one(engine))

    assert info.state is State.INCIDENT
    assert "it ran to its end" in info.error
    assert seen.outcomes() == ["incident"]


async def test_a_result_that_is_too_large(autojump_clock):
    """A result larger than the engine takes is an incident, and an enqueued job is refused at the door."""
    engine = MemoryEngine("shop", max_bytes=1000)

    async def handler(job, ctx):
        return {"x": "x" * 1000}

    async with at_work(worker(handler, engine)):
        info = await settled(engine, await one(engine))

    assert "more than the 1,000 allowed" in info.error


async def test_as_many_at_once_as_there_are_places(autojump_clock, engine):
    """No more handlers run at once than there are places, and a place that comes free is used at once."""
    running, peak, ends = 0, 0, []

    async def handler(job, ctx):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await trio.sleep(1)
        running -= 1
        ends.append(trio.current_time())

    await put(engine, *map(str, range(10)))
    async with at_work(worker(handler, engine, concurrency=4)):
        await until(lambda: _all_done(engine, 10))

    assert peak == 4
    assert ends == [1] * 4 + [2] * 4 + [3] * 2


async def _all_done(engine, n):
    return (await states(engine)).get("completed") == n


@pytest.mark.parametrize("ahead", [4, 6, 8])
async def test_never_more_held_than_allowed(autojump_clock, engine, ahead):
    """No more jobs are held than `max_jobs_activated`, running and waiting together."""
    await put(engine, *map(str, range(30)))
    most = 0

    async def handler(job, ctx):
        nonlocal most
        most = max(most, (await states(engine))["active"])
        await trio.sleep(1)

    async with at_work(worker(handler, engine, concurrency=4, max_jobs_activated=ahead)):
        await until(lambda: _all_done(engine, 30))

    assert most == ahead


async def test_work_is_heard_of_at_once(autojump_clock, engine):
    """An idle worker takes a new job in the instant it is enqueued, however long its poll."""
    starts = []

    async def handler(job, ctx):
        starts.append(trio.current_time())

    async with at_work(worker(handler, engine, poll=100)):
        for pause in (3, 4, 5):
            await trio.sleep(pause)
            await one(engine)
        await trio.sleep(1)

    assert starts == [3, 7, 12]


async def test_work_nobody_told_of_is_found(autojump_clock, engine, monkeypatch):
    """Without any notification, work is found by looking."""
    starts = []

    async def handler(job, ctx):
        starts.append(trio.current_time())

    monkeypatch.setattr(engine, "wake", lambda *types: None)
    async with at_work(worker(handler, engine, poll=1)):
        await trio.sleep(3.3)
        await one(engine)
        await trio.sleep(5)

    assert len(starts) == 1
    assert 3.3 <= starts[0] <= 3.3 + 1.1


async def test_a_delayed_job_runs_on_time(autojump_clock, engine):
    """A delayed job runs in the instant it falls due, not at the next look."""
    starts = []

    async def handler(job, ctx):
        starts.append(trio.current_time())

    async with at_work(worker(handler, engine, poll=100)):
        await one(engine, delay=12.5)
        await trio.sleep(20)

    assert starts == [12.5]


async def test_only_what_is_asked_for_is_fetched(autojump_clock, engine):
    """With `fetch_variables` the handler sees those variables and no other."""
    seen = []

    async def handler(job, ctx):
        seen.append(job.variables)

    async with at_work(worker(handler, engine, fetch_variables=["a", "c"])):
        await one(engine, variables={"a": 1, "b": 2})
        await trio.sleep(1)

    assert seen == [{"a": 1}]


async def test_a_lost_lease_cancels(autojump_clock, engine):
    """A job that was taken away is cancelled at the next renewal, and nothing is written for it."""
    cancelled = []

    async def handler(job, ctx):
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(trio.current_time())

    async with at_work(worker(handler, engine, timeout=30)) as seen:
        key = await one(engine)
        await trio.sleep(12)
        await engine.cancel(key)
        await trio.sleep(10)
        info = await engine.find(key)

    assert cancelled == [20]
    assert (info.state, seen.outcomes()) == (State.CANCELLED, ["superseded"])
    assert seen.times("LeaseGone", job=key) == [20]


async def test_without_renewal_the_lease_is_the_limit(autojump_clock, engine):
    """Without renewal a handler is cancelled when its lease ends, and the job is handed out again."""
    starts = []

    async def handler(job, ctx):
        starts.append(trio.current_time())
        if len(starts) == 1:
            await trio.sleep(100)

    async with at_work(worker(handler, engine, timeout=30, renew=False)) as seen:
        info = await settled(engine, await one(engine))

    assert starts == [0, 30]
    assert (info.state, seen.outcomes()) == (State.COMPLETED, ["superseded", "completed"])


async def test_waited_for_too_long(autojump_clock, engine):
    """A job whose lease ran out while it waited here for a place is dropped, not run."""
    runs = []

    async def handler(job, ctx):
        runs.append((job.variables["name"], trio.current_time()))
        with trio.CancelScope(shield=True):
            await trio.sleep(40)

    await put(engine, "x", "y")
    spec = worker(handler, engine, concurrency=1, max_jobs_activated=2, timeout=30, renew=False)
    async with at_work(spec) as seen:
        await trio.sleep(50)
        assert seen.outcomes().count("expired") == 1

    assert [time for name, time in runs if name == "y"] == [40]
    assert "superseded" in seen.outcomes() or "completed" in seen.outcomes()


async def test_no_intake_while_a_breaker_is_open(autojump_clock, engine):
    """While a dependency that jobs need refuses calls none is taken; then one is tried, then the rest."""
    bank = Dependency("bank", breaker=BreakerPolicy(failures=2, open_for=10, jitter=0), timeout=5)
    runs = []

    async def call():
        if trio.current_time() < 5:
            raise ConnectionError
        await trio.sleep(1)

    async def handler(job, ctx):
        runs.append(trio.current_time())
        await bank.call(call)

    async with at_work(worker(handler, engine, concurrency=2, requires=[bank])) as seen:
        keys = await put(engine, *"abcdef", retries=2)
        await trio.sleep(30)

    assert runs == [0, 0, 10, 11, 11, 12, 12, 13]
    assert seen.times("IntakePaused", dependency="bank") == [0]
    assert len(seen.times("IntakeResumed")) == 1
    assert [(await engine.find(key)).retries for key in keys] == [1, 1, 2, 2, 2, 2]


async def test_two_replicas_share(autojump_clock, engine):
    """Replicas share the work, and each job is handled once."""
    runs = []

    async def handler(job, ctx):
        runs.append((job.variables["name"], ctx.replica))
        await trio.sleep(1)

    await put(engine, *map(str, range(40)))
    async with at_work(worker(handler, engine), replicas=2):
        await until(lambda: _all_done(engine, 40))

    assert sorted(int(name) for name, _ in runs) == list(range(40))
    assert {replica for _, replica in runs} == {0, 1}


async def test_a_limit_is_kept_over_replicas(autojump_clock, engine):
    """A limit of a type holds over all workers, and what it held back runs when a place is free."""
    running = peak = 0

    async def handler(job, ctx):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await trio.sleep(1)
        running -= 1

    await engine.limit("a", 3)
    await put(engine, *map(str, range(9)))
    async with at_work(worker(handler, engine), replicas=2):
        await until(lambda: _all_done(engine, 9))

    assert peak == 3
    assert trio.current_time() < 9


async def test_completed_by_its_own_transaction(autojump_clock, engine):
    """A job completed in its own transaction is done, whatever its handler does afterwards."""
    await engine.run(lambda db: db.execute("CREATE TABLE effects (x TEXT)"))

    async def handler(job, ctx):
        await job.transaction(lambda db: db.execute("INSERT INTO effects VALUES ('x')") and None)
        raise ValueError("too late to matter")

    async with at_work(worker(handler, engine)) as seen:
        info = await settled(engine, await one(engine))
        await trio.sleep(1)

    assert (info.state, seen.outcomes()) == (State.COMPLETED, ["completed"])


async def test_a_handler_that_ends_the_process(autojump_clock, engine):
    """SystemExit in a handler ends the tree, and the job keeps its count of deliveries."""

    async def handler(job, ctx):
        raise SystemExit(3)

    key = await one(engine)
    with pytest.raises(SystemExit):
        async with at_work(worker(handler, engine)):
            await trio.sleep_forever()

    info = await engine.find(key)
    assert (info.state, info.deliveries) == (State.READY, 1)


async def test_as_a_decorator(autojump_clock, engine):
    """The decorator declares a worker without an engine; a tree with one like that starts nothing, and says why."""

    async def never(ctx):
        raise AssertionError

    @job_worker("a", concurrency=2)
    async def charge(job, ctx):
        return {"ok": True}

    assert await charge.handler(None, None) == {"ok": True}
    with pytest.raises(
        SpecError, match=r"worker 'w': job worker 'a' has no engine: .*\.on\(engine\)"
    ):
        await supervisor.serve(Supervisor("t", [Worker("first", never), Worker("w", charge)]))
    with pytest.raises(OptionError, match="has no engine"):
        await charge(None)
    async with at_work(charge.on(engine)):
        info = await settled(engine, await one(engine))
    assert info.state is State.COMPLETED
    assert Worker("w", charge.on(engine)).kind == "function"


async def test_variables_that_somebody_else_wrote(autojump_clock, engine):
    """A job whose stored variables are not JSON is set aside, and the next one is handled."""
    bad, good = await put(engine, "bad", "good")
    await engine.run(
        lambda db: db.execute("UPDATE jobs SET variables = '{no' WHERE id = ?", (int(bad),))
    )
    async with at_work(worker(nothing, engine)) as seen:
        info = await settled(engine, good)
        (poison,) = await engine.poison()

    assert info.state is State.COMPLETED
    assert (poison.key, poison.variables) == (bad, "{no")
    assert seen.times("JobIncident", job=bad, poison=True) == [0]
    assert (await engine.exchange((), claim(fetch=("name",)))).jobs == ()


async def test_many_quick_jobs(autojump_clock, engine):
    """Jobs that take no time are all handled, in no time, each once."""
    done = []

    async def handler(job, ctx):
        done.append(job.key)

    await engine.enqueue_many(NewJob("a") for _ in range(500))
    async with at_work(worker(handler, engine, concurrency=32)):
        await until(lambda: _all_done(engine, 500))

    assert len(done) == len(set(done)) == 500


async def test_each_failed_attempt_is_reported_with_its_error(autojump_clock, engine, caplog):
    """A handler that fails is seen at once, as a warning with its traceback, long before the retries are used up."""

    async def handler(job, ctx):
        raise TypeError("the gateway has no method pay")

    async with at_work(worker(handler, engine)) as seen:
        key = await one(engine, retries=2)
        info = await settled(engine, key)

    found = [event for event in seen.events if event.kind == "JobFailed"]
    assert info.state is State.INCIDENT
    assert [(e.job, e.attempt, e.retries, e.retry_in) for e in found] == [
        (key, 1, 1, 1),
        (key, 2, 0, 0),
    ]
    assert all(isinstance(event.error, TypeError) for event in found)

    log_event(found[0])
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert "may fail once more" in line.getMessage()
    assert line.exc_info is not None
    assert line.exc_info[1] is found[0].error


async def test_what_is_no_failure_is_not_reported_as_one(autojump_clock, engine):
    """A job that asks for another time, or ends as a business outcome, has not failed."""

    async def handler(job, ctx):
        if job.variables["name"] == "early" and job.snoozes == 0:
            raise FailWithRetry("not yet", retry_in=1)
        if job.variables["name"] == "broke":
            raise BpmnError("declined")

    async with at_work(worker(handler, engine)) as seen:
        keys = await put(engine, "early", "broke")
        for key in keys:
            await settled(engine, key)

    assert "JobFailed" not in seen.kinds()
