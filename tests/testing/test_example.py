"""The example of the how-to page, as its reader runs it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.testing.test_plugin import session

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "property-testing.md").read_text("utf-8")
EXAMPLE, MACHINE, BY_HAND = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MENDED = EXAMPLE.replace("rows.pop(0)", "rows[0]").replace(
    "published.append(row)", "published.append(row); del rows[0]"
)
PROFILE = "--hypothesis-profile=supervision"


def test_the_example_is_short() -> None:
    """What a reader has to type is at most 25 lines of code."""
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 25


def test_the_example_finds_the_bug(tmp_path) -> None:
    """A row is lost when the relay crashes while it publishes, and the failure says how to see it again."""
    code, out = session(tmp_path, EXAMPLE, PROFILE)

    assert code == 1
    assert "Plan([Life('crashes'" in out
    assert "reproduce_failure" in out


def test_the_mended_example_passes(tmp_path) -> None:
    """The way out that the page gives is one; the other blocks of the page run too."""
    code, out = session(tmp_path, f"{MENDED}\n{MACHINE}\n{BY_HAND}", PROFILE)

    assert code == 0, out
    assert "3 passed" in out
