"""The pages that list something list all of it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import docs.tables as tables
from actors.resilience import breaker_policy
from supervision.states import TRANSITIONS
from tests.test_house import FLOORS

ROOT = Path(__file__).parent.parent.parent
MAP = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ROW = re.compile(r"^\| *(\d*) *\| `([a-z_]+/?)` \|", re.MULTILINE)
DOCUMENTED = re.compile(
    r"^\.\. auto(?:class|data|exception|function):: (\S+?)(?:\(\))?$", re.MULTILINE
)


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


@pytest.mark.parametrize(
    "room",
    [
        "actors.resilience",
        "actors.jobs",
        "actors.jobs.postgres",
        "actors.jobs.sqlite",
        "supervision.observer",
        "supervision.checklist",
        "supervision.cli",
    ],
)
def test_the_map_shows_every_file_of_a_room(room: str) -> None:
    """A room that has a table of its own on the map shows the files that there are, lower ones first."""
    folder = ROOT / room.replace(".", "/")
    shown = [name for floor in mapped(room) for name in floor]
    assert sorted(shown) == sorted(p.stem for p in folder.glob("*.py") if p.stem[0] != "_")

    inside = re.compile(rf"^from {re.escape(room)}\.(\w+) import", re.MULTILINE)
    for place, name in enumerate(shown):
        below = set(inside.findall((folder / f"{name}.py").read_text("utf-8")))
        assert below <= set(shown[:place]), name


@pytest.mark.parametrize("door", tables.public_names())
def test_every_public_name_is_documented_once(door: str) -> None:
    """The reference has each public name exactly once, and no other."""
    page = (ROOT / "docs" / "reference" / f"{door.rpartition('.')[2]}.md").read_text("utf-8")
    documented = DOCUMENTED.findall(page)
    assert {name.rpartition(".")[0] for name in documented} <= {door, f"{door}.config"}
    found = sorted(name.rpartition(".")[2] for name in documented)
    found = [name for name in found if name != "configure"]  # it stands in a module of its own
    modules = {"supervisor"}  # a module with a public name; it is explained in words

    assert found == sorted(set(tables.public_names()[door]) - modules)


def test_every_public_name_has_a_door() -> None:
    """A name that two packages offer is the same thing, and documented at one of them."""
    names = tables.public_names()
    everything = {(door.__name__, name) for door in tables.DOORS for name in door.__all__}
    elsewhere = everything - {(door, name) for door in names for name in names[door]}
    documented = [getattr(import_module(door), name) for door in names for name in names[door]]

    for door, name in elsewhere:
        made = getattr(import_module(door), name)
        assert any(made is other for other in documented), f"{door}.{name}"


def test_the_diagram_draws_every_transition() -> None:
    """The picture of the states has one arrow for each line of the table."""
    drawn = re.findall(r'data-arrow="(\w+)-(\w+)"', tables.state_diagram())

    assert sorted(drawn) == sorted((old, new) for old, ways in TRANSITIONS.items() for new in ways)


def test_the_diagram_draws_every_change_of_a_breaker() -> None:
    """The picture of the breaker has one arrow for each line of its table."""
    drawn = re.findall(r'data-arrow="(\w+)-(\w+)"', tables.breaker_diagram())
    ways = breaker_policy.TRANSITIONS.items()

    assert sorted(drawn) == sorted(
        (old.name.lower(), new.name.lower()) for old, news in ways for new in news
    )


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
    names = [name for name in tables.GENERATED if name.endswith("-options")]
    assert len(names) >= 9
    for name in names:
        rows = tables.GENERATED[name]().splitlines()[2:]
        assert rows
        assert [row for row in rows if row.endswith("|  |")] == []
