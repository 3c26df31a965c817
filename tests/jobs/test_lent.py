"""What every engine promises about a connection that it lends to a function of a user's, or is lent by one."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest
import trio
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


def by_block(db):
    with db:
        db.execute("INSERT INTO effects VALUES (1)")


def by_hand(db):
    db.execute("INSERT INTO effects VALUES (1)")
    db.commit()


def by_closing(db):
    with closing(db):
        db.execute("INSERT INTO effects VALUES (1)")


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
