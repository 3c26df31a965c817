"""PostgreSQL as somebody else has set it: the engine's promises do not depend on a database's defaults."""

from __future__ import annotations

from contextlib import AsyncExitStack, contextmanager

import psycopg
import pytest
import trio

from actors.jobs import KeyBusy, PostgresIdempotencyStore, Settlement
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
