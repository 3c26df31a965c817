"""Files: the page is plain text that any browser reads as it is."""

from __future__ import annotations

import re

import pytest

from tests.browser.running import ROOT
from tests.browser.stage import FILES

TEXTS = {path.name: path.read_text("utf-8") for path in sorted(FILES.iterdir())}
LONGEST_FILE = 500
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_comes_from_elsewhere(name: str) -> None:
    """No file of the page names another host."""
    assert re.findall(r"https?://[^\s\"'`]*", TEXTS[name].replace(NAMESPACE, "")) == []


def test_nothing_stands_inline() -> None:
    """The page's rules for content allow no script and no style in the document, and there is none."""
    page = TEXTS["index.html"]

    assert re.findall(r"<script[^>]*>\s*[^<\s]", page) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=", page) == []


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(".js")])
def test_every_module_finds_its_neighbours(name: str) -> None:
    """What a module imports is there and is given by the one it names, and it opens by saying what it is."""
    assert TEXTS[name].startswith("// ")
    for names, source in re.findall(r"import \{([^}]*)\} from \"\./([^\"]+)\"", TEXTS[name]):
        given = re.findall(
            r"^export (?:async )?(?:const|class|function) (\w+)", TEXTS[source], re.MULTILINE
        )
        for wanted in filter(None, map(str.strip, names.split(","))):
            assert wanted in given
            assert len(re.findall(rf"\b{wanted}\b", TEXTS[name])) > 1, f"{wanted} is not used"


def test_no_file_is_too_long() -> None:
    """Every file of the page can be read in one sitting."""
    lengths = {name: len(text.splitlines()) for name, text in TEXTS.items()}

    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def test_imports_run_down() -> None:
    """The modules of the page have floors too, and the map of the house lists them all."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    floors: dict[str, int] = {}
    floor = 0
    for number, name in re.findall(r"^\| (\d*) ?\| `(\w+\.js)` \|", page, re.MULTILINE):
        floor = int(number or floor)
        floors[name] = floor

    assert sorted(floors) == [name for name in TEXTS if name.endswith(".js")]
    for name, own in floors.items():
        for source in re.findall(r"from \"\./([^\"]+)\"", TEXTS[name]):
            assert floors[source] < own, f"{name} imports {source}"
