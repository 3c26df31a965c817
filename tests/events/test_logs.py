"""Logs: one line an event, at its level, with what a person needs to find the cause."""

from __future__ import annotations

import logging

import pytest
import trio

from actors import Event
from supervision import RestartPolicy, Supervisor, TreeFailed, Worker, supervisor
from supervision.events import Failed, FailedForGood, GaveUp, Ready, Stuck
from supervision.logs import log_event


async def forever(ctx):
    """A worker that does nothing."""
    await trio.sleep_forever()


def raised(text):
    """An error with a traceback."""
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def logged(caplog, event, level=logging.DEBUG):
    """The records that one event makes."""
    with caplog.at_level(level, logger="supervision"):
        caplog.clear()
        log_event(event)
    return caplog.records


def about(kind, **fields):
    """An event about app/a/0."""
    return kind(seq=1, time=2.0, path="app/a/0", run=3, **fields)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_an_event_is_logged_at_its_level(caplog, level):
    """Each level of an event is the level of the same name in the log."""
    kind = type("Noted", (Event,), {"level": level})
    [record] = logged(caplog, about(kind))
    assert record.levelname == level.upper()
    assert record.name == "supervision"


def test_a_record_carries_what_machines_look_for(caplog):
    """Kind, path and run are fields of the record, and the text is the event's sentence."""
    event = about(Ready, after=0.5)
    [record] = logged(caplog, event)
    assert record.getMessage() == event.sentence()
    assert (record.event, record.actor_path, record.actor_run) == ("Ready", "app/a/0", 3)


def test_below_the_level_nothing_is_logged(caplog):
    """A logger that does not want an event gets no record."""
    assert logged(caplog, about(Ready, after=0.5), logging.INFO) == []


def test_a_failure_is_logged_with_its_stack(caplog):
    """A failed run is a warning with the traceback of its error."""
    [record] = logged(caplog, about(Failed, error=raised("boom"), lasted=1.0))
    assert record.levelno == logging.WARNING
    text = caplog.text
    assert "app/a/0 failed (run 3)" in text
    assert "Traceback" in text
    assert "in raised" in text
    assert "ValueError: boom" in text


@pytest.mark.parametrize("kind", [GaveUp, FailedForGood])
def test_giving_up_is_logged_with_the_last_failures(caplog, kind):
    """The end of a limit is an error with the last failure's traceback and a line about those before."""
    fields = {"child": "app/a/0"} if kind is GaveUp else {}
    failures = (raised("first"), raised("second"), raised("third"))
    [record] = logged(caplog, about(kind, why="limit", failures=failures, **fields))
    assert record.levelno == logging.ERROR
    assert record.exc_info[1] is failures[-1]
    assert "before that: ValueError('first'); ValueError('second')" in record.getMessage()


def test_giving_up_without_failures_is_logged_too(caplog):
    """A supervisor may give up over ends that were no failures; then there is no traceback."""
    [record] = logged(caplog, about(GaveUp, child="app/a/0", why="limit"))
    assert not record.exc_info
    assert "before that" not in record.getMessage()


def test_a_stuck_run_is_logged_with_where_it_is(caplog):
    """The stack of a run that does not end is in the log, a line a frame."""
    stack = ("main (a.py:1) await work()", "work (a.py:9) await trio.sleep(99)")
    [record] = logged(caplog, about(Stuck, overrun=5.0, stack=stack, thread=False))
    assert record.levelno == logging.ERROR
    head, *rest = record.getMessage().splitlines()
    assert "still running 5 s" in head
    assert [line.strip() for line in rest] == list(stack)


def test_text_with_percent_signs_is_no_format(caplog):
    """Percent signs in a reason or a path are shown as they are."""
    [record] = logged(caplog, about(GaveUp, child="100%s", why="50% of %d"))
    assert "100%s: 50% of %d" in record.getMessage()


async def test_a_tree_logs_its_life(autojump_clock, caplog):
    """By default a tree writes its events to the `supervision` logger: the failure, the restart, giving up."""

    async def bad(ctx):
        raise LookupError("nothing there")

    policy = RestartPolicy(max_restarts=1, initial_backoff=0.5, jitter=0)
    tree = Supervisor("app", [Worker("bad", bad, restart=policy)])
    with caplog.at_level(logging.INFO), pytest.raises(TreeFailed):
        await supervisor.serve(tree, signals=False)

    records = [(r.event, r.levelname) for r in caplog.records if r.name == "supervision"]
    assert records[:5] == [
        ("Failed", "WARNING"),
        ("RestartScheduled", "WARNING"),
        ("Failed", "WARNING"),
        ("GaveUp", "ERROR"),
        ("Failed", "WARNING"),
    ]
    assert "LookupError: nothing there" in caplog.text
    assert "in bad" in caplog.text


async def test_a_quiet_life_is_no_news(autojump_clock, caplog):
    """A tree that starts and stops without trouble logs nothing above info."""
    tree = Supervisor("app", [Worker("a", forever)])
    with caplog.at_level(logging.INFO):
        async with supervisor.running(tree):
            await trio.sleep(10)

    assert {record.levelname for record in caplog.records} <= {"INFO"}
    assert "app/a/0 stopped (run 1)" in caplog.text


async def test_log_off_is_silent(autojump_clock, caplog):
    """With log=False a tree writes nothing, not even a failure."""

    async def bad(ctx):
        raise LookupError

    tree = Supervisor("app", [Worker("bad", bad, restart=RestartPolicy(type="temporary"))])
    with caplog.at_level(logging.DEBUG):
        await supervisor.serve(tree, log=False, signals=False)
    assert caplog.records == []


async def test_a_worker_s_own_logger_says_who_it_is(autojump_clock, caplog):
    """`ctx.logger` is named after the worker and carries path and run as fields."""

    async def talks(ctx):
        ctx.logger.info("hello")

    with caplog.at_level(logging.INFO, logger="supervision.worker"):
        await supervisor.serve(
            Supervisor("app", [Worker("talks", talks)]), log=False, signals=False
        )
    [record] = caplog.records
    assert record.name == "supervision.worker.talks"
    assert (record.actor_path, record.actor_run) == ("app/talks/0", 1)
