"""What is written to a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from supervision.cli.words import put


@pytest.mark.parametrize(
    ("encoding", "seen"), [("utf-8", "größe caf\\udce9"), ("ascii", "gr\\xf6\\xdfe caf\\udce9")]
)
def test_what_cannot_be_shown_is_shown_escaped(encoding: str, seen: str, monkeypatch) -> None:
    """A name that the terminal has no letters for, and half a character in an error, are no reason to end with a traceback."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding))
    put("größe caf\udce9")
    sys.stdout.flush()

    assert raw.getvalue().decode(encoding) == f"{seen}\n"
