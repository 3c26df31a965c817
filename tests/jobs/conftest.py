"""Fixtures: an engine of each kind on a clock that is moved by hand."""

from __future__ import annotations

import pytest

from tests.jobs.kit import ENGINES, Clock, opened


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=ENGINES)
async def engine(request, tmp_path, clock):
    async with opened(request.param, tmp_path, clock) as found:
        yield found
