"""The connection: the page says when what it shows is not true any more, and comes back by itself."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.frames import quiet
from tests.browser.stage import TOKEN, URL, Stage

HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
}"""


pytestmark = pytest.mark.slow  # it is told in seconds how long ago it was lost

# What Chromium itself writes into the console when nobody answers.
UNANSWERED = ("WebSocket", "Failed to load resource")


@pytest.fixture
def calm(stage: Callable[..., Stage]) -> Stage:
    """A tree in which all is well, and that may be lost."""
    return stage(quiet(), expect=UNANSWERED)


def banner(stage: Stage, text: str) -> None:
    """Wait until the banner says so."""
    expect(stage.page.locator("#banner")).to_contain_text(text)


def test_a_loss_is_said(calm: Stage) -> None:
    """When the connection is lost, the page says so, since when, and freezes what it shows."""
    calm.lose()

    banner(calm, "data frozen")
    banner(calm, "Connection lost 2 s ago")
    assert calm.text("#link") == "lost"
    assert calm.page.title() == "lost · shop"


def test_it_comes_back_by_itself(calm: Stage) -> None:
    """When the tree answers again, the page is live again without anybody doing anything."""
    calm.lose()
    banner(calm, "data frozen")
    calm.up = True
    calm.connected(2)
    calm.tell()

    expect(calm.page.locator("#banner")).to_be_hidden()
    assert calm.text("#link") == "live"


def test_attempts_grow_rarer(calm: Stage) -> None:
    """A tree that stays away is asked less and less often, and at once if somebody says so."""
    calm.lose()
    banner(calm, "Trying again in 4 s")
    calm.up = True
    calm.page.get_by_role("button", name="Try now").click()
    calm.connected(2)


def test_a_new_process_is_said(calm: Stage) -> None:
    """A frame of a younger process is not mixed up with the old one: the page says what happened."""
    calm.lose()
    banner(calm, "data frozen")
    calm.up = True
    calm.connected(2)
    calm.story.uptime, calm.story.seq, calm.story.pid = 2.0, 3, 4300
    calm.tell()

    banner(calm, "Process restarted 3.0 s ago (pid 4121, now 4300)")
    calm.page.get_by_role("button", name="Dismiss").click()
    expect(calm.page.locator("#banner")).to_be_hidden()


@pytest.mark.parametrize("field", ["uptime", "seq"])
def test_a_process_of_the_same_number_is_noticed(calm: Stage, field: str) -> None:
    """In a container every process may be number 1: an uptime or a number that fell tells it apart."""
    setattr(calm.story, field, 1)
    calm.tell()

    banner(calm, "Process restarted")


def test_an_ordered_stop_is_no_accident(calm: Stage) -> None:
    """A tree that stops says so before, and after it the page does not speak of a lost connection."""
    calm.story.mode = "stopping"
    calm.tell()
    banner(calm, "The tree is stopping, in order.")

    calm.lose(code=1001)
    banner(calm, "The tree stopped")
    assert calm.text("#link") == "stopped"


def test_a_hidden_page_asks_for_nothing(calm: Stage) -> None:
    """A tab in the background pauses its frames, and is current again once it is looked at."""
    calm.page.evaluate(HIDE, True)
    calm.page.wait_for_function("() => document.getElementById('link').textContent === 'paused'")
    calm.page.evaluate(HIDE, False)
    calm.tell()

    assert calm.heard == [{"pause": True}, {"pause": False}]
    assert calm.text("#link") == "live"


def test_a_silent_connection_is_a_lost_one(new_page: Callable[..., Page]) -> None:
    """A connection that delivers nothing for long is called lost, although nobody closed it."""
    seen = Stage(new_page(expect=UNANSWERED), quiet())
    seen.page.clock.install()
    seen.page.goto(URL)
    seen.connected(1)
    seen.sockets[0].send(json.dumps(seen.story.frame()))
    expect(seen.page.locator("#link")).to_have_text("live")
    seen.up = False
    seen.page.clock.fast_forward(10_000)

    banner(seen, "data frozen")


def test_looking_may_need_the_token(stage: Callable[..., Stage]) -> None:
    """From another machine the page asks for the token, and then connects with it."""
    seen = stage(quiet(), expect=UNANSWERED)
    seen.answers["api/snapshot"] = 403
    seen.lose()
    banner(seen, "Looking needs the token.")
    seen.up = True
    seen.page.get_by_role("button", name="Enter the token").click()
    expect(seen.page.locator("#token")).to_contain_text("From here, looking needs the token")
    seen.page.get_by_label("Token", exact=True).fill(TOKEN)
    seen.page.get_by_role("button", name="Use it").click()
    seen.connected(2)
    seen.tell()

    assert seen.text("#link") == "live"
