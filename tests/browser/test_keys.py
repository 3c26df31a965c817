"""Keys and addresses: all can be reached without a mouse, and what is seen can be sent to a colleague."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.frames import huge
from tests.browser.stage import Stage

AT = "document.getElementById(document.querySelector('[role=treegrid]').getAttribute('aria-activedescendant')).title"


def press(stage: Stage, *keys: str) -> None:
    """Press one key after the other."""
    for key in keys:
        stage.page.keyboard.press(key)


def at(stage: Stage) -> str:
    """The path of the row that the keys are on."""
    return str(stage.page.evaluate(AT))


def test_j_and_k_move_and_enter_opens(ill: Stage) -> None:
    """Rows are gone through with two keys, and opened with a third."""
    press(ill, "j", "j", "j", "k")
    assert at(ill) == "shop/fetch/0"

    press(ill, "Enter")
    expect(ill.page.locator("#detail h2")).to_have_text("fetch/0")
    assert ill.page.url.endswith("#/shop/fetch/0")

    press(ill, "Escape")
    expect(ill.page.locator("#detail")).to_be_hidden()


def test_space_folds(ill: Stage) -> None:
    """Space folds the row and unfolds it."""
    press(ill, "j", " ")
    assert "shop/fetch/0" not in ill.paths()

    press(ill, " ")
    assert "shop/fetch/0" in ill.paths()


def test_slash_filters_and_escape_ends_it(ill: Stage) -> None:
    """The filter is one key away; letters typed into it are no commands."""
    press(ill, "/")
    ill.page.keyboard.type("jk")
    assert ill.page.locator("#filter").input_value() == "jk"

    press(ill, "Escape")
    assert len(ill.paths()) > 10


def test_help_is_one_key_away(ill: Stage) -> None:
    """The question mark explains keys and signs."""
    press(ill, "?")
    expect(ill.page.locator("#keys")).to_contain_text("its limit is used up; somebody has to act")

    press(ill, "Escape")
    expect(ill.page.locator("#keys")).to_be_hidden()


def test_arrows_work_in_the_grid(ill: Stage) -> None:
    """Who comes by tab has the keys that screen readers teach for a tree."""
    ill.page.locator("[role=treegrid]").focus()
    press(ill, "ArrowDown", "ArrowLeft")
    assert "shop/fetch/0" not in ill.paths()

    press(ill, "ArrowRight", "ArrowDown", "ArrowLeft")
    assert at(ill) == "shop/fetch"


def test_the_keys_reach_the_end_of_a_huge_tree(stage: Callable[..., Stage]) -> None:
    """The row that the keys are on is always in the document and in sight, however many there are."""
    seen = stage(huge(1000))
    press(seen, "z", "z", "G")

    assert at(seen) == "farm/hall4/crawler9/99"
    assert seen.page.locator('[title="farm/hall4/crawler9/99"]').is_visible()


def test_an_address_opens_what_it_names(stage: Callable[..., Stage]) -> None:
    """A link to one replica shows it, also where its group would be folded."""
    seen = stage(huge(1000), at="#/farm/hall1/crawler3/77")

    assert seen.text("#detail h2") == "crawler3/77"
    assert seen.page.locator('#tree [aria-selected="true"]').get_attribute("title") == (
        "farm/hall1/crawler3/77"
    )


def test_going_back_goes_back(ill: Stage) -> None:
    """What was opened before is opened again by the browser's own button."""
    ill.page.locator('#tree .row[title="shop/fetch/0"]').click()
    ill.page.locator('#tree .row[title="shop/prune/0"]').click()
    expect(ill.page.locator("#detail h2")).to_have_text("prune")
    ill.page.go_back()

    expect(ill.page.locator("#detail h2")).to_have_text("fetch/0")


def test_an_address_of_nothing_says_so(stage: Callable[..., Stage]) -> None:
    """A link to what is gone says that, and the rest of the page works."""
    seen = stage(at="#/shop/fetch/99")

    assert "There is no shop/fetch/99 in this tree (any more)." in seen.text("#detail")


def test_the_pane_shows_why(stage: Callable[..., Stage]) -> None:
    """An opened replica shows its last error with the traceback, its limits and its policy."""
    seen = stage(at="#/shop/fetch/3")
    detail = seen.page.locator("#detail")

    expect(detail.locator("pre").first).to_contain_text('File "shop/fetch.py", line 58, in parse')
    expect(detail).to_contain_text("3/5 in a row")
    expect(detail).to_contain_text("permanent, at most 5 restarts, after 0.5 s, up to 30 s")
    detail.get_by_text("All options").click()
    expect(detail.get_by_text("restart.reset after")).to_be_visible()
