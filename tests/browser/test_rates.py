"""Rates: made by the page from counters that only grow, and never wrong for long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.frames import Story
from tests.browser.stage import Stage

RATE = '#tree .row[title="t/one/0"] .rate .figure'
UNKNOWN = "\u2013"


@pytest.fixture
def one(stage: Callable[..., Stage]) -> Stage:
    """A tree of one replica that handles nothing by itself."""
    story = Story(["t"], {"t/one": 1}, uptime=100.0)
    story.speed["t/one/0"] = 0
    return stage(story)


def grow(stage: Stage, handled: int, seconds: float = 1.0) -> str:
    """Let it have handled so many more, and return the rate that is shown."""
    stage.story.rows["t/one/0"]["handled"] += handled
    stage.tell(seconds=seconds)
    return stage.text(RATE)


def test_a_rate_needs_two_readings(one: Stage) -> None:
    """After one frame nothing is known yet, and the page does not pretend."""
    assert one.text(RATE) == UNKNOWN
    assert grow(one, 40) == "40"


def test_a_rate_is_per_second_of_the_tree(one: Stage) -> None:
    """Frames that come slower do not make a tree look faster."""
    assert grow(one, 40, seconds=4.0) == "10"


def test_no_rate_is_negative(one: Stage) -> None:
    """A counter that fell, because its replica was removed and added again, gives no rate once."""
    grow(one, 40)

    assert grow(one, -30_000_000) == UNKNOWN
    assert grow(one, 12) == "12"


def test_a_new_process_begins_anew(one: Stage) -> None:
    """After a restart of the process the first frame has no rates, and nothing falls below zero."""
    grow(one, 40)
    one.story.uptime, one.story.seq, one.story.pid = 0.0, 0, 4200
    one.story.rows["t/one/0"].update(handled=0, since=0.0)
    one.tell()

    assert one.text(RATE) == UNKNOWN
    assert grow(one, 7) == "7.0"
