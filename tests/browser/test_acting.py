"""Acting: what may be done is offered, what loses work is asked first, and what came of it is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.frames import troubled
from tests.browser.stage import TOKEN, Stage

DETAIL = "#detail .actions"


def buttons(stage: Stage, selector: str = DETAIL) -> list[str]:
    """What can be pressed there."""
    return stage.page.locator(f"{selector} button").all_inner_texts()


def give_token(stage: Stage, token: str = TOKEN) -> None:
    """Answer the question for the token."""
    stage.page.get_by_label("Token", exact=True).fill(token)
    stage.page.get_by_role("button", name="Use it").click()


def line(stage: Stage, path: str) -> Locator:
    """The line of what needs a look."""
    return stage.page.locator("#look li", has_text=path)


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        ("shop/mail/smtp/0", ["restart", "disable"]),
        ("shop/fetch/3", ["try now", "stop", "disable"]),
        ("shop/fetch/0", ["restart", "drain", "stop", "disable"]),
        ("shop/prune/0", ["start", "disable"]),
        ("shop/store/2", ["enable"]),
        ("shop/fetch", ["scale", "restart", "drain", "stop", "disable"]),
        ("shop/billing", ["restart", "stop", "disable"]),
        ("shop", ["stop the tree"]),
    ],
)
def test_only_what_can_be_done_is_offered(
    stage: Callable[..., Stage], path: str, offered: list[str]
) -> None:
    """The buttons of a row are those that its state allows."""
    assert buttons(stage(at=f"#/{path}")) == offered


def test_a_page_that_may_only_look_has_no_buttons(stage: Callable[..., Stage]) -> None:
    """Without actions in the tree, the page offers none and says that it is read-only."""
    story = troubled()
    story.actions = False
    seen = stage(story, at="#/shop/fetch/0")

    assert seen.page.locator(".do").count() == 0
    assert seen.text("#access") == "read-only"
    assert "Read-only" in seen.text("#detail")


def test_the_token_is_asked_for_once(ill: Stage) -> None:
    """The first action asks for the token; the tab keeps it for the next ones, and nowhere else."""
    line(ill, "smtp").get_by_role("button", name="restart").click()
    give_token(ill)
    expect(line(ill, "smtp").locator(".said")).to_contain_text("restart: shop/mail/smtp/0")
    line(ill, "fetch/3").get_by_role("button", name="try now").click()
    expect(line(ill, "fetch/3").locator(".said")).to_contain_text("restart: shop/fetch/3")

    assert ill.orders == [
        {"verb": "restart", "path": "shop/mail/smtp/0"},
        {"verb": "restart", "path": "shop/fetch/3"},
    ]
    assert ill.text("#access") == "actions on"
    assert TOKEN not in ill.page.evaluate("Object.values(localStorage)")
    assert TOKEN in ill.page.evaluate("Object.values(sessionStorage)")


def test_what_was_done_is_said_with_the_time(ill: Stage) -> None:
    """After an action a sentence with the time stands where it was pressed."""
    line(ill, "smtp").get_by_role("button", name="restart").click()
    give_token(ill)
    said = line(ill, "smtp").locator(".said")

    expect(said).to_contain_text("restart: shop/mail/smtp/0")
    assert said.locator("time").inner_text().count(":") == 2
    assert said.get_attribute("role") == "status"


def test_a_wrong_token_does_nothing(stage: Callable[..., Stage]) -> None:
    """A token that is refused is forgotten, the refusal is said, and the next try asks again."""
    seen = stage(expect=("403",))
    button = line(seen, "smtp").get_by_role("button", name="restart")
    button.click()
    give_token(seen, "wrong")
    expect(line(seen, "smtp").locator(".said")).to_contain_text("acting needs the token")
    assert seen.orders == []

    button.click()
    expect(seen.page.locator("#token")).to_be_visible()


def test_no_token_no_action(ill: Stage) -> None:
    """Who cancels the question for the token has done nothing, and is told so."""
    line(ill, "smtp").get_by_role("button", name="restart").click()
    ill.page.get_by_role("button", name="Cancel").click()

    expect(line(ill, "smtp").locator(".said")).to_contain_text("Nothing was done")
    assert ill.orders == []


def test_what_loses_work_is_asked_in_the_row(ill: Stage) -> None:
    """Stopping what runs needs a second press at the same place; no means no."""
    ill.page.goto(f"{ill.page.url.partition('#')[0]}#/shop/fetch/0")
    stop = ill.page.locator(f"{DETAIL} [data-verb=stop]")
    stop.click()
    assert ill.text(f"{DETAIL} .ask") == "Nothing starts it again by itself. Stop?"
    ill.page.locator(DETAIL).get_by_role("button", name="no").click()
    assert ill.orders == []

    stop.click()
    ill.tell()
    ill.page.locator(DETAIL).get_by_role("button", name="stop").click()
    give_token(ill)
    expect(ill.page.locator(f"{DETAIL} .said")).to_contain_text("stop: shop/fetch/0")
    assert ill.orders == [{"verb": "stop", "path": "shop/fetch/0", "confirm": True}]


def test_scaling_asks_how_many(stage: Callable[..., Stage]) -> None:
    """The number of replicas is set where the worker is shown."""
    seen = stage(at="#/shop/fetch")
    seen.page.locator(f"{DETAIL} [data-verb=scale]").click()
    seen.page.get_by_role("spinbutton", name="Replicas").fill("6")
    seen.page.keyboard.press("Enter")
    give_token(seen)
    expect(seen.page.locator(f"{DETAIL} .said")).to_contain_text("scale: shop/fetch")

    assert seen.orders == [{"verb": "scale", "path": "shop/fetch", "n": 6, "confirm": True}]


def test_queues_and_breakers_can_be_held(ill: Stage) -> None:
    """A queue is paused or resumed, a breaker closed or held open, from its own row."""
    ill.page.locator("#queues tr", has_text="mail").get_by_role("button", name="resume").click()
    give_token(ill)
    expect(ill.page.locator("#queues .said", has_text="resume: mail")).to_be_visible()
    ill.page.locator("#breakers tr", has_text="payments").get_by_role("button").click()
    expect(ill.page.locator("#breakers .said", has_text="breaker_close")).to_be_visible()

    assert ill.orders == [
        {"verb": "resume", "type": "mail", "engine": "sqlite"},
        {"verb": "breaker_close", "path": "payments"},
    ]


def test_a_job_is_found_by_its_key(ill: Stage) -> None:
    """Below the queues a job is asked for by its key, and shown with what its state allows."""
    job = {
        "engine": "sqlite",
        "key": "132",
        "type": "mail",
        "attempt": 3,
        "retries": 0,
        "worker": "",
        "due_in": -2.0,
    }
    find = ill.page.locator("#queues .find")
    shown = ill.page.locator("#queues .lines li")
    find.get_by_label("Job").fill(" 132 ")
    ill.answers["api/jobs"] = {"jobs": [{**job, "state": "completed", "error": None}]}
    find.get_by_role("button").click()
    expect(shown).to_contain_text("completed, 3 attempts, 0 retries left")
    assert shown.locator("button").count() == 0

    ill.answers["api/jobs"] = {"jobs": [{**job, "state": "incident", "error": "no such mailbox"}]}
    find.get_by_label("Job").press("Enter")
    expect(shown).to_contain_text(
        "incident: it needs a person, 3 attempts, 0 retries left: no such"
    )
    shown.get_by_role("button", name="retry").click()
    give_token(ill)
    expect(shown.locator(".said")).to_contain_text("retry")
    shown.get_by_role("button", name="cancel it").click()
    shown.locator("form").get_by_role("button", name="cancel it").click()
    expect(shown.locator(".said")).to_contain_text("cancel")

    named = {"engine": "sqlite", "key": "132"}
    assert ill.orders == [{"verb": "retry", **named}, {"verb": "cancel", **named, "confirm": True}]


def test_what_was_mended_is_still_said(ill: Stage) -> None:
    """When an action makes its own line disappear, the sentence about it stays for a while."""
    line(ill, "smtp").get_by_role("button", name="restart").click()
    give_token(ill)
    expect(line(ill, "smtp").locator(".said")).to_contain_text("restart: shop/mail/smtp/0")
    ill.story.look.clear()
    ill.tell()

    expect(ill.page.locator("#notice")).to_contain_text("restart: shop/mail/smtp/0")
