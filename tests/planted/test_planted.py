"""Every planted bug is found, one seed each; `python -m tests.planted` looks with more seeds, and shrinks."""

from __future__ import annotations

import pytest

from tests.planted.bugs import BUGS, planted
from tests.planted.hunt import EXAMPLES, hunt
from tests.planted.hunters import hunter

SEED = 1


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    """A bug in our own code does not stay hidden for a thousand examples."""
    with planted(name):
        found = hunt(hunter(name), SEED)

    assert found is not None, f"{name} was not found in {EXAMPLES} examples"
    assert isinstance(found.error, AssertionError), found.error


@pytest.mark.parametrize("machine", {hunter(name) for name in BUGS}, ids=lambda kind: kind.__name__)
def test_without_a_bug_nothing_is_found(machine, monkeypatch) -> None:
    """What finds the bugs is silent where there is none."""
    monkeypatch.setattr("tests.planted.hunt.EXAMPLES", 60)

    assert hunt(machine, SEED) is None
