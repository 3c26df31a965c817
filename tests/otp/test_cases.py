"""The mapping itself: complete, true, and what the reference shows."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.otp.cases import CASES, PAGE, VERDICTS, Case, counts, render, shown_by


def defined() -> Counter[str]:
    """Every test of this folder, by name."""
    return Counter(
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def test_every_case_is_listed_once():
    """All 108 cases of the suite and the seven it lacks have one row each."""
    numbers = [case.number for case in CASES]

    extra = [f"E{n}" for n in (1, 4, 5, 7, 14, 17, 22)]
    assert sorted(numbers) == sorted([*map(str, range(1, 109)), *extra])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.number)
def test_every_row_is_true(case: Case):
    """A row names tests that exist, or says why the case has none."""
    assert case.verdict in VERDICTS
    assert case.otp
    assert case.here or case.verdict == "same"
    assert bool(shown_by(case)) is (case.verdict != "meaningless")
    assert [name for name in shown_by(case) if name not in defined()] == []


def test_no_test_hides_another():
    """No name is used twice, so that a row means one test."""
    assert [name for name, times in defined().items() if times > 1] == []


def test_most_cases_run():
    """At least 85 of the 108 cases run as tests."""
    assert sum(bool(shown_by(case)) for case in CASES if case.number.isdigit()) >= 85
    assert counts()["meaningless"] <= 108 - 85


def test_the_reference_shows_the_mapping():
    """The page of the reference is what the data says; `python -m tests.otp.cases` writes it."""
    assert PAGE.read_text("utf-8") == render()
