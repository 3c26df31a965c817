"""Roles in PostgreSQL that may do little: what the guide says is enough is enough, and what is not is said in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.jobs import NotSupported, PostgresIdempotencyStore, open_postgres
from tests.jobs.kit import ask, on_postgres, put, states, take

GUIDE = Path(__file__).parents[2] / "docs/how-to/postgres.md"


@pytest.fixture
def few_rights(server):
    """How to connect as a role that has what the guide gives it, to a database that another one has made ready."""
    name = server.create()
    server.sql("postgres", f"CREATE ROLE {name}_shop LOGIN")
    yield server.conninfo(name).replace("user=tests", f"user={name}_shop"), name
    server.drop(name)
    server.sql("postgres", f"DROP ROLE {name}_shop")


async def made_ready(server, name):
    """What a deployment does: the tables, and the grants of the guide."""
    async with open_postgres(server.conninfo(name)) as engine:
        (grants,) = re.findall(r"```sql\n(GRANT .*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
        for grant in grants.strip().splitlines():
            await ask(engine, grant.replace("TO shop", f"TO {name}_shop"))
        await PostgresIdempotencyStore(engine).prune()


async def test_what_a_service_needs(server, driver, few_rights):
    """With the grants of the guide jobs are put in, worked on, listed, set aside, paused and pruned."""
    where, name = few_rights
    await made_ready(server, name)
    async with on_postgres(where, driver, migrate=False) as engine:
        await put(engine, "x", "y")
        jobs = await take(engine)
        assert await jobs["x"].transaction(lambda db: {"done": True}) == {"done": True}
        await engine.pause("a")
        await engine.limit("a", 1)
        assert len(await engine.jobs("active")) == 1
        assert await engine.extend([jobs["y"].lease], 60) == frozenset()
        assert await engine.cancel(jobs["y"].key)
        assert await engine.prune(0) == 2
        await put(engine, *map(str, range(600)))
        assert await states(engine) == {"ready": 600}


async def test_records_that_a_role_cannot_keep(server, driver, few_rights):
    """A role that may not make tables hears so, in words, before anything is done; what there is it can prune."""
    where, name = few_rights
    await made_ready(server, name)
    called = []

    async def call():
        called.append(1)

    async with on_postgres(where, driver, migrate=False) as engine:
        store = PostgresIdempotencyStore(engine)
        with pytest.raises(NotSupported, match="may not make the table of a day"):
            await store.once("key", call)
        assert await store.prune() == 0
    assert called == []
