"""A downstream and a client of it, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.downstream.client import Till, open_till
from tests.downstream.server import Downstream, open_downstream

# httpx leaves the generator of a request's body to the garbage collector when the request is cancelled, and Trio says so.
HTTPX_CANCELLED = "ignore:Async generator 'httpx:ResourceWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(HTTPX_CANCELLED))


@pytest.fixture
async def downstream() -> AsyncIterator[Downstream]:
    async with open_downstream() as service:
        yield service


@pytest.fixture
async def till(downstream: Downstream) -> AsyncIterator[Till]:
    async with open_till(downstream) as client:
        yield client
