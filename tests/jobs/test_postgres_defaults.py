"""PostgreSQL as somebody else has set it: the engine's promises do not depend on a database's defaults."""

from __future__ import annotations

from contextlib import AsyncExitStack, contextmanager

import psycopg
import pytest
import trio

from actors.jobs import (
    Completed,
    Incident,
    KeyBusy,
    NotSupported,
    PostgresIdempotencyStore,
    Settlement,
    open_postgres,
)
from tests.jobs.kit import DONE, ask, claim, on_postgres, put, states, take


@contextmanager
def default(where, name, value):
    """New sessions of the database begin with this setting."""
    with psycopg.connect(where, autocommit=True) as db:
        database = db.info.dbname
        db.execute(f"ALTER DATABASE {database} SET {name} = {value}".encode())
        try:
            yield
        finally:
            db.execute(f"ALTER DATABASE {database} RESET {name}".encode())


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_isolation(where, driver, level):
    """With another isolation as its default, of many that claim a key one acts, and a limit holds."""
    began = []

    async def act():
        began.append(1)
        await trio.sleep(0.01)

    async def once(engine, key):
        try:
            await PostgresIdempotencyStore(engine).once(key, act)
        except KeyBusy:
            pass

    async def some(engine):
        taken.extend(await engine.activate(claim(2)))

    with default(where, "default_transaction_isolation", f"'{level}'"):
        async with on_postgres(where, driver) as one, on_postgres(where, driver) as other:
            for n in range(10):
                async with trio.open_nursery() as nursery:
                    for engine in (one, other, one, other):
                        nursery.start_soon(once, engine, f"{n}")
            assert len(began) == 10
            taken = []
            await put(one, *"abcdefgh")
            await one.limit("a", 3)
            async with trio.open_nursery() as nursery:
                for engine in (one, other, one, other):
                    nursery.start_soon(some, engine)
            assert len(taken) == 3
            assert await ask(one, "SHOW transaction_isolation") == [(level,)]


async def test_read_only_for_a_while(where, driver):
    """A database that only reads refuses calls, and when that is over the engine works again with no help."""
    async with AsyncExitStack() as stack:
        with default(where, "default_transaction_read_only", "on"):
            engine = await stack.enter_async_context(on_postgres(where, driver))
            for call in (lambda: put(engine, "x"), lambda: engine.pause("b")):
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                    await call()

        await put(engine, "x")
        await engine.pause("b")
        assert list(await take(engine)) == ["x"]
        assert await states(engine) == {"active": 1}


async def test_a_claim_that_is_cut_short(where, driver):
    """What was settled is not called late when it is told again because the claim that came with it took too long."""
    with default(where, "statement_timeout", "'2s'"):
        async with on_postgres(where, driver) as engine:
            await put(engine, "x")
            lease = (await take(engine))["x"].lease
            await engine.limit("a", 1)
            with psycopg.connect(where) as db:
                db.execute("SELECT FROM treewarden.job_types FOR UPDATE")
                with pytest.raises(psycopg.errors.QueryCanceled):
                    await engine.exchange([Settlement(lease, DONE)], claim())

            found = await engine.exchange([Settlement(lease, DONE)], claim())

            assert found.refused == frozenset()
            assert await states(engine) == {"completed": 1}


SETTINGS = {
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "client_encoding": "'latin1'",
    "default_tablespace": "'pg_default'",
    "datestyle": "'German, DMY'",
    "search_path": "'nowhere'",
    "timezone": "'Asia/Kathmandu'",
}


@pytest.mark.parametrize(("name", "value"), SETTINGS.items(), ids=SETTINGS)
async def test_settings_of_old_programs(server, driver, name, value):
    """However a database has its sessions begin, tables are made, and a job comes back with its text, whole or in part."""
    database = server.create()
    where = server.conninfo(database)
    with default(where, name, value):
        async with on_postgres(where, driver) as engine:
            await put(engine, "€ 東", "\0", "NULL", of="b")
            whole = await take(engine, of="b", most=2)
            part = await take(engine, of="b", fetch=("name",))
            told = [Settlement(whole["€ 東"].lease, Completed('{"x":"€ 東"}'))]
            told += [Settlement(part["NULL"].lease, Incident("€ 東"))]
            assert (await engine.exchange(told)).refused == frozenset()
            assert (await engine.find(whole["€ 東"].key)).result == '{"x":"€ 東"}'
            assert await states(engine, "b") == {"completed": 1, "incident": 1, "active": 1}
    server.drop(database)


async def test_an_encoding_of_the_environment(where, driver, monkeypatch):
    """An encoding that is meant for other programs does not keep texts out."""
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    async with on_postgres(f"{where} client_encoding=latin1", driver) as engine:
        await put(engine, "東")
        assert list(await take(engine)) == ["東"]


def in_encoding(server, encoding):
    name = f"in_{encoding.lower()}"
    server.sql(
        "postgres",
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'",
    )
    return name


async def test_a_database_that_lacks_characters(server):
    """A database in which a job could not say how it ended is refused before anything is made in it."""
    name = in_encoding(server, "LATIN1")
    with pytest.raises(NotSupported, match=r"LATIN1.*make one with ENCODING 'UTF8'"):
        async with open_postgres(server.conninfo(name)):
            pass
    assert server.sql(name, "SELECT FROM pg_namespace WHERE nspname = 'treewarden'") == []
    server.drop(name)


async def test_a_database_without_an_encoding(server, driver):
    """A database that knows no encoding keeps what it is given, and gives it back as text."""
    name = in_encoding(server, "SQL_ASCII")
    async with on_postgres(server.conninfo(name), driver) as engine:
        (key,) = await put(engine, "€ 東")
        job = (await take(engine))["€ 東"]
        assert await engine.settle(job.lease, Incident("€"))
        assert (await engine.find(key)).error == "€"
        assert await states(engine) == {"incident": 1}
    server.drop(name)
