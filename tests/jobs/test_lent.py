"""What every engine promises about a connection that it lends to a function of a user's, or is lent by one."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress

import psycopg
import pytest
import trio
import trio.testing
from psycopg.rows import dict_row

from actors.jobs import NewJob, open_postgres, open_sqlite
from tests.jobs.kit import ask, claim, put, states, take


def named(cursor, row):
    """A row as a dictionary, as people like to have it."""
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


async def test_rows_as_a_user_likes_them(engine):
    """How a function wants its rows is over with it: the engine goes on, and the next function finds none of it."""

    def mine(db):
        db.row_factory = named if isinstance(db, sqlite3.Connection) else dict_row
        for _ in range(2):
            engine.enqueue_in(db, NewJob("a", {"name": "x"}, unique="u"))
        return db.execute("SELECT 1 AS one").fetchall()

    assert await engine.run(mine) == [{"one": 1}]

    assert await ask(engine, "SELECT 1") == [(1,)]
    found = await take(engine)
    assert (await engine.find(found["x"].key)).key == found["x"].key
    assert await found["x"].transaction(lambda db: mine(db)[0]) == {"one": 1}
    assert await states(engine) == {"completed": 1}


async def test_a_connection_of_the_user_s(where, tmp_path):
    """A job enqueued on a user's own connection has its key, whatever that connection makes of rows."""
    async with open_postgres(where) as engine:
        with psycopg.connect(where, row_factory=dict_row) as db:
            first, again = (engine.enqueue_in(db, NewJob("a", unique="u"))[0] for _ in range(2))
        assert (first.created, again) == (True, (first.key, False))
        assert (await engine.find(first.key)).type == "a"
    async with open_sqlite(tmp_path / "x.db") as engine:
        with closing(sqlite3.connect(tmp_path / "x.db")) as db:
            db.row_factory = named
            first, again = (engine.enqueue_in(db, NewJob("a", unique="u"))[0] for _ in range(2))
            db.commit()
        assert (first.created, again) == (True, (first.key, False))
        assert (await engine.find(first.key)).type == "a"


@pytest.mark.parametrize("factory", [psycopg.ClientCursor, psycopg.RawCursor])
async def test_cursors_of_the_user_s(where, factory):
    """Whatever cursors a user's connection makes, also a lent one from now on, a job is put in and completed."""

    def mine(db):
        db.cursor_factory = factory
        return {"keys": len(engine.enqueue_in(db, NewJob("a", {"name": "y"}, unique="u")))}

    async with open_postgres(where) as engine:
        with psycopg.connect(where, cursor_factory=factory) as db:
            (first,) = engine.enqueue_in(db, NewJob("a", {"name": "x €"}, unique="u"))
        job = (await take(engine))["x €"]
        assert job.key == first.key
        assert await job.transaction(mine) == {"keys": 1}
        assert await states(engine) == {"completed": 1}


@pytest.mark.parametrize("autocommit", [False, True])
async def test_a_pipeline_of_the_user_s(where, autocommit):
    """A job that is enqueued within a caller's pipeline has its key, and is there when the caller has committed."""
    async with open_postgres(where) as engine:
        with psycopg.connect(where, autocommit=autocommit) as db, db.pipeline():
            db.execute("CREATE TABLE mine (n int)")
            made = [engine.enqueue_in(db, NewJob("a", unique="u")) for _ in range(2)]
        assert [(one.created, len(some)) for some in made for one in some] == [
            (True, 1),
            (False, 1),
        ]
        assert await states(engine) == {"ready": 1}


def by_block(db):
    with db:
        db.execute("INSERT INTO effects VALUES (1)")


def by_hand(db):
    db.execute("INSERT INTO effects VALUES (1)")
    db.commit()


def by_closing(db):
    with closing(db):
        db.execute("INSERT INTO effects VALUES (1)")


def by_script(db):
    db.execute("INSERT INTO effects VALUES (1)")
    db.executescript("INSERT INTO effects VALUES (2);")


def by_script_of_a_cursor(db):
    db.cursor().executescript("INSERT INTO effects VALUES (1);")


def by_statement(db):
    db.execute("INSERT INTO effects VALUES (1)")
    db.execute("commit")


def by_statement_of_a_cursor(db):
    db.execute("INSERT INTO effects VALUES (1)")
    db.cursor().execute(" END")


def by_conflict(db):
    db.execute("CREATE UNIQUE INDEX once ON effects (n)")
    db.execute("INSERT INTO effects VALUES (1)")
    with suppress(sqlite3.IntegrityError):
        db.execute("INSERT OR ROLLBACK INTO effects VALUES (1)")
    db.execute("INSERT INTO effects VALUES (2)")


SCRIPTS = (by_script, by_script_of_a_cursor, by_statement, by_statement_of_a_cursor)


@pytest.mark.parametrize("fn", [by_block, by_hand, by_closing])
async def test_a_function_that_ends_the_transaction(engine, fn):
    """A function that would end its transaction by itself fails, nothing of it is there, and the engine goes on."""
    await ask(engine, "CREATE TABLE effects (n bigint)")
    await put(engine, "x")
    job = (await take(engine))["x"]

    with trio.fail_after(60):
        with pytest.raises((sqlite3.Error, psycopg.Error, ConnectionError)):
            await job.transaction(fn)

        assert await ask(engine, "SELECT count(*) FROM effects") == [(0,)]
        assert await states(engine) == {"active": 1}
        assert await engine.activate(claim()) == ()


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("fn", SCRIPTS)
async def test_statements_that_end_the_transaction(tmp_path, fn, alone):
    """In SQLite a script or a COMMIT does not end the transaction either, and who shares the commit is none the worse."""
    async with open_sqlite(tmp_path / "x.db") as engine:
        await ask(engine, "CREATE TABLE effects (n bigint)")
        await put(engine, "x")
        job = (await take(engine))["x"]
        begun, go_on = trio.Event(), threading.Event()

        def slow(db):
            trio.from_thread.run_sync(begun.set, trio_token=token)
            go_on.wait(60)

        async def fails():
            with pytest.raises(sqlite3.ProgrammingError, match="leave out"):
                await job.transaction(fn)

        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.run, slow)
            await begun.wait()
            nursery.start_soon(fails)
            if not alone:
                nursery.start_soon(engine.enqueue, NewJob("b"))
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()

        assert await ask(engine, "SELECT count(*) FROM effects") == [(0,)]
        assert await states(engine) == {"active": 1}
        assert await states(engine, "b") == ({} if alone else {"ready": 1})


async def test_a_transaction_that_is_rolled_back_by_a_statement(tmp_path):
    """When SQLite has rolled back what a function wrote, the function fails, and what it does afterwards is not there alone."""
    async with open_sqlite(tmp_path / "x.db") as engine:
        await ask(engine, "CREATE TABLE effects (n bigint)")
        await put(engine, "x")
        job = (await take(engine))["x"]

        with pytest.raises(sqlite3.OperationalError, match="was rolled back"):
            await job.transaction(by_conflict)

        assert await states(engine) == {"active": 1}


async def test_savepoints_of_a_user_s(engine):
    """A function may have savepoints, and go back to them."""

    def fn(db):
        db.execute("CREATE TABLE effects (n bigint)")
        db.execute("SAVEPOINT one")
        db.execute("INSERT INTO effects VALUES (1)")
        db.execute("ROLLBACK TO SAVEPOINT one")
        db.execute("ROLLBACK TRANSACTION TO SAVEPOINT one")
        db.execute("RELEASE SAVEPOINT one")
        db.execute("INSERT INTO effects VALUES (2)")

    await engine.run(fn)

    assert await ask(engine, "SELECT n FROM effects") == [(2,)]
