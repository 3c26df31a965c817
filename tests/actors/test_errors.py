"""Errors as values: each can be copied, and sent to another process, with its text and fields."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime

import pytest

from actors import errors
from actors.errors import ActorError

ERRORS = [
    errors.MailboxFull("shop/till", "m", queued=5, capacity=5),
    errors.ActorStopped("shop/till", "m", why="interrupted"),
    errors.HandlerFailed("shop/till", "m", error=KeyError("k")),
    errors.AskTimeout("shop/till", "m", timeout=5, doing="it is working"),
    errors.AskCycle(("a", "b", "a")),
    errors.WouldWaitForItself("shop/till", "stop"),
    errors.NameTaken("till", owner="shop/till/0"),
    errors.NoSuchActor("til", candidates=("till",)),
    errors.BreakerOpen("stripe", retry_after=3.0, trying=True, why="a trial failed"),
    errors.BulkheadFull("stripe", limit=1, waiting=0, waited=2.0, retry_after=1.0, places=2),
    errors.DeadlineExceeded(5.0, what="the charge"),
    errors.NotEnoughTime("the charge", left=1.0, needed=2.0),
    errors.NoDeadline("stripe"),
    errors.MissingIdempotencyKey("a call to stripe", 3),
    errors.PoisonMessage("no such order"),
    errors.FailWithRetry("busy", retry_at=datetime(2026, 1, 1, tzinfo=UTC), retries=2),
    errors.BpmnError("DECLINED", "no money", {"amount": 5}),
    errors.IncidentError("look"),
]
ABSTRACT = {"ActorError", "Built", "SendError", "Rejected"}


class Bad(errors.PoisonMessage):
    """One of a user's own, with a constructor of its own."""

    def __init__(self, order: int, *, why: str) -> None:
        super().__init__(f"order {order} is bad: {why}")
        self.order = order


def test_all_are_here():
    """The list above has each error that there is."""
    every = {n for n in errors.__all__ if isinstance(getattr(errors, n), type)} - ABSTRACT

    assert {type(error).__name__ for error in ERRORS} == every


@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("error", [*ERRORS, Bad(7, why="no name")], ids=lambda e: type(e).__name__)
def test_an_error_can_be_copied_and_sent(error: ActorError, again):
    """A copy has the class, the text, the fields and the notes of the original."""
    error.add_note("a note")
    copied = again(error)

    assert type(copied) is type(error)
    assert (str(copied), copied.args) == (str(error), error.args)
    assert list(map(repr, vars(copied).items())) == list(map(repr, vars(error).items()))
