"""Jobs that need a person: from what needs a look, or their queue, to the list, and to what ends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.frames import troubled
from tests.browser.stage import TOKEN, Stage

ASKED = ("api/jobs", {"state": "incident", "type": "mail", "engine": "sqlite", "most": "50"})


def job(key: str, **more: Any) -> dict[str, Any]:
    """An incident, as the tree tells it."""
    base = {"engine": "sqlite", "type": "mail", "state": "incident", "attempt": 3, "retries": 0}
    told = {"worker": "", "due_in": -2.0, "incident_for": 192.0, "error": f"no mailbox {key}"}
    return {"key": key, **base, **told, **more}


def answer(seen: Stage, *keys: str, more: bool = False) -> None:
    """What the tree has from now on."""
    seen.answers["api/jobs"] = {"jobs": [job(key) for key in keys], "more": more}


def lines(seen: Stage) -> Locator:
    """The lines of the list, the first of which says what they are."""
    return seen.page.locator("#queues .lines li")


def give_token(seen: Stage) -> None:
    """Answer the question for the token."""
    seen.page.get_by_label("Token", exact=True).fill(TOKEN)
    seen.page.get_by_role("button", name="Use it").click()


@pytest.fixture
def waiting(stage: Callable[..., Stage]) -> Stage:
    """A tree in which two jobs of one queue need a person."""
    story = troubled()
    story.queues[1].update(incident=2)
    story.look.append(
        {
            "path": "mail",
            "kind": "queue",
            "engine": "sqlite",
            "text": "2 jobs of type mail need a person",
            "actions": [],
        }
    )
    seen = stage(story)
    answer(seen, "132", "140")
    return seen


def test_a_queue_leads_to_what_needs_a_person(waiting: Stage) -> None:
    """The number of incidents in the row of a queue is pressed, and there they are: key, type, error, retries, since when."""
    waiting.page.locator("#queues tr", has_text="mail").get_by_title("Show these jobs").click()
    expect(lines(waiting)).to_have_count(3)

    said, first, second = lines(waiting).all_inner_texts()
    assert said.startswith("2 jobs of type mail need a person, the oldest first.")
    assert "mail 132" in first
    assert "incident for 3 m 12 s: it needs a person, 3 attempts, 0 retries left" in first
    assert "no mailbox 140" in second
    assert ASKED in waiting.asked
    assert waiting.page.evaluate("document.activeElement.closest('#queues .lines') !== null")


def test_what_needs_a_look_leads_there_too(waiting: Stage) -> None:
    """The line about incidents is pressed by its name, with the keyboard as well."""
    line = waiting.page.locator("#look li", has_text="need a person")
    line.get_by_role("button", name="mail").focus()
    waiting.page.keyboard.press("Enter")

    expect(lines(waiting)).to_have_count(3)
    assert ASKED in waiting.asked


def test_a_queue_without_incidents_leads_nowhere(waiting: Stage) -> None:
    """Where there is nothing to show, nothing can be pressed; a number that falls to none is a number again."""
    row = waiting.page.locator("#queues tr", has_text="fetch")
    assert row.get_by_title("Show these jobs").count() == 1
    expect(row.get_by_title("Show these jobs")).to_be_hidden()
    waiting.story.queues[1].update(incident=0)
    waiting.tell()

    expect(waiting.page.locator("#queues .link:visible")).to_have_count(0)


def test_each_can_be_tried_again_or_cancelled(waiting: Stage) -> None:
    """The buttons of a line are about its own job; what is mended leaves the list, and what was done is still said."""
    waiting.page.locator("#look").get_by_role("button", name="mail", exact=True).click()
    first, second = lines(waiting).filter(has_text="132"), lines(waiting).filter(has_text="140")
    first.get_by_role("button", name="retry").click()
    answer(waiting, "140")
    give_token(waiting)
    expect(lines(waiting)).to_have_count(2)
    expect(lines(waiting).first).to_contain_text("1 job of type mail needs a person")
    expect(waiting.page.locator("#notice")).to_contain_text("retry: 132")

    second.get_by_role("button", name="cancel it").click()
    answer(waiting)
    second.locator("form").get_by_role("button", name="cancel it").click()
    expect(lines(waiting)).to_have_count(1)
    expect(lines(waiting).first).to_contain_text("No job of type mail needs a person now.")

    named = {"engine": "sqlite", "key": "132"}
    again = {**named, "key": "140"}
    assert waiting.orders == [
        {"verb": "retry", **named},
        {"verb": "cancel", **again, "confirm": True},
    ]


def test_the_list_follows_the_tree(waiting: Stage) -> None:
    """When the queue has more or fewer incidents, the list is asked for again; a question that stands in it stays."""
    waiting.page.locator("#look").get_by_role("button", name="mail", exact=True).click()
    expect(lines(waiting)).to_have_count(3)
    waiting.tell(3)
    assert waiting.asked.count(ASKED) == 1

    question = lines(waiting).filter(has_text="140").locator("form")
    lines(waiting).filter(has_text="140").get_by_role("button", name="cancel it").click()
    answer(waiting, "140", "151", more=True)
    waiting.story.queues[1].update(incident=60)
    waiting.tell()
    expect(lines(waiting).filter(has_text="151")).to_be_visible()
    expect(lines(waiting).first).to_contain_text("The oldest 2 jobs of type mail")
    expect(question).to_be_visible()
    assert waiting.asked.count(ASKED) == 2


def test_the_list_can_be_closed(waiting: Stage) -> None:
    """Closed, it is gone, and no frame brings it back."""
    waiting.page.locator("#look").get_by_role("button", name="mail", exact=True).click()
    lines(waiting).get_by_role("button", name="close").click()
    expect(lines(waiting)).to_have_count(0)
    waiting.story.queues[1].update(incident=9)
    waiting.tell(2)

    assert lines(waiting).count() == 0
    assert waiting.asked.count(ASKED) == 1


def test_a_key_takes_the_place_of_the_list(waiting: Stage) -> None:
    """Who asks for one job sees that one alone, however the queue goes on."""
    waiting.page.locator("#look").get_by_role("button", name="mail", exact=True).click()
    expect(lines(waiting)).to_have_count(3)
    answer(waiting, "7")
    waiting.page.locator("#queues .find").get_by_label("Job").fill("7")
    waiting.page.keyboard.press("Enter")
    expect(lines(waiting)).to_have_count(1)
    waiting.story.queues[1].update(incident=9)
    waiting.tell(2)

    assert "mail 7" in lines(waiting).first.inner_text()
    assert waiting.asked.count(ASKED) == 1


def test_an_engine_that_does_not_answer(stage: Callable[..., Stage]) -> None:
    """Why there is no list is said in its place."""
    seen = stage(expect=("503",))
    seen.answers["api/jobs"] = 503
    seen.page.locator("#queues .link:visible").click()

    expect(lines(seen)).to_have_count(1)
    expect(lines(seen).first).to_contain_text("looking needs the token")


def test_a_page_that_may_only_look(stage: Callable[..., Stage]) -> None:
    """Without actions in the tree the list is there, and nothing in it acts."""
    story = troubled()
    story.actions = False
    seen = stage(story)
    answer(seen, "132")
    seen.page.locator("#queues .link:visible").click()
    expect(lines(seen)).to_have_count(2)

    assert lines(seen).locator(".do").count() == 0


def test_the_list_fits_a_phone(stage: Callable[..., Stage]) -> None:
    """Long errors and keys make nobody scroll sideways at 375 pixels."""
    seen = stage(width=375)
    long = job("9223372036854775807", error="no" * 500, type="confirmation_of_orders")
    seen.answers["api/jobs"] = {"jobs": [long], "more": False}
    seen.page.locator("#queues .link:visible").click()
    expect(lines(seen)).to_have_count(2)

    assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
