"""Fixtures: an engine of each kind on a clock that is moved by hand."""

from __future__ import annotations

import pytest

from tests.jobs.kit import ENGINES, ON_POSTGRES, Clock, database, opened
from tests.jobs.server import NoPostgres, shared_server


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def server():
    """Our own PostgreSQL; where there is none, what needs it is skipped."""
    try:
        return shared_server()
    except NoPostgres as reason:
        pytest.skip(str(reason))


@pytest.fixture
async def where(server):
    """How to connect to a new database that has our tables."""
    async with database() as found:
        yield found


@pytest.fixture(params=ENGINES)
async def engine(request, tmp_path, clock):
    if request.param in ON_POSTGRES:
        request.getfixturevalue("server")
    async with opened(request.param, tmp_path, clock) as found:
        yield found


@pytest.fixture(params=ON_POSTGRES)
def driver(request, server):
    """The name of a kind of engine on PostgreSQL."""
    return request.param
