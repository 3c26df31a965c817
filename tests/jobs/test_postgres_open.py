"""Opening an engine on PostgreSQL: what is wrong is said at the door, and tables are brought up to date once."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pytest
import trio

from actors.jobs import open_postgres
from actors.jobs.errors import EngineUnreachable, NotSupported, SchemaTooNew
from actors.jobs.postgres import opening, schema
from actors.options import OptionError
from tests.jobs.kit import put, states, take


@pytest.fixture
def empty(server):
    """How to connect to a database without our tables."""
    name = server.create()
    yield server.conninfo(name)
    server.drop(name)


@contextmanager
def refused(error, *words):
    """It raises this, with these words in its text, and no password."""
    with pytest.raises(error) as info:
        yield info
    for word in words:
        assert word in str(info.value)
    assert "secret" not in str(info.value)


async def test_not_a_connection_string():
    """A text that is no connection string is refused without being quoted, since it may hold a password."""
    for text in ("host=h port 5 password=secret", "postgresql://u:secret@h:x:y/d?nonsense=secret"):
        with refused(OptionError, "conninfo", "postgresql://"):
            async with open_postgres(text):
                pass


async def test_no_server():
    """Where no server runs, the error names host, port and database and says what to do."""
    with refused(EngineUnreachable, "127.0.0.1:1,", "'shop'", "Check that the server runs") as info:
        async with open_postgres("postgresql://me:secret@127.0.0.1:1/shop"):
            pass

    assert not info.value.unsure


async def test_no_such_database(server):
    """A database that is not there is named by the server's own reason."""
    with refused(EngineUnreachable, 'database "nobody" does not exist'):
        async with open_postgres(f"{server.conninfo('nobody')} password=secret"):
            pass


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("schema", 'x"; DROP'),
        ("schema", "Big"),
        ("schema", "x" * 41),
        ("driver", "asyncio"),
        ("connections", 0),
        ("connections", True),
    ],
)
async def test_arguments_that_cannot_work(option, value):
    """An argument that cannot work is refused by name, before anything is connected."""
    with pytest.raises(OptionError, match=option):
        async with open_postgres("host=nowhere", **{option: value}):
            pass


async def test_without_psycopg(monkeypatch):
    """Without the driver, the error names the extra to install."""
    monkeypatch.setattr(opening, "find_spec", lambda name: None)

    with pytest.raises(NotSupported, match=r"pip install 'treewarden\[postgres\]'"):
        async with open_postgres():
            pass


async def test_a_psycopg_that_was_not_tried(where, monkeypatch):
    """The native driver refuses a version of psycopg that it was not tried with; threads take it."""
    monkeypatch.setattr(psycopg, "__version__", "3.9.1")

    with pytest.raises(NotSupported, match=r"psycopg 3\.9\.1.*use driver='threads'"):
        async with open_postgres(where, driver="native"):
            pass
    async with open_postgres(where) as engine:
        assert await states(engine) == {}


async def test_a_server_that_is_too_old(where, monkeypatch):
    """A server older than what is supported is refused."""
    monkeypatch.setattr(schema, "OLDEST", 999999)

    with pytest.raises(NotSupported, match="13 or later"):
        async with open_postgres(where):
            pass


async def test_a_later_schema_is_refused(where, server):
    """A database of a later version is refused with both numbers, and not changed."""
    database = where.rpartition("=")[2]
    server.sql(database, f"UPDATE treewarden.jobs_schema SET version = {schema.VERSION + 1}")
    try:
        with pytest.raises(SchemaTooNew) as info:
            async with open_postgres(where):
                pass
        (found,) = server.sql(database, "SELECT version FROM treewarden.jobs_schema")
    finally:
        server.sql(database, f"UPDATE treewarden.jobs_schema SET version = {schema.VERSION}")

    assert (info.value.found, info.value.known) == (schema.VERSION + 1, schema.VERSION)
    assert found == (schema.VERSION + 1,)
    assert "database" in str(info.value)


async def test_migrated_by_many_at_once(empty, driver):
    """Nodes that open a new database at once all succeed, and it is migrated once."""

    async def start():
        options = {"driver": driver.removeprefix("postgres-"), "connections": 1}
        async with open_postgres(empty, **options) as engine:
            await put(engine, "x")

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(start)

    async with open_postgres(empty, migrate=False) as engine:
        assert await states(engine) == {"ready": 6}


async def test_told_not_to_migrate(empty):
    """Without leave to change the database, one without our tables is refused and stays as it is."""
    with pytest.raises(NotSupported, match="migrate=True"):
        async with open_postgres(empty, migrate=False):
            pass
    with psycopg.connect(empty) as db:
        assert db.execute("SELECT FROM pg_namespace WHERE nspname = 'treewarden'").rowcount == 0


async def test_schemas_keep_apart(where):
    """Two engines with schemas of their own in one database see nothing of each other."""
    async with open_postgres(where) as one, open_postgres(where, schema="other") as two:
        await put(one, "x")

        assert await states(two) == {}
        assert await states(one) == {"ready": 1}


async def test_behind_a_pooler(where):
    """Told of a pooler, an engine prepares nothing, sets nothing, and does not listen."""
    async with open_postgres(where, pooler=True) as engine:
        for name in "abcdefgh":
            await put(engine, name)
        seen = await engine.statistics()
        prepared = await engine.run(
            lambda db: db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0]
        )

    assert seen.listener is None
    assert prepared == 0


async def test_a_name_for_keys(where):
    """The engine is called as it is told, or after its database and a schema that is not the usual one."""
    async with open_postgres(where, name="shop") as engine:
        assert engine.name == "shop"
    async with open_postgres(where) as engine:
        assert engine.name == where.rpartition("=")[2]
        await put(engine, "x")
        usual = (await take(engine))["x"]
    async with open_postgres(where, schema="other") as engine:
        await put(engine, "x")
        other = (await take(engine))["x"]
        assert other.key == usual.key
        assert other.idempotency_key != usual.idempotency_key
        assert engine.name in repr(engine)


async def test_a_name_from_a_service_file(where, tmp_path, monkeypatch):
    """A connection that a service file describes is named after its database, and not after whoever connects."""
    known = psycopg.conninfo.conninfo_to_dict(where)
    lines = [f"{word}={value}" for word, value in known.items()]
    (tmp_path / "services").write_text("\n".join(["[shop]", *lines]), "utf-8")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))

    async with open_postgres("service=shop") as engine:
        assert engine.name == known["dbname"]


@pytest.mark.parametrize("schema", ["user", "order", "all", "pg_jobs"])
async def test_a_schema_that_is_a_word_of_the_server_s(empty, schema):
    """A schema that cannot be called so is refused by name, before anything is made."""
    with pytest.raises(OptionError, match=r"schema '.*' is a word of PostgreSQL's own"):
        async with open_postgres(empty, schema=schema):
            pass
