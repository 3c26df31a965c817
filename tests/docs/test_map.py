"""The pages that list something list all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import docs.tables as tables
from supervision.states import TRANSITIONS
from tests.test_house import FLOORS

ROOT = Path(__file__).parent.parent.parent
MAP = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ROW = re.compile(r"^\| *(\d*) *\| `([a-z_]+/?)` \|", re.MULTILINE)
DOCUMENTED = re.compile(r"^\.\. auto(?:class|exception|function):: (\S+?)(?:\(\))?$", re.MULTILINE)


def mapped(package: str) -> list[list[str]]:
    """Return the floors that the map shows for a package, lowest first."""
    section = MAP.partition(f"## `{package}`")[2].partition("\n## ")[0]
    floors: list[list[str]] = []
    for number, name in ROW.findall(section):
        if number:
            floors.append([])
        floors[-1].append(name)
    return floors


def present(package: str) -> list[list[str]]:
    """Return the floors as tests/test_house.py has them, without what is not built (yet) and the doors."""
    floors = [
        [name for name in floor if (ROOT / package / _file(name)).exists() and name[0] != "_"]
        for floor in FLOORS[package]
    ]
    return [sorted(floor) for floor in floors if floor]


def _file(name: str) -> str:
    return name if name.endswith("/") else f"{name}.py"


@pytest.mark.parametrize("package", FLOORS)
def test_the_map_shows_every_file_on_its_floor(package: str) -> None:
    """The map of the house has the files that there are, on the floors that the walls are built on."""
    assert [sorted(floor) for floor in mapped(package)] == present(package)


@pytest.mark.parametrize("package", FLOORS)
def test_every_public_name_is_documented_once(package: str) -> None:
    """The reference has each public name exactly once, and no other."""
    page = (ROOT / "docs" / "reference" / f"{package}.md").read_text("utf-8")
    found = sorted(name.rpartition(".")[2] for name in DOCUMENTED.findall(page))
    found = [name for name in found if name != "configure"]  # it stands in a module of its own
    modules = {"supervisor"}  # a module with a public name; it is explained in words

    assert found == sorted(set(tables.public_names()[package]) - modules)


def test_the_diagram_draws_every_transition() -> None:
    """The picture of the states has one arrow for each line of the table."""
    drawn = re.findall(r'data-arrow="(\w+)-(\w+)"', tables.state_diagram())

    assert sorted(drawn) == sorted((old, new) for old, ways in TRANSITIONS.items() for new in ways)


def test_every_event_is_in_the_table() -> None:
    """The table of events has every event that the two packages define, with the meaning of its fields."""
    rows = tables.events()
    defined = {
        match
        for path in [*ROOT.glob("actors/**/*.py"), *ROOT.glob("supervision/**/*.py")]
        for match in re.findall(r"^class (\w+)\(Event\):", path.read_text("utf-8"), re.MULTILINE)
    }

    assert {name for name in defined if f"| `{name}` |" not in rows} == set()


def test_every_option_says_what_it_does() -> None:
    """The tables of options have no option without a meaning."""
    for name in ("worker-options", "supervisor-options", "restart-options", "mailbox-options"):
        rows = tables.GENERATED[name]().splitlines()[2:]
        assert rows
        assert [row for row in rows if row.endswith("|  |")] == []
