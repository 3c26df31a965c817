"""Jobs by their state, from outside: which are listed, what is shown of them, and what is refused."""

from __future__ import annotations

import pytest
import trio

from actors.jobs import Engine, JobWorker, MemoryEngine, NewJob
from supervision import Supervisor, Worker
from supervision.observer import Observer
from tests.observer.kit import PUBLIC, charge, do, get, seen

OPTIONS = Observer("unix:/x", actions=True)
LIST = "/api/jobs?state=incident"


def till(*engines):
    """A tree that takes two types of jobs from each of the engines."""
    return Supervisor(
        "shop",
        [
            Worker(f"{kind}s-{n}", JobWorker(kind, charge, engine=engine))
            for n, engine in enumerate(engines)
            for kind in ("charge", "mail")
        ],
    )


async def put(engine, how="incident", *, of="charge"):
    """One job, and time for it to get where it goes."""
    job = NewJob(of, {"how": how, "card": "4111"}, retries=1)
    key = (await engine.enqueue(job)).key
    await trio.sleep(2)
    return key


async def keys(server, query=""):
    """The keys of what is listed."""
    status, answer = await get(server, f"{LIST}{query}")
    assert status == 200, answer
    return [job["key"] for job in answer["jobs"]]


async def test_what_waits_for_a_person(autojump_clock):
    """Incidents of every kind are listed with their errors, the oldest first, by type too, and none that is no incident."""
    engine = MemoryEngine()
    async with seen(till(engine), OPTIONS) as server:
        one, two, three = [await put(engine, how) for how in ("incident", "fails", "poison")]
        await put(engine, "")
        other = await put(engine, of="mail")

        _, answer = await get(server, LIST)
        assert [job["key"] for job in answer["jobs"]] == [one, two, three, other]
        assert [job["error"] for job in answer["jobs"]] == [
            "have a look",
            "ValueError('no luck')",
            "it can never work",
            "have a look",
        ]
        first = answer["jobs"][0]
        assert (first["engine"], first["type"], first["state"]) == ("memory", "charge", "incident")
        assert (first["retries"], round(first["incident_for"]), answer["more"]) == (1, 10, False)
        assert await keys(server, "&type=mail&engine=memory") == [other]
        assert await keys(server, "&type=nothing") == []


async def test_no_more_than_asked_for(autojump_clock):
    """A list that was cut says that there are more."""
    engine = MemoryEngine()
    async with seen(till(engine), OPTIONS) as server:
        made = [await put(engine) for _ in range(3)]
        for most, more in ((0, True), (2, True), (3, False)):
            _, answer = await get(server, f"{LIST}&most={most}")
            assert ([job["key"] for job in answer["jobs"]], answer["more"]) == (made[:most], more)


async def test_over_several_engines(autojump_clock):
    """Engines are listed together, the oldest job first, each line with its engine; one alone if it is named."""
    one, two = MemoryEngine("one"), MemoryEngine("two")
    async with seen(till(one, two), OPTIONS) as server:
        for engine in (two, one, two):
            await put(engine)
        for kind in ("ready", "active", "incident"):
            assert (await get(server, f"/api/jobs?state={kind}"))[0] == 200
        _, answer = await get(server, f"{LIST}&most=2")
        assert [job["engine"] for job in answer["jobs"]] == ["two", "one"]
        assert answer["more"]
        assert await keys(server, "&engine=one") == ["1"]


async def test_what_is_listed_can_be_acted_on(autojump_clock):
    """Each line names what an action needs: engine and key."""
    one, two = MemoryEngine("one"), MemoryEngine("two")
    async with seen(till(one, two), OPTIONS) as server:
        for engine in (one, two):
            await put(engine)
        _, answer = await get(server, LIST)
        for job in answer["jobs"]:
            named = {name: job[name] for name in ("engine", "key")}
            assert (await do(server, "cancel", **named, confirm=True))[1]["done"] == [job["key"]]
        assert await keys(server) == []


@pytest.mark.parametrize("shown", [True, False])
async def test_what_is_in_jobs(autojump_clock, shown):
    """Variables and results are listed only if the observer was made to show them."""
    engine = MemoryEngine()
    options = Observer("unix:/x", show_messages=shown)
    async with seen(till(engine), options) as server:
        await put(engine)
        await put(engine, "")
        for state in ("incident", "completed"):
            _, answer = await get(server, f"/api/jobs?state={state}")
            assert ("4111" in str(answer)) is shown
            assert ("variables" in answer["jobs"][0]) is shown
            assert ("result" in answer["jobs"][0]) is shown


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("", 400, "needs ?key=... or ?state=..."),
        ("?key=1&state=incident", 400, "needs ?key=... or ?state=..."),
        ("?state=incidents", 400, "Did you mean 'incident'?"),
        ("?state=incident&most=few", 400, "most is a whole number"),
        ("?state=incident&type=\ud800", 400, "half a character"),
        ("?state=incident&engine=other", 404, "known: memory"),
    ],
)
async def test_what_cannot_be_listed(autojump_clock, query, status, says):
    """A question that means nothing is answered by what is wrong with it."""
    engine = MemoryEngine()
    async with seen(till(engine), OPTIONS) as server:
        await put(engine)
        found, answer = await get(server, f"/api/jobs{query}")
        assert (found, says in answer["error"]) == (status, True), answer


async def test_a_tree_without_jobs(autojump_clock):
    """Nobody takes jobs, so there are none to list."""
    async with seen(None, OPTIONS) as server:
        assert await keys(server) == []


async def test_who_may_not_look(autojump_clock):
    """From another machine the list needs the token, as all that is looked at."""
    async with seen(None, Observer("unix:/x", token="correct horse")) as server:
        assert (await get(server, LIST, peer=PUBLIC))[0] == 403


class Without(MemoryEngine):
    """An engine that cannot list."""

    jobs = Engine.jobs


class Silent(MemoryEngine):
    """An engine that does not answer."""

    async def jobs(self, state, job_type=None, *, most=100):
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("kind", "status", "says"),
    [(Without, 409, "does not support listing jobs"), (Silent, 503, "does not answer")],
)
async def test_an_engine_that_cannot(autojump_clock, kind, status, says):
    """One that cannot list, or is silent, is told as such, and the others can be listed by their names."""
    one, two = kind("one"), MemoryEngine("two")
    async with seen(till(one, two), OPTIONS) as server:
        await put(one)
        key = await put(two)
        found, answer = await get(server, LIST)
        assert (found, says in answer["error"]) == (status, True), answer
        assert await keys(server, "&engine=two") == [key]


async def test_what_needs_a_look_leads_there(autojump_clock):
    """The line about incidents names the type and the engine that the list is asked for by."""
    engine = MemoryEngine()
    async with seen(till(engine), OPTIONS) as server:
        key = await put(engine, of="mail")
        _, frame = await get(server, "/api/snapshot")
        (look,) = [look for look in frame["look"] if look["kind"] == "queue"]
        assert (look["path"], look["engine"]) == ("mail", "memory")
        assert await keys(server, f"&type={look['path']}&engine={look['engine']}") == [key]
