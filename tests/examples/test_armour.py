"""The armour's example tells the story that its page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "dependency.md"
# How the tree ends is not on the page.
ENDING = re.compile(r"^    shop\b.* (returned|stopped|has ended)\b")


def alike(text: str) -> list[str]:
    """The lines, with times made alike."""
    return [
        re.sub(r"[\d.]+ s\b", "T s", line) for line in text.splitlines() if not ENDING.match(line)
    ]


def test_the_page_shows_what_it_prints() -> None:
    """Retries, the opening, a failed trial, the recovery: each line of the page, in its order, and no other."""
    page = PAGE.read_text("utf-8")
    (shown,) = [
        block
        for block in re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        if block.startswith("order 1")
    ]
    done = subprocess.run(
        [sys.executable, "-u", "-m", "examples.armour", "--fast"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert alike(done.stdout) == alike(shown)
    assert "went from half_open to closed" in done.stdout
