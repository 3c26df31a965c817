"""One job, by its key: looked at, tried again, and cancelled from outside."""

from __future__ import annotations

import pytest
import trio

from actors.jobs import JobWorker, MemoryEngine, NewJob
from supervision import Supervisor, Worker
from supervision.observer import Observer
from tests.observer.kit import charge, do, get, seen

OPTIONS = Observer("unix:/x", actions=True)


def till(*engines):
    """A tree that takes jobs from each of the engines."""
    return Supervisor(
        "shop",
        [
            Worker(f"charges-{n}", JobWorker("charge", charge, engine=engine))
            for n, engine in enumerate(engines)
        ],
    )


async def put(engine, how="", **options):
    """One job, and time for it to get where it goes."""
    options.setdefault("retries", 1)
    key = (await engine.enqueue(NewJob("charge", {"how": how}, **options))).key
    await trio.sleep(2)
    return key


async def how(server, key):
    """Its state, from outside."""
    (job,) = (await get(server, f"/api/jobs?key={key}"))[1]["jobs"]
    return job["state"]


@pytest.mark.parametrize(
    ("kind", "options", "n", "said", "after"),
    [
        ("incident", {"retries": 3}, None, "will be tried again; retries: 3", "incident"),
        ("incident", {"retries": 3}, 7, "will be tried again; retries: 7", "incident"),
        ("fails", {}, None, "will be tried again; retries: 1", "incident"),
        ("later", {}, None, "is due now", "scheduled"),
        ("", {"delay": 500.0}, None, "is due now", "completed"),
        ("", {"delay": 500.0}, 9, "is due now", "completed"),
        ("hangs", {}, 9, "is active; retries: 9", "active"),
    ],
)
async def test_another_try(autojump_clock, kind, options, n, said, after):
    """Retrying does what the job needs: an incident is ended, and one that waits is due; it then runs once more."""
    engine = MemoryEngine()
    async with seen(till(engine), OPTIONS) as server:
        key = await put(engine, kind, **options)
        before = await engine.find(key)
        status, answer = await do(server, "retry", key=key, **({} if n is None else {"n": n}))
        assert (status, answer["done"]) == (200, [key])
        assert answer["said"].startswith(f"{key} {said}")
        await trio.sleep(2)

        assert await how(server, key) == after
        job = await engine.find(key)
        runs = job.attempt + job.snoozes - before.attempt - before.snoozes
        assert runs == (0 if kind == "hangs" else 1)
        if n is not None:
            assert job.retries == n


async def test_what_cannot_be_tried_again(autojump_clock):
    """The answer says how the job is: it runs, it is ready, it has ended, or there is none."""
    engine = MemoryEngine()
    async with seen(till(engine), OPTIONS) as server:
        done, runs = await put(engine), await put(engine, "hangs")
        await engine.pause("charge")
        ready = await put(engine)
        refused = {
            done: "it has ended: it is completed; enqueue a new one",
            runs: "it runs now, at shop/charges-0/0",
            ready: "it is ready already",
            "999": "no engine of this tree has a job '999'",
        }
        for key, why in refused.items():
            _, answer = await do(server, "retry", key=key)
            assert answer["done"] == []
            assert why in answer["failed"][key]


async def test_cancelling(autojump_clock):
    """Whatever is not finished can be ended, and a handler that runs with it; what is finished stays as it is."""
    engine = MemoryEngine()
    async with seen(till(engine), OPTIONS) as server:
        later, aside, runs, done = [
            await put(engine, kind, delay=delay)
            for kind, delay in (("", 5000.0), ("incident", 0.0), ("hangs", 0.0), ("", 0.0))
        ]
        assert (await do(server, "cancel", key=later))[0] == 409
        for key in (later, aside, runs):
            _, answer = await do(server, "cancel", key=key, confirm=True)
            assert answer["said"].startswith(f"{key} is cancelled")
            assert await how(server, key) == "cancelled"
        assert "its handler is" in answer["said"]
        await trio.sleep(60)
        assert server.site.pool.info("charges-0").state == "running"
        _, answer = await do(server, "cancel", key=done, confirm=True)
        assert "it is completed" in answer["failed"][done]
        assert (await engine.statistics()).jobs["charge"] == {"cancelled": 3, "completed": 1}


async def test_a_key_that_two_engines_have(autojump_clock):
    """Nothing is done to a job that could be another; its engine says which is meant."""
    one, two = MemoryEngine("one"), MemoryEngine("two")
    async with seen(till(one, two), OPTIONS) as server:
        key = await put(one, "incident")
        assert await put(two, "incident") == key
        _, answer = await get(server, f"/api/jobs?key={key}")
        assert [job["engine"] for job in answer["jobs"]] == ["one", "two"]

        for verb in ("retry", "cancel", "requeue", "drop"):
            _, answer = await do(server, verb, key=key, confirm=True)
            assert "one and two" in answer["failed"][key]
        _, answer = await do(server, "cancel", key=key, engine="two", confirm=True)
        assert answer["done"] == [key]

        assert (await one.find(key)).state == "incident"
        assert (await two.find(key)).state == "cancelled"
        # Only one of them is an incident now, so there is no doubt which one is dropped.
        assert (await do(server, "drop", key=key, confirm=True))[1]["done"] == [key]
        _, answer = await do(server, "drop", key=key, confirm=True)
        assert "a job that needs a person" in answer["failed"][key]


@pytest.mark.parametrize("shown", [True, False])
async def test_what_is_in_a_job(autojump_clock, shown):
    """Variables and results are shown only if the observer was made to."""
    engine = MemoryEngine()
    options = Observer("unix:/x", actions=True, show_messages=shown)
    async with seen(till(engine), options) as server:
        key = await put(engine)
        _, answer = await get(server, f"/api/jobs?key={key}&engine={engine.name}")
        assert ("4111" in str(answer)) is shown
        assert ("variables" in answer["jobs"][0]) is shown
        assert (await get(server, f"/api/jobs?key={key}&engine=other"))[0] == 404
