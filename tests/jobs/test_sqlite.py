"""The file engine: its thread, its transactions, its schema, and what is strange on disk."""

from __future__ import annotations

import sqlite3
import sys
import threading
from random import Random

import pytest
import trio

from actors.jobs import (
    Completed,
    Incident,
    MemoryEngine,
    NewJob,
    SQLIdempotencyStore,
    State,
    open_sqlite,
)
from actors.jobs.errors import DatabaseMoved, NotStorable, SchemaTooNew
from actors.jobs.sqlite import admin
from actors.jobs.sqlite.database import Database, connect
from actors.jobs.sqlite.schema import VERSION
from actors.options import OptionError
from tests.jobs.kit import ask, claim, put, states, take

SLOW = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
async def database(tmp_path):
    found = Database(connect(tmp_path / "x.db"), "x")
    yield found
    await found.aclose()


def held(database):
    """Keep the thread in a write until `release` is set. Returns (begun, release)."""
    begun, release = threading.Event(), threading.Event()

    def hold(db):
        begun.set()
        release.wait(20)
        return "held"

    return hold, begun, release


async def test_concurrent_writes_are_one_commit(database):
    """What was asked for while the thread was busy is one commit, and all of it is written."""
    await database.write(lambda db: db.execute("CREATE TABLE t (x)"))
    hold, begun, release = held(database)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.write, hold)
        await trio.to_thread.run_sync(begun.wait)
        for n in range(50):
            nursery.start_soon(
                database.write, lambda db, n=n: db.execute("INSERT INTO t VALUES (?)", (n,))
            )
        await trio.testing.wait_all_tasks_blocked()
        before = database.commits
        release.set()

    assert database.commits - before == 2
    assert await database.read(lambda db: db.execute("SELECT count(*) FROM t").fetchone()[0]) == 50


async def test_one_that_fails_takes_nothing_with_it(database):
    """Of a group of writes, one that fails is undone alone."""
    await database.write(lambda db: db.execute("CREATE TABLE t (x UNIQUE)"))
    hold, begun, release = held(database)
    errors = []

    async def insert(n):
        try:
            await database.write(lambda db: db.execute("INSERT INTO t VALUES (?)", (n,)))
        except sqlite3.IntegrityError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.write, hold)
        await trio.to_thread.run_sync(begun.wait)
        for n in (1, 2, 2, 3):
            nursery.start_soon(insert, n)
        await trio.testing.wait_all_tasks_blocked()
        release.set()

    assert len(errors) == 1
    rows = await database.read(lambda db: db.execute("SELECT x FROM t ORDER BY x").fetchall())
    assert [row[0] for row in rows] == [1, 2, 3]


async def test_a_write_that_has_begun_is_waited_for(database):
    """A cancelled write that had begun is committed, and its caller hears so; one that had not is withdrawn."""
    await database.write(lambda db: db.execute("CREATE TABLE t (x)"))
    hold, begun, release = held(database)
    heard = []

    async def first():
        with trio.CancelScope() as scope:
            scopes.append(scope)
            heard.append(
                await database.write(
                    lambda db: (hold(db), db.execute("INSERT INTO t VALUES (1)"))[0]
                )
            )

    async def second():
        with trio.CancelScope() as scope:
            scopes.append(scope)
            await database.write(lambda db: db.execute("INSERT INTO t VALUES (2)"))

    scopes = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.to_thread.run_sync(begun.wait)
        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()
        for scope in scopes:
            scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        release.set()

    rows = await database.read(lambda db: db.execute("SELECT x FROM t").fetchall())
    assert ([row[0] for row in rows], heard) == ([1], ["held"])


async def test_cancelled_at_any_moment(database):
    """Whenever its caller is cancelled, a write is there exactly if the caller heard of it."""
    await database.write(lambda db: db.execute("CREATE TABLE t (x)"))
    random, heard = Random(5), []
    for n in range(300):
        with trio.CancelScope(deadline=trio.current_time() + random.uniform(0, 0.0005)):
            await database.write(lambda db, n=n: db.execute("INSERT INTO t VALUES (?)", (n,)))
            heard.append(n)

    rows = await database.read(lambda db: db.execute("SELECT x FROM t ORDER BY x").fetchall())
    assert [row[0] for row in rows] == heard


async def test_migrated_by_processes_at_once(tmp_path):
    """Processes that open a new file at once all succeed, and it is migrated once."""
    program = (
        "import trio, sys\n"
        "from actors.jobs import NewJob, open_sqlite\n"
        "async def main():\n"
        "    async with open_sqlite(sys.argv[1]) as engine:\n"
        "        await engine.enqueue(NewJob('a'))\n"
        "trio.run(main)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "x.db")]
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trio.run_process, command)

    async with open_sqlite(tmp_path / "x.db") as engine:
        assert await states(engine) == {"ready": 3}


async def test_a_read_is_interrupted(database):
    """A cancelled read ends at once, and the connection works afterwards."""
    began = threading.Event()

    def slow(db):
        began.set()
        return db.execute(SLOW).fetchone()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.read, slow)
        await trio.to_thread.run_sync(began.wait)
        nursery.cancel_scope.cancel()

    assert await database.read(lambda db: db.execute("SELECT 7").fetchone()[0]) == 7


async def test_after_the_end(tmp_path):
    """A closed database says so, and its thread is gone."""
    database = Database(connect(tmp_path / "x.db"), "x")
    await database.write(lambda db: db.execute("CREATE TABLE t (x)"))
    await database.aclose()
    await database.aclose()

    with pytest.raises(trio.ClosedResourceError):
        await database.read(lambda db: None)
    database._thread.join(10)
    assert not database._thread.is_alive()


async def test_a_lock_that_is_not_to_be_had(tmp_path, clock):
    """When another program holds the file too long, callers hear of it and the engine works again afterwards."""
    async with open_sqlite(tmp_path / "x.db", clock=clock) as engine:
        await engine.run(lambda db: db.execute("PRAGMA user_version"))
        await engine._runner.read(lambda db: db.execute("PRAGMA busy_timeout = 1").fetchone())
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await put(engine, "x")
        other.execute("ROLLBACK")
        other.close()

        assert len(await put(engine, "x")) == 1


async def test_jobs_outlive_the_process(tmp_path, clock):
    """What was enqueued is there when the file is opened again, and keys stay the same."""
    async with open_sqlite(tmp_path / "x.db", clock=clock) as engine:
        (key,) = await put(engine, "x")
    async with open_sqlite(tmp_path / "x.db", clock=clock) as engine:
        job = (await take(engine))["x"]

    assert (job.key, job.idempotency_key) == (key, f"x/{key}-{int(clock() * 1000):x}")


async def test_a_database_made_anew_gives_no_old_keys_to_the_other_side(tmp_path, clock):
    """A new file counts from 1 again, and its jobs are not taken for those that had these numbers before."""
    seen = []
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        async with open_sqlite(tmp_path / name / "x.db", clock=clock) as engine:
            await put(engine, "x")
            seen.append((await take(engine))["x"])
        clock.pass_(1)

    assert seen[0].key == seen[1].key
    assert seen[0].idempotency_key != seen[1].idempotency_key


async def test_keys_are_not_used_again(tmp_path, clock):
    """The key of a pruned job is never given to another, since it may still be known downstream."""
    async with open_sqlite(tmp_path / "x.db", clock=clock) as engine:
        (old,) = await put(engine, "x")
        await engine.settle((await take(engine))["x"].lease, Completed())
        clock.pass_(10)
        assert await engine.prune(1) == 1
        (new,) = await put(engine, "y")

    assert new != old


@pytest.mark.parametrize("of", [None, "a"])
@pytest.mark.parametrize("state", [State.READY, State.SCHEDULED, State.ACTIVE, State.INCIDENT])
async def test_a_few_among_many(clock, state, of):
    """To list a state costs by what is in it: thousands of finished jobs of the type are passed over unread."""
    engine = MemoryEngine(clock=clock)
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000)"
    columns = "type, state, priority, due_at, retries, variables, created_at, finished_at"
    values = "'a', 'completed', 0, 0, 1, '{}', 0, 0"
    await engine.run(lambda db: db.execute(f"INSERT INTO jobs ({columns}) {many} SELECT {values} FROM c") and None)  # fmt: skip
    steps: list[None] = []
    await engine.run(lambda db: db.set_progress_handler(lambda: steps.append(None), 100))

    assert await engine.jobs(state, of) == ()

    assert len(steps) < 50, "so many hundreds of steps of SQLite's machine"


async def test_a_list_waits_for_no_writer(tmp_path):
    """While another process writes, jobs are listed as they were before."""
    path = tmp_path / "x.db"
    async with open_sqlite(path) as engine:
        (key,) = await put(engine, "x")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE jobs SET state = 'incident'")
        assert [info.key for info in await engine.jobs("ready")] == [key]
        assert await engine.jobs("incident") == ()
        other.execute("COMMIT")
        other.close()
        assert [info.key for info in await engine.jobs("incident")] == [key]


async def test_a_later_schema_is_refused(tmp_path, clock):
    """A database of a later version is refused with both numbers, and not changed."""
    path = tmp_path / "x.db"
    async with open_sqlite(path, clock=clock):
        pass
    db = sqlite3.connect(path)
    db.execute("UPDATE jobs_schema SET version = ?", (VERSION + 1,))
    db.commit()
    db.close()

    with pytest.raises(SchemaTooNew, match=f"version {VERSION + 1}.*up to {VERSION}") as info:
        async with open_sqlite(path):
            pass

    assert (info.value.found, info.value.known) == (VERSION + 1, VERSION)


async def test_an_older_schema_is_brought_up_to_date(tmp_path, clock):
    """Jobs of a database that an earlier version wrote are all there, and what it did not keep is not known."""
    path = tmp_path / "x.db"
    async with open_sqlite(path, clock=clock) as engine:
        (key,) = await put(engine, "x")
        await engine.settle((await take(engine))["x"].lease, Incident("look"))
    db = sqlite3.connect(path)
    db.executescript(
        "DROP INDEX jobs_incident; ALTER TABLE jobs DROP COLUMN incident_at; UPDATE jobs_schema SET version = 2;"
    )
    db.close()
    clock.pass_(5)

    async with open_sqlite(path, clock=clock) as engine:
        (info,) = await engine.jobs("incident")

    assert (info.key, info.age, info.incident_for) == (key, 5, None)


async def test_migrated_by_many_at_once(tmp_path):
    """Threads with connections of their own that open a new file at once all succeed, and it is migrated once."""
    path = tmp_path / "x.db"

    async def start():
        async with open_sqlite(path) as engine:
            await put(engine, "x")

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(start)

    async with open_sqlite(path) as engine:
        assert await states(engine) == {"ready": 8}


async def test_a_file_that_is_no_database(tmp_path):
    """A file that is something else is refused, with its path."""
    path = tmp_path / "x.db"
    path.write_text("this is not a database, but it is long enough to look like one" * 20)

    with pytest.raises(sqlite3.DatabaseError) as info:
        async with open_sqlite(path):
            pass

    assert str(path) in info.value.__notes__[0]


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_was_deleted(tmp_path, clock, replaced):
    """What would be written to a file that nobody can find any more is refused; with the file back in its place all goes on."""
    path, away = tmp_path / "shop.db", tmp_path / "away.db"
    async with open_sqlite(path, clock=clock) as engine:
        await put(engine, "a")
        path.rename(away)
        if replaced:
            path.write_bytes(b"")

        with pytest.raises(DatabaseMoved, match=r"shop\.db was deleted or replaced"):
            await put(engine, "b")
        with pytest.raises(DatabaseMoved):
            await engine.activate(claim())

        away.replace(path)
        await put(engine, "c")
        assert list(await take(engine)) == ["a", "c"]


async def test_a_path_that_is_relative_or_a_link(tmp_path, clock, monkeypatch):
    """A file is the same one wherever the process goes, and whatever becomes of a link to it."""
    link, file = tmp_path / "link.db", tmp_path / "file.db"
    link.symlink_to(file)
    monkeypatch.chdir(tmp_path)
    async with open_sqlite("link.db", clock=clock) as engine:
        await put(engine, "a")
        monkeypatch.chdir("/")
        link.unlink()
        assert list(await take(engine)) == ["a"]


async def test_a_path_that_is_empty():
    """No path is refused: SQLite would take it for a file that is gone with the connection."""
    with pytest.raises(OptionError, match="path is empty"):
        async with open_sqlite(""):
            pass


async def test_ten_megabytes(tmp_path, clock):
    """A payload of 10 MB is refused at the door with what to do, and taken where the limit allows it."""
    big = NewJob("a", {"name": "x", "big": "x" * 10_000_000})
    async with open_sqlite(tmp_path / "x.db", clock=clock) as engine:
        with pytest.raises(NotStorable, match="store it elsewhere"):
            await engine.enqueue(big)
    async with open_sqlite(tmp_path / "y.db", clock=clock, max_bytes=20_000_000) as engine:
        await engine.enqueue(big)
        (job,) = await engine.activate(claim(fetch=("name",)))
        assert job.variables == {"name": "x"}


async def test_a_forgotten_engine_does_not_keep_the_process(tmp_path):
    """A program that ends with an engine open ends."""
    program = (
        "import trio, sys\n"
        "from actors.jobs import open_sqlite\n"
        "async def main():\n"
        "    await open_sqlite(sys.argv[1]).__aenter__()\n"
        "trio.run(main)\n"
    )
    done = await trio.run_process(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "x.db")],
        capture_stderr=True,
        check=False,
    )
    assert done.returncode == 0


async def test_pruned_in_batches(tmp_path, clock, monkeypatch):
    """What is pruned is deleted in several transactions, so that nobody waits for all of it."""
    monkeypatch.setattr(admin, "PRUNED_AT_ONCE", 3)
    async with open_sqlite(tmp_path / "shop.db", clock=clock) as engine:
        store = SQLIdempotencyStore(engine)
        for key in await put(engine, *"abcdefgh"):
            await engine.cancel(key)
            await store.claim(key, "", "me", claim_for=1, run_again=True)
            await store.finish(key, "me", "done", "1", keep_for=10)
        clock.pass_(60)

        for prune in (lambda: engine.prune(30), store.prune):
            before = (await engine.statistics()).database.commits
            assert await prune() == 8
            assert (await engine.statistics()).database.commits == before + 3
        assert await states(engine) == {}


async def test_a_full_disk(tmp_path, clock):
    """When the disk is full, those whose commit found no room hear just that, nothing of it is there, and it works again later."""
    stored, problems = [], []

    async def write(engine, name):
        try:
            await engine.enqueue(NewJob("a", {"name": name, "much": "x" * 30_000}))
        except sqlite3.OperationalError as error:
            problems.append(str(error))
        else:
            stored.append(name)

    async with open_sqlite(tmp_path / "shop.db", clock=clock) as engine:
        await put(engine, "x")
        await ask(engine, "PRAGMA max_page_count = 60")
        async with trio.open_nursery() as nursery:
            for n in range(40):
                nursery.start_soon(write, engine, str(n))
        assert set(problems) == {"database or disk is full"}
        assert await states(engine) == {"ready": 1 + len(stored)}

        await ask(engine, "PRAGMA max_page_count = 6000")
        await put(engine, "y")
        assert await states(engine) == {"ready": 2 + len(stored)}
