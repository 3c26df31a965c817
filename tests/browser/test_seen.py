"""What is seen: states, what needs a look, the tree, guards, queues, events."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.frames import Story, huge
from tests.browser.stage import Stage


def test_states_are_counted(ill: Stage) -> None:
    """The header says whose tree it is, and how many replicas are in which state."""
    assert ill.text("header").startswith("shop live up 3 d 4 h · pid 4121 · box")
    assert ill.text("#counts") == (
        "17 replicas 13 running 1 restarting 1 failed 0 pending 1 stopped 1 disabled"
    )
    assert ill.page.title() == "✕ 1 failed · shop"


def test_the_worst_comes_first(ill: Stage) -> None:
    """What needs a look stands above all else, in the order of the tree's own judgement."""
    lines = ill.page.locator("#look li .path").all_inner_texts()

    assert lines == ["shop/mail/smtp/0", "shop/fetch/3", "payments", "mail"]
    look = ill.page.locator("#look").bounding_box()
    tree = ill.page.locator("#tree").bounding_box()
    assert look
    assert tree
    assert look["y"] < tree["y"]


def test_a_quiet_tree_makes_a_quiet_page(ill: Stage) -> None:
    """When nothing needs a look any more, the list is gone."""
    ill.story.look.clear()
    ill.tell()

    expect(ill.page.locator("#look")).to_be_hidden()


def test_a_state_is_a_shape_and_a_word(ill: Stage) -> None:
    """Nothing is said by colour alone: each state has its own shape and its word beside it."""
    assert "failed" in ill.row("shop/mail/smtp/0")
    assert "retry in" in ill.row("shop/fetch/3")
    assert "busy 1.2 s" in ill.row("shop/fetch/1")
    assert "disabled" in ill.row("shop/store/2")
    shapes = {
        path: ill.page.locator(
            f'#tree .row[title="{path}"] .state > .shape use'
        ).first.get_attribute("href")
        for path in ("shop/mail/smtp/0", "shop/fetch/3", "shop/fetch/0", "shop/store/2")
    }
    assert shapes == {
        "shop/mail/smtp/0": "#s-failed",
        "shop/fetch/3": "#s-restarting",
        "shop/fetch/0": "#s-running",
        "shop/store/2": "#s-disabled",
    }


def test_replicas_of_one_worker_stand_together(ill: Stage) -> None:
    """Several replicas are one row that says how they are; a lone one goes by its worker's name."""
    assert ill.row("shop/fetch").startswith("fetch \u00d74 3 running 1 restarting")
    assert ill.row("shop/prune/0").startswith("prune")
    assert ill.paths()[:6] == ["shop", "shop/fetch", *(f"shop/fetch/{n}" for n in range(4))]


def test_folding_hides_what_is_below(ill: Stage) -> None:
    """A folded row keeps its children to itself, and says what is wrong among them."""
    ill.page.locator('#tree .row[title="shop/mail"] .twist').click()

    assert "shop/mail/smtp/0" not in ill.paths()
    assert "1 failed" in ill.row("shop/mail")


def test_large_groups_begin_folded(stage: Callable[..., Stage]) -> None:
    """Hundreds of replicas of one worker do not push the rest of the tree away."""
    seen = stage(huge(1000))

    assert "farm/hall0/crawler0" in seen.paths()
    assert "farm/hall0/crawler0/0" not in seen.paths()


def test_a_mailbox_warns_before_it_is_full(ill: Stage) -> None:
    """From half full on a mailbox is marked, from four fifths on marked as full."""
    levels = {
        path: ill.page.locator(f'#tree .row[title="{path}"] .mail').get_attribute("data-level")
        for path in ("shop/fetch/0", "shop/fetch/1", "shop/fetch/3")
    }

    assert levels == {"shop/fetch/0": "", "shop/fetch/1": "half", "shop/fetch/3": "full"}


def test_a_filter_keeps_the_way_to_what_it_finds(ill: Stage) -> None:
    """Filtering shows what matches with all that is above it, and says if there is nothing."""
    ill.page.locator("#filter").fill("failed")
    assert ill.paths() == ["shop", "shop/mail", "shop/mail/smtp/0"]

    ill.page.locator("#filter").fill("no such thing")
    assert ill.paths() == []
    assert ill.text("#tree .none") == "Nothing matches “no such thing”."


def test_a_count_is_a_filter(ill: Stage) -> None:
    """Pressing a state's count shows only those; pressing it again shows all."""
    ill.page.locator(".count.restarting").click()
    assert ill.paths() == ["shop", "shop/fetch", "shop/fetch/3"]

    ill.page.locator(".count.restarting").click()
    assert len(ill.paths()) > 10


def test_sorting_puts_the_worst_on_top(ill: Stage) -> None:
    """In any order but the tree's, replicas stand in one list with where they belong."""
    ill.page.locator("#sort").select_option("state")
    assert ill.paths()[:2] == ["shop/mail/smtp/0", "shop/fetch/3"]

    ill.page.locator("#sort").select_option("mailbox")
    assert ill.paths()[:3] == ["shop/mail/smtp/0", "shop/fetch/3", "shop/fetch/1"]


def test_guards_and_queues_have_their_tables(ill: Stage) -> None:
    """Breakers, bulkheads and job queues are shown with what a person asks of them."""
    assert "payments open, tries in 12 s 21 of" in ill.text("#breakers")
    assert "payments 8/8 5/16" in ill.text("#bulkheads")
    assert "mail paused 20 1 11 14 5" in ill.text("#queues")


def test_dead_letters_are_asked_for_when_opened(ill: Stage) -> None:
    """The list of dead letters costs nothing until somebody opens it."""
    ill.answers["api/letters"] = {
        "letters": [
            {"when": 1_796_000_000, "path": "shop/fetch/3", "reason": "handler", "kind": "Fetch"}
        ],
        "total": 14,
    }
    ill.page.locator("#letters summary").click()

    expect(ill.page.locator("#letters .lines")).to_contain_text("Fetchhandler")


def test_events_are_told_newest_first_and_once(ill: Stage) -> None:
    """Each event is one line, however often frames repeat it."""
    ill.tell(3)
    lines = ill.page.locator("#events li .text").all_inner_texts()

    assert len(lines) == 4
    assert lines[0].endswith("shop/fetch/3 restarts in 2.4 s (3 of 5 consecutive)")


def test_rows_come_and_go(stage: Callable[..., Stage]) -> None:
    """A worker that is scaled, or a child that is removed, is there or gone with the next frame."""
    seen = stage(Story(["t"], {"t/one": 2, "t/two": 1}))
    seen.story.rows = {path: row for path, row in seen.story.rows.items() if path != "t/one/1"}
    seen.tell()

    assert seen.paths() == ["t", "t/one/0", "t/two/0"]
    assert seen.row("t/one/0").startswith("one")
