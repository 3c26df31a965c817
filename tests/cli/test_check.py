"""`check` with findings: what it prints, and when it fails."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_usage import said

RISKY = """
from actors import MailboxSpec
from actors.jobs import JobWorker
from actors.resilience import Dependency
from supervision import RestartPolicy, Supervisor, Worker
from supervision.checklist import accept

bank = Dependency("bank")

async def pay(ctx):
    await bank.call(print)

async def wait(ctx):
    pass

@accept("TW402", why="it passes everything on")
async def handler(job, ctx):
    pass

tree = Supervisor("shop", [
    Worker("pay", pay),
    Worker("wait", wait, ready="signal"),
    Worker("jobs", JobWorker("charge", handler)),
    Supervisor("guests"),
])
noted = Supervisor("shop", [Supervisor("guests")])
"""


@pytest.fixture
def risky(app):
    """An application with findings."""
    (app / "other.py").write_text(RISKY)
    return app


def test_findings_are_printed_with_place_and_way_out(risky, capfd) -> None:
    """The worst first: code, severity and place; what is wrong; what to do. Exit code 1."""
    code, out, err = said(capfd, "check", "other:tree")

    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "TW301 error  shop/pay, dependency 'bank'",
        "    its calls have no timeout",
        "    -> set timeout, the seconds of one attempt",
        "TW107 warning  shop/wait",
        "    it is ready when it calls ctx.started(), and nothing ends a run that never does",
        "    -> set start_timeout, such as 30",
        "TW106 note  shop/guests",
        "    any number of children may be started in it",
        "    -> set max_children to what the process can carry",
        "1 error, 1 warning, 1 note, 1 accepted: shop: 2 supervisors, 3 workers with 3 replicas",
    ]


def test_it_says_what_it_looked_at(risky, capfd) -> None:
    """With -v: what was accepted and why, and which dependencies were seen."""
    _, out, _ = said(capfd, "check", "other:tree", "-v")

    assert "accepted: TW402 shop/jobs, jobs of 'charge': it passes everything on" in out
    assert "looked at: dependency bank, used by shop/pay" in out


def test_findings_as_json(risky, capfd) -> None:
    """One object with stable keys."""
    code, out, _ = said(capfd, "check", "other:tree", "--json")
    told = json.loads(out)

    assert code == 1
    assert [finding["code"] for finding in told["findings"]] == ["TW301", "TW107", "TW106"]
    assert told["findings"][0] == {
        "code": "TW301",
        "severity": "error",
        "paths": ["shop/pay"],
        "about": "dependency 'bank'",
        "text": "its calls have no timeout",
        "way_out": "set timeout, the seconds of one attempt",
        "source": "",
    }
    assert told["accepted"][0]["why"] == "it passes everything on"
    assert told["looked_at"]["dependencies"] == {"bank": ["shop/pay"]}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["other:noted"], 0),
        (["other:noted", "--fail-on", "note"], 1),
        (["other:tree", "--fail-on", "never"], 0),
        (["other:tree", "--ignore", "TW301", "--ignore", "TW107"], 0),
        (["other:tree", "--ignore", "TW301,TW107:shop/*"], 0),
        (["other:tree", "--ignore", "TW107"], 1),
    ],
)
def test_what_makes_it_fail(risky, capfd, args: list[str], code: int) -> None:
    """Warnings and errors do, unless they are ignored; --fail-on moves the line."""
    assert said(capfd, "check", *args)[0] == code


def test_the_environment_may_ignore(risky, capfd, monkeypatch) -> None:
    """TREEWARDEN_IGNORE holds several, with spaces or commas between."""
    monkeypatch.setenv("TREEWARDEN_IGNORE", "TW301 TW107,TW106")

    assert said(capfd, "check", "other:tree", "--fail-on", "note")[0] == 0


def test_the_stop_timeout_is_looked_at(app, capfd) -> None:
    """With the timeout that serve will have, deadlines are compared."""
    (app / "app.toml").write_text("worker.workers.outbox.shutdown = 30\n")

    assert said(capfd, "check", "app:tree", "--config", "app.toml")[0] == 1
    good = said(capfd, "check", "app:tree", "--config", "app.toml", "--stop-timeout", "40")
    assert good[0] == 0


def test_colour_only_on_a_terminal(risky, capfd, monkeypatch) -> None:
    """What goes to a file or a pipe has no escape sequence in it."""
    assert "\x1b" not in said(capfd, "check", "other:tree")[1]
