"""The payments example, run as a person runs it: processes that are killed, in real time."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio

from examples.payments.server import NoServer, _programs
from tests.examples import kit

pytestmark = pytest.mark.slow
run = partial(kit.run, "payments")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a calm run that came to its end; copy it before you change it."""
    folder = tmp_path_factory.mktemp("payments")
    options = ("--orders", "80", "--no-chaos", "--dir", str(folder))
    done = subprocess.run(
        [sys.executable, "-m", "examples.payments", "--fast", *options],
        cwd=kit.ROOT,
        capture_output=True,
        text=True,
        timeout=kit.LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "payments"))


def change(folder: Path, statement: str, database: str = "provider.sqlite") -> None:
    """Tamper with the evidence."""
    with closing(sqlite3.connect(folder / database)) as db:
        assert db.execute(statement).rowcount > 0
        db.commit()


def charges(folder: Path) -> list[tuple]:
    """The provider's charges."""
    with closing(sqlite3.connect(folder / "provider.sqlite")) as db:
        return db.execute("SELECT * FROM charges ORDER BY number").fetchall()


async def test_every_order_is_charged_exactly_once(tmp_path):
    """With a provider that dies and a worker's process that is killed, the proof holds, and the exit code is 0."""
    code, output = await run("--seed", "7", "--dir", str(tmp_path))

    assert code == 0, output
    assert "The proof holds: 400 orders, " in output
    for happened in (
        "provider: failed: exit code 70",
        "failed: killed by SIGKILL",
        "the breaker opens",
        "charges, then resets the connection",
        "charges, then answers too late",
    ):
        assert happened in output
    assert "Traceback" not in output


async def test_a_second_run_charges_nothing(folder):
    """On the same folder every order is found to be settled: the ledger stays as it is."""
    before = charges(folder)
    code, output = await run("--dir", str(folder), "--no-chaos", "--processes", "1")

    assert code == 0, output
    assert "going on with its orders" in output
    assert charges(folder) == before


async def test_ctrl_c_drains_and_the_next_run_goes_on(tmp_path):
    """A stop half way says so, leaves sound books and exit code 130; the next run finishes the rest."""
    options = ("--dir", str(tmp_path), "--orders", "200")
    code, output = await run(*options, stop_at=b" is killed with SIGKILL")

    assert code == 130, output
    assert "is asked to stop (SIGINT): what is in work is finished" in output
    assert "SIGINT came first. The proof is partial, and sound" in output
    assert f"To go on, run it again with --dir {tmp_path}" in output
    code, output = await run("--dir", str(tmp_path), "--no-chaos")
    assert code == 0, output
    assert "The proof holds: 200 orders" in output


async def test_when_all_of_it_is_killed_nobody_stays_and_the_next_run_goes_on(tmp_path):
    """SIGKILL for the parent: its processes notice and stop; their leases run out, and no order is charged twice."""
    options = ("--dir", str(tmp_path), "--orders", "200")
    code, output = await run(*options, stop_at=b"failed: killed by", by=signal.SIGKILL)

    assert code == -signal.SIGKILL, output
    with trio.fail_after(kit.LONGEST):
        while str(tmp_path) in await processes():
            await trio.sleep(0.05)
    code, output = await run("--dir", str(tmp_path), "--no-chaos")
    assert code == 0, output
    assert "The proof holds: 200 orders" in output


async def processes() -> str:
    """What runs on this machine."""
    done = await trio.run_process(["ps", "-axww", "-o", "args"], capture_stdout=True)
    return done.stdout.decode(errors="replace")


@pytest.mark.parametrize(
    ("statement", "database", "found"),
    [
        (
            "INSERT INTO charges SELECT NULL, 'ch_2', order_ref, amount, currency FROM charges LIMIT 1",
            "provider.sqlite",
            "charged twice: 1",
        ),
        ("DELETE FROM charges WHERE number = 3", "provider.sqlite", "booked, but never charged: 1"),
        (
            "UPDATE charges SET amount = amount + 1 WHERE number = 3",
            "provider.sqlite",
            "charged another amount: 1",
        ),
        ("INSERT INTO bookings SELECT * FROM bookings LIMIT 1", "shop.sqlite", "booked twice: 1"),
    ],
)
async def test_the_proof_can_fail(folder, statement, database, found):
    """Evidence that was tampered with is found out, and the exit code is 1."""
    change(folder, statement, database)
    code, output = await run("--dir", str(folder), "--no-chaos", "--processes", "1")

    assert code == 1, output
    assert found in output
    assert "The proof does not hold." in output


async def test_postgres_and_several_processes_do_the_same():
    """On a PostgreSQL server that crashes, with three processes of which one is killed, the proof holds."""
    try:
        _programs()
    except NoServer as reason:
        pytest.skip(str(reason))
    options = ("--orders", "200", "--engine", "postgres", "--processes", "3")
    # No folder of pytest's: as root, the server runs as somebody else, who could not get there.
    code, output = await run(*options)

    assert code == 0, output
    assert "The proof holds: 200 orders" in output
    assert "failed: killed by SIGKILL" in output
    assert "the database was killed, and recovered" in output
