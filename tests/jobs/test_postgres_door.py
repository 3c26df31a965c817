"""The door to PostgreSQL, and what stands before it: wrong addresses, servers that are away, schemas of another time."""

from __future__ import annotations

import sys
import traceback

import psycopg
import pytest
import trio

from actors.jobs import Incident, JobWorker, NewJob, open_postgres
from actors.jobs.errors import EngineUnreachable, NotSupported, SchemaTooNew
from actors.jobs.postgres.schema import VERSION
from actors.options import OptionError
from supervision import Supervisor, Worker, supervisor
from tests.jobs.kit import ask, on_postgres, put, states, take
from tests.jobs.server import Server

PATIENCE = 60
SECRET = "open-sesame"


async def refused(conninfo, **options):
    """What is said when it is opened."""
    with pytest.raises((EngineUnreachable, OptionError)) as info:
        async with open_postgres(conninfo, connect_timeout=2, **options):
            pass
    told = f"{info.value!r} {''.join(traceback.format_exception(info.value))}"
    assert SECRET not in told.replace(repr(conninfo), "")
    return info.value


async def test_no_connection_string(driver):
    """What is no connection string is refused with how to write one, and without its password."""
    for text in (
        f"postgresql://u:{SECRET}@[host/db",
        f"pasword={SECRET} host=x",
        "no",
        "host='x",
    ):
        error = await refused(text, driver=driver.removeprefix("postgres-"))
        assert isinstance(error, OptionError)
        assert "postgresql://user@host:5432/database" in str(error)


@pytest.mark.parametrize(
    "options", [{"driver": "asyncpg"}, {"schema": "a b"}, {"schema": ""}, {"connections": 0}]
)
async def test_refused_before_anything_is_connected(options):
    """An option that cannot be is refused where it is written."""
    with pytest.raises(OptionError):
        async with open_postgres("host=/nowhere", **options):
            pass


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dbname": "nobody_made_it"}, "nobody_made_it"),
        ({"port": "1"}, "cannot be reached"),
        ({"host": "/nowhere"}, "cannot be reached"),
        ({"user": "nobody_knows"}, "nobody_knows"),
    ],
    ids=lambda value: str(value),
)
async def test_an_address_where_nobody_is(driver, where, change, why):
    """A server, database or user that is not there is one clear error, which names where, says that nothing was done, and why."""
    wrong = psycopg.conninfo.make_conninfo(where, password=SECRET, **change)

    error = await refused(wrong, driver=driver.removeprefix("postgres-"))

    assert isinstance(error, EngineUnreachable)
    assert why in str(error)
    assert "nothing was done" in str(error)
    assert not error.unsure


async def test_a_later_schema_is_refused(driver, where):
    """A schema of a later version is refused with both numbers, and not changed."""
    async with on_postgres(where, driver) as engine:
        await put(engine, "x")
        await ask(engine, "UPDATE {s}jobs_schema SET version = ?", VERSION + 1)
        try:
            with pytest.raises(SchemaTooNew, match=f"version {VERSION + 1}.*up to {VERSION}"):
                async with on_postgres(where, driver):
                    pass
            assert await ask(engine, "SELECT version FROM {s}jobs_schema") == [(VERSION + 1,)]
            assert await states(engine) == {"ready": 1}
        finally:
            await ask(engine, "UPDATE {s}jobs_schema SET version = ?", VERSION)


async def test_an_older_schema_is_brought_up_to_date(driver, where, clock):
    """Jobs of a schema that an earlier version wrote are all there, and what it did not keep is not known."""
    async with on_postgres(where, driver, clock=clock) as engine:
        (key,) = await put(engine, "x")
        await engine.settle((await take(engine))["x"].lease, Incident("look"))
        await ask(engine, "DROP INDEX {s}jobs_incident")
        await ask(engine, "ALTER TABLE {s}jobs DROP COLUMN incident_at")
        await ask(engine, "UPDATE {s}jobs_schema SET version = 1")
    clock.pass_(5)
    with pytest.raises(NotSupported, match="open it once with migrate=True"):
        async with on_postgres(where, driver, migrate=False):
            pass

    async with on_postgres(where, driver, clock=clock) as engine:
        (info,) = await engine.jobs("incident")

    assert (info.key, info.age, info.incident_for) == (key, 5, None)


OPEN = """
import sys, trio
from actors.jobs import NewJob, open_postgres

async def main(where, driver):
    async with open_postgres(where, driver=driver, schema="fresh") as engine:
        await engine.enqueue(NewJob("a"))

trio.run(main, *sys.argv[1:])
"""


async def test_migrated_by_processes_at_once(driver, where):
    """Processes that open a new schema at once all succeed, and it is made once."""
    name = driver.removeprefix("postgres-")
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(trio.run_process, [sys.executable, "-c", OPEN, where, name])

    async with open_postgres(where, driver=name, schema="fresh") as engine:
        assert await states(engine) == {"ready": 4}
        await engine.run(lambda db: db.execute("DROP SCHEMA fresh CASCADE") and None)


async def test_a_payload_of_ten_megabytes(driver, where):
    """A payload of 10 MB is taken where the limit allows it, and a worker that wants little of it reads little."""
    seen = []

    async def handler(job, ctx):
        seen.append(job.variables)
        return {"big": "y" * 10_000_000}

    async with on_postgres(where, driver, max_bytes=20_000_000) as engine:
        done = await engine.enqueue(NewJob("a", {"name": "x", "big": "x" * 10_000_000}))
        spec = JobWorker("a", handler, engine=engine, fetch_variables=["name"])
        async with supervisor.running(Supervisor("shop", [Worker("w", spec)]), log=False):
            with trio.fail_after(PATIENCE):
                while (await states(engine)) != {"completed": 1}:
                    await trio.sleep(0.01)
        info = await engine.find(done.key)

    assert seen == [{"name": "x"}]
    assert len(info.result) > 10_000_000


async def test_the_server_goes_and_comes_back(driver):
    """While the server is away callers hear so at once and a worker is unready; when it is back all goes on by itself, nothing is lost."""
    server = await trio.to_thread.run_sync(Server)
    events, ended = [], []

    async def handler(job, ctx):
        await trio.sleep(0.01)
        ended.append(job.variables["name"])

    try:
        where = server.conninfo(server.create())
        async with on_postgres(where, driver, connect_timeout=1) as engine:
            spec = JobWorker("a", handler, engine=engine, poll=0.1, claim_timeout=0.5, timeout=5)
            tree = Supervisor("shop", [Worker("w", spec)])
            async with supervisor.running(tree, log=False, listeners=[events.append]) as pool:
                await put(engine, *map(str, range(20)))
                with trio.fail_after(PATIENCE):
                    while len(ended) < 20:
                        await trio.sleep(0.01)
                    await trio.to_thread.run_sync(lambda: server.stop(at_once=True))
                    with pytest.raises(EngineUnreachable):
                        while True:  # the first may have been under way
                            await put(engine, "lost with an error")
                    while pool.health().ready:
                        await trio.sleep(0.01)
                    assert pool.health().live
                    assert "engine shop" in pool.health().degraded[0]
                    await trio.to_thread.run_sync(server.start)
                    while not pool.health().ready:
                        await trio.sleep(0.01)
                    await put(engine, "after")
                    while "after" not in ended:
                        await trio.sleep(0.01)
                    assert (await states(engine)).keys() == {"completed"}
    finally:
        server.close()

    kinds = [event.kind for event in events]
    assert kinds.count("EngineFailing") == kinds.count("EngineRecovered") >= 1
    assert "Failed" not in kinds
