"""Texts of strangers in tables: shown, and never told to the terminal."""

from __future__ import annotations

import pytest

from supervision.cli.tables import columns, cut

SIGNS = ["\x1b[31m", "\x07", "\x9b2J", "\u202e", "\x7f", "\ud800"]


@pytest.mark.parametrize("sign", SIGNS, ids=ascii)
def test_what_a_terminal_would_obey(sign: str) -> None:
    """An error that holds an escape sequence or another control changes nothing but its own cell."""
    text = f"card {sign}refused 東"
    for line in (columns(["KEY", "ERROR"], [["1", text]])[-1], cut(text, 80)):
        assert line.isprintable()
        assert "card \ufffd" in line
        assert "refused 東" in line


def test_what_people_write() -> None:
    """Texts of all scripts are shown as they are."""
    text = "été 東京 ✓ …▓░ → “x”"
    assert columns(["KEY", "ERROR"], [["1", text]])[-1].endswith(text)
    assert cut(text, 80) == text
