"""`doctor`: what it looks at, and what it says of an installation that is not well."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
import trio

from actors.jobs import open_sqlite
from supervision.cli import doctor
from supervision.cli.doctor import database, distributions, examined
from tests.cli.test_usage import said


def of(name: str, environment: dict[str, str]) -> doctor.Check:
    """The check of that name."""
    return next(c for c in examined(environment=environment) if c.name == name)


def test_this_installation(app, capfd) -> None:
    """Each line has a sign, a name and a text; nothing is wrong where the tests run."""
    code, out, err = said(capfd, "doctor")
    lines = out.splitlines()

    assert (code, err) == (0, "")
    assert all(line[:4] in ("[+] ", "[!] ") for line in lines)
    assert {line[4:].partition(":")[0] for line in lines} == {
        "python",
        "trio",
        "package actors",
        "package supervision",
        *(f"extra {extra}" for extra in doctor.EXTRAS),
        "sockets",
        "opentelemetry",
    }


def test_it_speaks_json(app, capfd) -> None:
    """The same as a list of objects."""
    told = json.loads(said(capfd, "doctor", "--json")[1])

    assert {"sign": "+", "name": "trio"}.items() <= told[1].items()


def test_another_distribution_with_our_name() -> None:
    """The unrelated distribution that installs a package `supervision` is named, with the way out."""
    mine, other = distributions(
        {"actors": ["treewarden"], "supervision": ["supervision", "treewarden"]}
    )

    assert mine.sign == "+"
    assert other.sign == "-"
    assert "the distribution supervision installs a package of this name too" in other.text
    assert "pip uninstall supervision" in other.text


def test_a_source_tree_is_told() -> None:
    """Packages that no distribution owns run from their source."""
    assert [check.sign for check in distributions({})] == ["!", "!"]


def test_an_extra_that_is_missing(monkeypatch) -> None:
    """It is worth knowing, not wrong, and says what to install."""
    monkeypatch.setattr(doctor, "_there", lambda module: module != "h11")
    check = of("extra observer", {})

    assert check.sign == "!"
    assert check.text.startswith("h11 is not installed")
    assert "pip install 'treewarden[observer]'" in check.text

    monkeypatch.setattr(
        doctor, "_there", lambda module: "h11" not in module and "sock" not in module
    )
    assert of("extra observer", {}).text.startswith("h11 and trio_websocket are not installed")


def test_the_folder_of_sockets(app) -> None:
    """One that others can open, or that is none, is wrong."""
    environment = {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    folder = Path(environment["XDG_RUNTIME_DIR"]) / "treewarden"
    assert of("sockets", environment).text.endswith("is made when a tree is served")
    folder.mkdir(mode=0o700)
    assert of("sockets", environment).sign == "+"
    folder.chmod(0o755)
    assert "chmod 700" in of("sockets", environment).text
    folder.rmdir()
    folder.touch()
    assert of("sockets", environment).sign == "-"


@pytest.mark.parametrize(
    ("environment", "sign", "says"),
    [
        ({}, "+", "not asked for"),
        ({"OTEL_SDK_DISABLED": "true"}, "!", "switches it off"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, "!", "nothing leaves"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, "-", "is a URL, not 'collector'"),
    ],
)
def test_opentelemetry(environment: dict[str, str], sign: str, says: str) -> None:
    """What its standard variables say is read as its SDK would read it."""
    check = of("opentelemetry", environment)

    assert check.sign == sign
    assert says in check.text


def test_opentelemetry_without_its_sdk(monkeypatch) -> None:
    """Variables that nothing reads are wrong."""
    monkeypatch.setattr(doctor, "_there", lambda module: False)
    check = of("opentelemetry", {"OTEL_SERVICE_NAME": "shop"})

    assert check.sign == "-"
    assert "pip install 'treewarden[otel]'" in check.text


def test_a_database_file(tmp_path, capfd) -> None:
    """Not there yet, empty, current, older, newer, and no database at all are told apart."""
    path = tmp_path / "jobs.db"
    assert "it is made when it is opened first" in database(str(path)).text
    sqlite3.connect(path).close()
    assert "has no tables of jobs" in database(str(path)).text

    async def make() -> None:
        async with open_sqlite(str(path)):
            pass

    trio.run(make)
    assert database(str(path)).sign == "+"
    assert database(f"sqlite:///{path}").sign == "+"
    for version, sign in ((0.5, "!"), (99, "-")):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                "UPDATE jobs_schema SET version = ?", (max(1, version) if version > 1 else 0,)
            )
        assert database(str(path)).sign == sign
    path.write_text("no database" * 100)
    assert "cannot be read as SQLite" in database(str(path)).text
    assert database("mysql://db/shop").sign == "-"
    assert said(capfd, "doctor", "--dsn", str(path))[0] == 1


def test_a_file_that_cannot_be_made(tmp_path) -> None:
    """A folder that is not there is wrong before anything runs."""
    assert database(str(tmp_path / "none" / "jobs.db")).sign == "-"


def test_postgres_without_its_driver(monkeypatch) -> None:
    """The extra is named, and no password is shown."""
    monkeypatch.setattr(doctor, "_there", lambda module: False)
    check = database("postgresql://me:secret@db/shop")

    assert check.sign == "-"
    assert "pip install 'treewarden[postgres]'" in check.text
    assert "secret" not in check.text


def test_postgres_that_does_not_answer() -> None:
    """It says so without the password."""
    pytest.importorskip("psycopg")
    check = database("postgresql://me:secret@127.0.0.1:1/shop")

    assert check.sign == "-"
    assert "cannot be reached" in check.text
    assert "secret" not in check.text


@pytest.fixture(scope="module")
def postgres():
    """A server of our own, in a folder of its own, reached by a socket in it; its DSN."""
    pytest.importorskip("psycopg")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("no PostgreSQL server is installed")
    where = Path(tempfile.mkdtemp(prefix="tw-pg-"))
    as_user: dict[str, object] = {}
    if os.getuid() == 0:  # the server refuses to run as root
        shutil.chown(where, "postgres")
        as_user["user"] = "postgres"

    def run(program: str, *args: str) -> None:
        command = [str(programs[-1] / program), *args]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **as_user)

    try:
        run("initdb", "-D", f"{where}/data", "-A", "trust", "-U", "postgres", "-N")
        run(
            "pg_ctl",
            "-D",
            f"{where}/data",
            "-o",
            f"-k {where} -h ''",
            "-l",
            f"{where}/log",
            "-w",
            "start",
        )
        yield f"postgresql://postgres@/postgres?host={where}"
        run("pg_ctl", "-D", f"{where}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(where, ignore_errors=True)


@pytest.mark.slow
def test_postgres_and_its_tables(postgres) -> None:
    """A server without tables of jobs is worth knowing; one of a later version than is known is wrong."""
    import psycopg

    assert "has no tables of jobs" in database(postgres).text
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute('CREATE SCHEMA "odd name"')
        db.execute('CREATE TABLE "odd name".jobs_schema (one int, version int)')
        db.execute('INSERT INTO "odd name".jobs_schema VALUES (1, 99)')
    check = database(postgres)

    assert check.sign in "-!"
    assert 'schema "odd name", has schema 99' in check.text
