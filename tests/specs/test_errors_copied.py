"""Errors of trees that cross a border: copied, and sent to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from supervision import errors

FAILED = ValueError("x")
ERRORS = [
    errors.AlreadyPresent("t/a", "running"),
    errors.ConfigError(["a: is wrong", "b: is wrong"]),
    errors.IllegalTransition("t/a", "running", "removed", "Stop it first."),
    errors.MissingExtra("the page", "observer", "h11"),
    errors.NotRunning("t", "stop"),
    errors.ObserverUnavailable(":80", "permission denied"),
    errors.ServiceMissing("Orders", "db", int, "nobody registered it"),
    errors.SpecError("is wrong", where="worker 'a'", option="run"),
    errors.StartFailed("t/a", FAILED),
    errors.StartTimeout("t/a", 3.0),
    errors.SupervisorFailed("t", "it ended twice", [FAILED]),
    errors.TooManyChildren("t", 3),
    errors.TreeFailed("t", "it ended twice", [FAILED]),
    errors.WatchdogExpired("t/a", 3.0, ["run (a.py:1)"]),
]


def test_all_are_here() -> None:
    """The list above has each error that there is."""
    every = {name for name in errors.__all__ if name != "SupervisionError"}

    assert {type(error).__name__ for error in ERRORS} == every


@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_an_error_can_be_copied_and_sent(error: Exception, again) -> None:
    """A copy has the class, the text, the fields and the notes of the original, as when a tree fails in a process pool."""
    error.add_note("a note")
    copied = again(error)

    assert type(copied) is type(error)
    assert (str(copied), copied.args) == (str(error), error.args)
    assert list(map(repr, vars(copied).items())) == list(map(repr, vars(error).items()))
