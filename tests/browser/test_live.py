"""From end to end: a real tree, its own observer, a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.running import TOKEN, Running

pytestmark = pytest.mark.slow

# What Chromium itself writes into the console when nobody answers, or no is the answer.
UNANSWERED = ("WebSocket", "Failed to load resource")
WITHIN = 5_000
"""Milliseconds from a failure to its being seen: a second on a machine that is idle, more on one that is not."""
WATCH = """path => {
    window.seen = new Promise(resolve => new MutationObserver((_, watch) => {
        const line = [...document.querySelectorAll('#look li')].find(li => li.textContent.includes(path));
        if (line) { watch.disconnect(); resolve(Date.now()); }
    }).observe(document.body, { subtree: true, childList: true, characterData: true }));
}"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Running]:
    """The shop, running, with its page."""
    with Running(tmp_path) as running:
        yield running


def look(page: Page, running: Running, at: str = "") -> Page:
    """Open the page of a tree and wait until it is live."""
    page.goto(f"{running.url}/{at}")
    expect(page.locator("#link")).to_have_text("live")
    expect(page.locator("#tree .rows .row").first).to_be_visible()
    return page


def give_token(page: Page, token: str) -> None:
    """Answer the question for the token."""
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Use it").click()


def test_the_page_loads_and_is_alive(shop: Running, new_page: Callable[..., Page]) -> None:
    """The page of a running tree loads without a complaint, and shows what it does."""
    page = look(new_page(), shop)

    expect(page.locator("#name")).to_have_text("shop")
    expect(page.locator("#tree .row[title='shop/fetch']")).to_contain_text("\u00d74")
    expect(page.locator("#tree .row[title='shop/prune/0']")).to_contain_text("stopped")
    expect(page.locator("#queues")).to_contain_text("invoice")
    expect(page.locator("#bulkheads")).to_contain_text("payments")
    page.wait_for_function("() => parseFloat(document.querySelector('#totals b').textContent) > 1")


def test_a_failure_is_seen_at_once(shop: Running, new_page: Callable[..., Page]) -> None:
    """A worker that is made to fail for good is on the page within a second, with its error."""
    page = look(new_page(), shop)
    page.evaluate(WATCH, "shop/mail/smtp/0")
    start = page.evaluate("Date.now()")
    shop.trouble("smtp")

    # It takes three restarts of at most 0.1 s each until it stays failed; its first crash is what counts here.
    took = page.evaluate("window.seen") - start
    assert took < WITHIN, f"{took} ms"
    line = page.locator("#look li", has_text="shop/mail/smtp/0")
    expect(line).to_contain_text("failed after")
    expect(line).to_contain_text("mail.example.org:25 refused the connection")
    assert page.title() == "\u2715 1 failed · shop"


def test_a_restart_from_the_page_works(shop: Running, new_page: Callable[..., Page]) -> None:
    """With the token, the failed worker is started again from the page, and the page says so."""
    page = look(new_page(expect=UNANSWERED), shop)
    shop.trouble("smtp")
    line = page.locator("#look li", has_text="shop/mail/smtp/0")
    expect(line).to_contain_text("failed after")
    shop.relief("smtp")

    line.get_by_role("button", name="restart").click()
    give_token(page, "not-the-token")
    expect(line.locator(".said")).to_contain_text("token")
    expect(page.locator(".count.failed b")).to_have_text("1")

    line.get_by_role("button", name="restart").click()
    give_token(page, TOKEN)
    expect(page.locator(".count.failed b")).to_have_text("0")
    # The line is gone with what it was about; what was done is still said.
    expect(page.locator("#notice")).to_contain_text("shop/mail/smtp/0 is running again")
    expect(page.locator("#events")).to_contain_text("restart")


def test_what_is_done_is_said_in_the_pane(shop: Running, new_page: Callable[..., Page]) -> None:
    """A running replica is stopped after a second press, and started again, from its own pane."""
    page = look(new_page(), shop, "#/shop/fetch/2")
    actions = page.locator("#detail .actions")
    actions.get_by_role("button", name="stop").click()
    actions.get_by_role("button", name="stop").click()
    give_token(page, TOKEN)
    expect(actions.locator(".said")).to_contain_text("shop/fetch/2 is stopped")
    expect(page.locator("#detail .now")).to_contain_text("stopped")

    actions.get_by_role("button", name="start").click()
    expect(actions.locator(".said")).to_contain_text("shop/fetch/2 is running")
    expect(page.locator("#detail .now")).to_contain_text("running")


def test_a_worker_is_scaled(shop: Running, new_page: Callable[..., Page]) -> None:
    """More replicas appear in the tree as soon as somebody asks for them."""
    page = look(new_page(), shop, "#/shop/fetch")
    page.locator("#detail [data-verb=scale]").click()
    page.get_by_role("spinbutton", name="Replicas").fill("6")
    page.keyboard.press("Enter")
    give_token(page, TOKEN)

    expect(page.locator("#tree .row[title='shop/fetch']")).to_contain_text("\u00d76")


def test_the_pane_explains_a_failure(shop: Running, new_page: Callable[..., Page]) -> None:
    """The pane of a failed worker has the traceback, its policy, and its limit used up."""
    page = look(new_page(), shop, "#/shop/mail/smtp/0")
    shop.trouble("smtp")
    detail = page.locator("#detail")

    expect(detail).to_contain_text("4/3 in a row")
    expect(detail.locator("pre").first).to_contain_text("ConnectionRefusedError")
    expect(detail.locator("pre").first).to_contain_text("in smtp")


def test_a_breaker_is_seen_and_closed(shop: Running, new_page: Callable[..., Page]) -> None:
    """An open breaker needs a look, and can be closed by hand once the service is back."""
    page = look(new_page(), shop)
    shop.trouble("payments")
    row = page.locator("#breakers tr", has_text="payments")
    expect(row).to_contain_text("open, tries in")
    expect(page.locator("#look li.breaker")).to_contain_text("payments")

    shop.relief("payments")
    row.get_by_role("button", name="close").click()
    give_token(page, TOKEN)
    expect(row).to_contain_text("closed")


def test_a_queue_is_paused(shop: Running, new_page: Callable[..., Page]) -> None:
    """The jobs of one type are held back from the page, and the page says that they are."""
    page = look(new_page(), shop)
    row = page.locator("#queues tr", has_text="reminder")
    row.get_by_role("button", name="pause").click()
    give_token(page, TOKEN)

    expect(row.locator(".flag")).to_have_text("paused")
    expect(row.get_by_role("button", name="resume")).to_be_visible()


def test_incidents_are_found_and_tried_again(shop: Running, new_page: Callable[..., Page]) -> None:
    """From what needs a look to the jobs that need a person, with their errors; one is tried again and leaves the list."""
    page = look(new_page(), shop)
    shop.trouble("bounces")
    page.locator("#look li.queue").get_by_role("button", name="reminder").click()
    jobs = page.locator("#queues .lines li:has(.do)")
    expect(jobs.first).to_contain_text("bounces")
    shop.relief("bounces")

    key = (jobs.first.locator(".path").inner_text()).rpartition(" ")[2]
    jobs.first.get_by_role("button", name="retry").click()
    give_token(page, TOKEN)
    expect(page.locator("#notice")).to_contain_text(f"{key} will be tried again")
    expect(jobs.filter(has=page.get_by_text(f"reminder {key}", exact=True))).to_have_count(0)


@pytest.mark.parametrize("control", [False, True])
def test_without_a_token_the_page_only_looks(
    tmp_path: Path, new_page: Callable[..., Page], control: bool
) -> None:
    """A tree that was served without a token offers nothing to press, though commands on its machine may act."""
    with Running(tmp_path, actions=False, control=control) as running:
        page = look(new_page(expect=UNANSWERED), running, "#/shop/fetch/0")

        expect(page.locator("#access")).to_have_text("read-only")
        assert page.locator(".do").count() == 0
        missing = "a token" if control else "actions"
        expect(
            page.get_by_text(f"Read-only: the tree was started without {missing}")
        ).to_be_visible()


def test_a_killed_process_is_lost_and_its_successor_is_another(
    tmp_path: Path, new_page: Callable[..., Page]
) -> None:
    """The page says that the connection is lost, finds the next process by itself, and says that it is another."""
    page = new_page(expect=UNANSWERED)
    with Running(tmp_path) as first:
        look(page, first)
        first.kill()
        expect(page.locator("#banner")).to_contain_text("data frozen")
        expect(page.locator("#link")).to_have_text("lost")
        with Running(tmp_path, port=first.port) as second:
            expect(page.locator("#banner")).to_contain_text("Process restarted")
            expect(page.locator("#process")).to_contain_text(f"pid {second.process.pid}")
            expect(page.locator("#link")).to_have_text("live")


def test_an_ordered_stop_is_told(shop: Running, new_page: Callable[..., Page]) -> None:
    """Who watches a tree being stopped in order is told that it has stopped."""
    page = look(new_page(expect=UNANSWERED), shop)
    shop.stop()

    expect(page.locator("#banner")).to_contain_text("The tree stopped")


@pytest.mark.parametrize("at", ["", "#/shop/fetch/0"])
def test_the_real_page_fits_a_phone(shop: Running, new_page: Callable[..., Page], at: str) -> None:
    """A real tree with much to tell needs no sideways scrolling at 375 pixels."""
    page = look(new_page(width=375), shop, at)
    shop.trouble("smtp")
    expect(page.locator("#look li.failed")).to_contain_text("failed after")

    assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_five_thousand_replicas_are_no_burden(
    tmp_path: Path, new_page: Callable[..., Page]
) -> None:
    """A tree of 5,000 is drawn, unfolded, frame after frame, and the page keeps up."""
    with Running(tmp_path, "crowded") as running:
        page = look(new_page(expect=UNANSWERED), running)
        expect(page.locator(".count.running b")).to_have_text("5\u202f000")
        page.keyboard.press("z")
        page.keyboard.press("z")
        page.wait_for_function("() => performance.getEntriesByName('frame').length >= 5")
        took = page.evaluate("performance.getEntriesByName('frame').slice(1).map(e => e.duration)")

        assert min(took) < 200, took
        assert page.locator("#tree .rows .row").count() < 100
