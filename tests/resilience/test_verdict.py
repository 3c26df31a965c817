"""`judge`, the decision about one failed attempt, as a table."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import given, strategies as st

from actors.errors import BreakerOpen, BulkheadFull, PoisonMessage
from actors.resilience import Degrade, Fail, HandBack, Poison, RetryHere, judge, retry_after
from tests.resilience.kit import Down, policy

OPEN = BreakerOpen("x", retry_after=7, trying=False, why="it failed")
FULL = BulkheadFull("x", limit=1, waiting=0, waited=None, retry_after=3)


class Worse(Down):
    """A `Down` that no attempt cures."""


class Unreadable(Exception):
    """An error that fights back."""

    @property
    def retry_after(self) -> float:
        raise RuntimeError("not now")

    @property
    def response(self) -> object:
        raise RuntimeError("nor this")


def group(*errors: Exception) -> ExceptionGroup:
    return ExceptionGroup("several", list(errors))


# what it is, the error, facts that differ from those of a first attempt with time enough, the verdict
TABLE = [
    ("an error that is named", Down(), {}, RetryHere(1)),
    ("its second failure", Down(), {"attempt": 2}, RetryHere(2)),
    ("the last attempt", Down(), {"attempt": 3}, Fail),
    ("without a limit", Down(), {"attempt": 99, "rules": {"attempts": None}}, RetryHere),
    ("an error that is not named", ValueError(), {}, Fail),
    ("an error that is excepted", Worse(), {"rules": {"never": Worse}}, Fail),
    ("a rule says yes", KeyError(), {"rules": {"on": lambda e: True}}, RetryHere(1)),
    ("a rule says no", Down(), {"rules": {"on": lambda e: False}}, Fail),
    ("an exception by rule", Down(), {"rules": {"never": lambda e: "down" in str(e)}}, Fail),
    ("a group of named errors", group(Down(), Down()), {}, RetryHere(1)),
    ("a nested group", group(Down(), group(Down())), {}, RetryHere(1)),
    ("a group with another error", group(Down(), TypeError()), {}, Fail),
    ("no time for the wait", Down(), {"left": 0.5}, Fail),
    ("time for the wait and nothing else", Down(), {"left": 1.0}, Fail),
    ("time for a bit more", Down(), {"left": 1.01}, RetryHere(1)),
    ("the deadline has passed", Down(), {"left": -inf}, Fail),
    ("no time by its own limit", Down(), {"elapsed": 4.5, "rules": {"total": 5}}, Fail),
    ("just time by its own limit", Down(), {"elapsed": 4, "rules": {"total": 5}}, RetryHere(1)),
    ("a hint", Down(), {"hint": 3.0}, RetryHere(3)),
    ("a hint below the wait", Down(), {"hint": 0.5}, RetryHere(1)),
    ("a hint that does not fit", Down(), {"hint": 3.0, "left": 3.0}, HandBack(3.0, "")),
    ("a short hint, a long wait", Down(), {"hint": 0.1, "left": 0.5}, HandBack(1.0, "")),
    ("a hint of an hour", Down(), {"hint": 3600.0}, HandBack(3600.0, "")),
    ("an hour may be allowed", Down(), {"hint": 3600.0, "rules": {"hint_max": 1e4}}, RetryHere),
    ("a hint on the last attempt", Down(), {"hint": 3.0, "attempt": 3}, Fail),
    ("the breaker refused", OPEN, {}, HandBack(7, "")),
    ("the bulkhead refused", FULL, {}, HandBack(3, "")),
    ("both refused", group(FULL, OPEN), {}, HandBack(7, "")),
    ("a refusal is never retried", OPEN, {"rules": {"on": Exception}}, HandBack(7, "")),
    ("a refusal and an error", group(OPEN, Down()), {}, Fail),
    ("poison", PoisonMessage("bad"), {}, Poison("bad")),
    ("poison in a group", group(Down(), PoisonMessage("bad")), {}, Poison("bad")),
    ("poison is never retried", PoisonMessage("bad"), {"rules": {"on": Exception}}, Poison("bad")),
    ("no budget", Down(), {"may_retry": lambda _: False}, Fail),
    ("budget", Down(), {"may_retry": lambda _: True}, RetryHere(1)),
    ("optional, and curable", Down(), {"optional": True}, RetryHere(1)),
    ("optional, and not", ValueError(), {"optional": True}, Degrade),
    ("optional, the last attempt", Down(), {"optional": True, "attempt": 3}, Degrade),
    ("optional, no time", Down(), {"optional": True, "left": 0.1, "hint": 9.0}, Degrade),
    ("optional, a hint of an hour", Down(), {"optional": True, "hint": 3600.0}, Degrade),
    ("optional, and refused", OPEN, {"optional": True}, Degrade),
    ("optional, and poison", PoisonMessage("bad"), {"optional": True}, Poison("bad")),
]


@pytest.mark.parametrize(
    ("error", "facts", "expected"),
    [row[1:] for row in TABLE],
    ids=[row[0].replace(" ", "-") for row in TABLE],
)
def test_the_table(error, facts, expected):
    """Each line of the table holds: error and facts in, verdict out."""
    rules = policy(**facts.get("rules", {}))
    facts = {"attempt": 1, "elapsed": 0.0, "left": inf, "random": Random(), **facts, "rules": rules}
    verdict = judge(error, **facts)

    if isinstance(expected, type):
        assert isinstance(verdict, expected)
    elif isinstance(expected, HandBack):
        assert isinstance(verdict, HandBack)
        assert verdict.retry_in == expected.retry_in
    else:
        assert verdict == expected
    assert isinstance(verdict, RetryHere) or verdict.why


def test_the_budget_is_asked_last():
    """A retry that would not be made takes nothing from the budget."""
    asked = []

    def may_retry(_):
        asked.append(1)
        return True

    for error, left in [(ValueError(), inf), (Down(), 0.5), (OPEN, inf), (PoisonMessage(), inf)]:
        judge(
            error,
            rules=policy(),
            attempt=1,
            elapsed=0,
            left=left,
            random=Random(),
            may_retry=may_retry,
        )
    assert asked == []


def answered(**headers: object) -> Exception:
    """An error with a response, as HTTP clients raise them."""
    error = Exception("503")
    error.response = type("Response", (), {"headers": headers})()  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (Down(), None),
        (Down(retry_after=3), 3),
        (Down(retry_after="2.5"), 2.5),
        (Down(retry_after=b"2"), 2),
        (Down(retry_after=0), 0),
        (Down(retry_after=-1), None),
        (Down(retry_after=inf), None),
        (Down(retry_after="nan"), None),
        (Down(retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (Down(retry_after=lambda: 3), None),
        (answered(**{"retry-after": "4"}), 4),
        (answered(**{"Retry-After": "9999999999"}), 9_999_999_999),
        (answered(), None),
        (group(Down(retry_after=2), answered(**{"Retry-After": "5"}), Down()), 5),
        (OPEN, 7),
        (Unreadable(), None),
    ],
    ids=str,
)
def test_hints_are_read_where_they_are(error, hint):
    """A wish to be left alone is read from `retry_after` or the response's header; what cannot be read is none."""
    assert retry_after(error) == hint


def test_headers_may_be_of_any_kind():
    """Headers that are no mapping say nothing, and hide no error."""
    error = Exception()
    error.response = type("Response", (), {"headers": [(b"retry-after", b"4")]})()  # type: ignore[attr-defined]

    assert retry_after(error) is None


@pytest.mark.parametrize("attribute", ["soon", -5, float("nan"), lambda: 3])
def test_an_attribute_that_says_nothing_hides_no_header(attribute):
    """If the error's own `retry_after` cannot be read, the header of its response still can."""
    error = Down(retry_after=attribute)
    error.response = type("Response", (), {"headers": {"Retry-After": "7"}})()  # type: ignore[attr-defined]

    assert retry_after(error) == 7


@given(
    attempt=st.integers(1, 100),
    elapsed=st.floats(0, 100),
    left=st.floats(-10, 100),
    hint=st.none() | st.floats(0, 100),
    total=st.none() | st.floats(0.1, 100),
    seed=st.integers(),
)
def test_no_wait_reaches_past_a_limit(attempt, elapsed, left, hint, total, seed):
    """R8, R10: whatever the numbers, a wait ends before the deadline and within the total, and is never below the hint."""
    rules = policy(attempts=None, total=total)
    facts = {"attempt": attempt, "elapsed": elapsed, "left": left, "hint": hint}
    verdict = judge(Down(), rules=rules, random=Random(seed), **facts)

    if isinstance(verdict, RetryHere):
        assert 0 < verdict.delay < left
        assert total is None or elapsed + verdict.delay <= total
        assert hint is None or hint <= verdict.delay
    else:
        assert isinstance(verdict, Fail if hint is None else HandBack)
