"""A downstream and a client of it, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.downstream.client import Till, open_till
from tests.downstream.server import Downstream, open_downstream


@pytest.fixture
async def downstream() -> AsyncIterator[Downstream]:
    async with open_downstream() as service:
        yield service


@pytest.fixture
async def till(downstream: Downstream) -> AsyncIterator[Till]:
    async with open_till(downstream) as client:
        yield client
