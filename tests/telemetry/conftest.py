"""A fresh laboratory for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.telemetry.kit import Lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Providers of this test's own, shut down at its end."""
    lab = Lab()
    yield lab
    lab.tracers.shutdown()
    lab.meters.shutdown()
