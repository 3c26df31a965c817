"""What the checklist says about the trees of the examples and of the tutorial."""

from __future__ import annotations

import pytest

from actors.jobs import MemoryEngine
from examples import armour, embedded, quickstart
from examples.outbox.shop import Settings, open_shop
from examples.payments.board import Board
from examples.payments.books import Books
from examples.payments.demo import Demo
from examples.payments.office import office
from examples.payments.settings import Settings as Paying
from examples.tutorial import crash, first, give_up, replicas, stock, stop
from supervision import Supervisor
from supervision.checklist import examine

# Meant so: the example serves itself on this machine and starts at once; the demonstration is served with 20 s to stop.
MEANT = {
    "shop/service": {"TW107"},
    "demo/provider": {"TW202"},
}
MODULES = [armour, embedded, quickstart, crash, first, give_up, replicas, stock, stop]


def paying(folder) -> list[Supervisor]:
    settings, books = Paying(folder=str(folder)), Books(MemoryEngine(), "?")
    return [office(settings, books, None), Demo(settings, books, Board()).tree()]


def trees(tmp_path) -> list[Supervisor]:
    with open_shop(Settings(), tmp_path / "outbox.db") as shop:
        found = [
            value for m in MODULES for value in vars(m).values() if isinstance(value, Supervisor)
        ]
        return [*found, shop.tree(), *paying(tmp_path)]


def test_the_examples_are_clean(tmp_path) -> None:
    """Nothing is found in the example trees but what is listed here, and what is listed is found."""
    found: dict[str, set[str]] = {}
    for tree in trees(tmp_path):
        for finding in examine(tree).findings:
            found.setdefault(finding.path, set()).add(finding.code)

    assert found == MEANT


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_example_has_a_tree(module) -> None:
    """The search finds trees: a changed way of writing them cannot switch the test off."""
    assert any(isinstance(value, Supervisor) for value in vars(module).values())
