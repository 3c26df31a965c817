"""The server that tests run on: it comes and goes without a trace."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.jobs.server import NoPostgres, Server, binaries

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def installed():
    try:
        binaries()
    except NoPostgres as reason:
        pytest.skip(str(reason))


def test_nothing_is_left_of_a_killed_owner():
    """When the process that started a server is killed, the server ends and its folder goes."""
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.jobs.server"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with owner:
        folder = Path(owner.stdout.readline().split()[0].removeprefix("host="))
        assert (folder / "data/postmaster.pid").exists()
        owner.kill()
    # The clock of the machine: another process goes, so no virtual time reaches it.
    end = time.monotonic() + 30
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.01)

    assert not folder.exists()


def test_a_crash_loses_nothing():
    """What was committed is there after the server was stopped at once and started again, at the same address."""
    server = Server(durable=True)
    try:
        name = server.create()
        server.sql(name, "CREATE TABLE t AS SELECT 7 AS x")
        server.stop(at_once=True)
        server.start()
        assert server.sql(name, "SELECT x FROM t") == [(7,)]
    finally:
        server.close()
    assert not server.folder.exists()
