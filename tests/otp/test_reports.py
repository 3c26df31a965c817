"""Reports: cases 93 and 94."""

from __future__ import annotations

import json
import logging

import pytest

from supervision import Supervisor, TreeFailed, supervisor
from tests.otp.kit import CRASH, Crashed, Stage, group, running, settle


async def test_format_log_1(autojump_clock, caplog):
    """A report in the log carries the supervisor, what it decided, the reason, and who made it."""
    caplog.set_level(logging.DEBUG, logger="supervision")
    stage = Stage()
    stage.refusing["a"] = Crashed("no")
    with pytest.raises(TreeFailed):
        await supervisor.serve(group(stage.worker("a"), intensity=1), signals=False)

    (report,) = [record for record in caplog.records if record.event == "GaveUp"]
    assert (report.actor_path, report.levelname) == ("top", "ERROR")
    text = report.getMessage()
    assert "top gives up because of top/a/0" in text
    assert "more than 1 restarts in 5 s" in text
    assert "Crashed('no')" in text
    assert report.exc_info[1] is stage.refusing["a"]


async def test_format_log_2(autojump_clock):
    """A report is one line of text, and plain values for JSON, whatever the error says."""
    stage, events = Stage(), []
    stage.refusing["a"] = Crashed("two\nlines " + "x" * 10)
    with pytest.raises(TreeFailed):
        await supervisor.serve(
            group(stage.worker("a"), intensity=1),
            log=False,
            signals=False,
            listeners=[events.append],
        )

    assert {"Started", "Failed", "RestartScheduled", "GaveUp", "TreeStopped"} <= {
        event.kind for event in events
    }
    for event in events:
        assert "\n" not in event.sentence()
        record = json.loads(json.dumps(event.to_dict()))
        assert {"kind", "time", "path", "run", "seq"} <= set(record)
    assert [event.seq for event in events] == sorted({event.seq for event in events})


async def test_format_log_progress(autojump_clock, caplog):
    """Starts are reported below the level that a service logs at, failures and restarts above it."""
    caplog.set_level(logging.DEBUG, logger="supervision")
    stage = Stage()
    async with running(group(stage.worker("a")), log=True):
        await stage.tell("top/a", CRASH)

    levels = {record.event: record.levelname for record in caplog.records}
    assert levels["Started"] == levels["Ready"] == "DEBUG"
    assert levels["Failed"] == levels["RestartScheduled"] == "WARNING"


async def test_format_log_children(autojump_clock):
    """The report of a stop names every dynamic child that ended, in two lists."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        for n in range(20):
            await pool.start_child("top", stage.worker(f"c{n}"))
        await settle()
        report = await pool.shutdown()

    assert (len(report.orderly), len(report.forced)) == (20, 0)
    assert pool.stop_report is report
