"""A real Chromium, Debian's, driven by Playwright; without one these tests are skipped and say so.

No browser is ever fetched: it is the one on the machine, or the one that TREEWARDEN_CHROMIUM names.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

from playwright.sync_api import Browser, Page  # noqa: E402

from tests.browser.frames import Story, quiet, troubled  # noqa: E402
from tests.browser.stage import Stage  # noqa: E402

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 30_000
"""Milliseconds that a condition may take on a busy machine."""


# Playwright keeps an asyncio loop going in this thread: it has to be gone before the tests of other folders.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this folder."""
    path = os.environ.get("TREEWARDEN_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not path:
        pytest.skip("no Chromium on this machine: install Debian's package chromium")
    with sync_api.sync_playwright() as playwright:
        sync_api.expect.set_options(timeout=PATIENCE)
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open pages that may not complain: what the console or an exception said fails the test."""
    contexts = []
    complaints: list[str] = []
    expected: list[str] = []

    def open_one(*, width: int = 1280, expect: tuple[str, ...] = (), **options: object) -> Page:
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        expected.extend(expect)
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert [text for text in complaints if not any(word in text for word in expected)] == []


@pytest.fixture
def stage(new_page: Callable[..., Page]) -> Callable[..., Stage]:
    """Show a made-up tree: `stage(story, at="#/shop", width=375)`."""

    def show(story: Story | None = None, *, at: str = "", **options: object) -> Stage:
        return Stage(new_page(**options), story or troubled()).open(at)

    return show


@pytest.fixture
def calm(stage: Callable[..., Stage]) -> Stage:
    """A tree in which all is well."""
    return stage(quiet())


@pytest.fixture
def ill(stage: Callable[..., Stage]) -> Stage:
    """A tree in which much is wrong."""
    return stage(troubled())
