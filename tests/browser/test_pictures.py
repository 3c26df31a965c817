"""Pictures: what the documentation shows is what a test run saw.

`TREEWARDEN_SCREENSHOTS=1 nox -s tests -- tests/browser/test_pictures.py` renews them; any other run leaves them alone and only looks whether
they could be taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.frames import huge
from tests.browser.running import ROOT, Running
from tests.browser.stage import Stage

pytestmark = pytest.mark.slow

RENEW = os.environ.get("TREEWARDEN_SCREENSHOTS") == "1"
PICTURES = ROOT / "docs" / "images"
LARGEST = 200_000
"""Bytes of a picture: it is downloaded by everyone who clones the repository."""
UNANSWERED = ("WebSocket", "Failed to load resource")


@pytest.fixture
def keep(tmp_path: Path) -> Callable[[Page, str], None]:
    """Take a picture of a page, and keep it for the documentation if that was asked for."""

    def take(page: Page, name: str) -> None:
        target = (PICTURES if RENEW else tmp_path) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        page.mouse.move(0, 0)
        page.screenshot(path=target, animations="disabled")
        assert 5_000 < target.stat().st_size < LARGEST, f"{name}: {target.stat().st_size} bytes"

    return take


def frames(page: Page, n: int) -> None:
    """Let the page see so many frames more: sparklines need a past."""
    page.wait_for_function("() => performance.getEntriesByName('frame').length")
    past = page.evaluate("performance.getEntriesByName('frame').at(-1).detail.seq")
    page.wait_for_function(
        "seq => performance.getEntriesByName('frame').at(-1)?.detail.seq >= seq",
        arg=past + n,
        timeout=10_000 * n,
    )


def fold(page: Page) -> None:
    """Fold what stands open in the pane: where a traceback comes from is this machine's business."""
    for summary in page.locator("#detail details[open] > summary").all():
        summary.click()


def test_a_bad_day(
    tmp_path: Path, new_page: Callable[..., Page], keep: Callable[..., None]
) -> None:
    """The page of a shop with troubles: dark on a desk, and on a phone."""
    many = 30 if RENEW else 2
    with Running(tmp_path) as shop:
        page = new_page(width=1360, color_scheme="dark", expect=UNANSWERED)
        page.set_viewport_size({"width": 1360, "height": 900})
        page.goto(f"{shop.url}/#/shop/fetch/3")
        frames(page, many)
        for name in ("payments", "smtp", "fetch"):
            shop.trouble(name)
        expect(page.locator("#look li.failed")).to_contain_text("failed after")
        expect(page.locator("#look li.breaker")).to_contain_text("payments")
        expect(page.locator("#detail .now")).to_contain_text("retry in")
        frames(page, 2)
        fold(page)
        keep(page, "page.png")

        phone = new_page(width=375, color_scheme="dark", device_scale_factor=1.5, expect=UNANSWERED)
        phone.goto(f"{shop.url}/")
        expect(phone.locator("#look li.failed")).to_contain_text("failed after")
        frames(phone, 2)
        keep(phone, "page-phone.png")

        shop.kill()
        expect(page.locator("#banner")).to_contain_text("Connection lost 2 s ago, data frozen")
        fold(page)
        keep(page, "page-lost.png")


def test_a_good_day(
    tmp_path: Path, new_page: Callable[..., Page], keep: Callable[..., None]
) -> None:
    """The page of the same shop without troubles, in light colours."""
    with Running(tmp_path) as shop:
        page = new_page(width=1360, color_scheme="light", expect=UNANSWERED)
        page.goto(f"{shop.url}/")
        expect(page.locator("#look")).to_be_hidden()
        frames(page, 30 if RENEW else 2)
        keep(page, "page-light.png")


def test_a_crowd(stage: Callable[..., Stage], keep: Callable[..., None]) -> None:
    """Five thousand replicas, of which one has failed: it is on top."""
    story = huge(5000)
    story.fails("farm/hall3/crawler7/123", "failed after 6 failures: ValueError: bad", failures=6)
    seen = stage(story, at="#/farm/hall3/crawler7/123", width=1360, color_scheme="dark")
    seen.tell(12)
    keep(seen.page, "page-crowd.png")
