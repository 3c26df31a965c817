"""`check`, `tree` and bad usage, without a process of their own: nothing is started."""

from __future__ import annotations

import json

import pytest

from supervision.__main__ import main
from supervision.cli.parser import commands
from supervision.cli.words import EXIT_CODES, variable


def said(capfd, *args: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    try:
        code = main(args)
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capfd.readouterr()
    return code, out, err


def test_check_says_ok(app, capfd) -> None:
    """A sound tree is summed up in one line."""
    code, out, err = said(capfd, "check", "app:tree")

    assert (code, err) == (0, "")
    assert out == "ok: shop: 2 supervisors, 2 workers with 5 replicas\n"


def test_check_starts_nothing(app, capfd) -> None:
    """A tree whose worker would end the program is only looked at."""
    code, out, _ = said(capfd, "check", "app:leaving")

    assert (code, out) == (0, "ok: shop: 1 supervisor, 1 worker with 1 replica\n")


def test_a_function_may_make_the_tree(app, capfd) -> None:
    """A function without parameters is called, once the module is imported from the current folder."""
    assert said(capfd, "check", "app:make")[0] == 0


def test_check_applies_the_configuration(app, capfd) -> None:
    """File and variables count for check, and every problem is a line of its own."""
    (app / "good.toml").write_text("[worker.workers.outbox]\nreplicas = 1\nenabled = false\n")
    (app / "bad.toml").write_text(
        "[worker.workers.outbx]\n[worker.workers.orders]\nreplicas = '1'\n"
    )

    good = said(capfd, "check", "app:tree", "--config", "good.toml")
    bad = said(capfd, "check", "app:tree", "--config", "bad.toml")

    assert good[:2] == (0, "ok: shop: 2 supervisors, 2 workers with 2 replicas, 1 disabled\n")
    assert bad[:2] == (2, "")
    first, second = bad[2].splitlines()
    assert first.startswith("treewarden: bad.toml:1: worker.workers.outbx: ")
    assert second.startswith("treewarden: bad.toml:3: worker.workers.orders.replicas ")


def test_check_refuses_what_serve_would_refuse(app, capfd) -> None:
    """A constructor that needs services is a finding, unless they are given."""
    code, _, err = said(capfd, "check", "app:needy")

    assert code == 2
    assert "needs settings: dict" in err
    assert said(capfd, "check", "app:needy", "--services", "app:registry")[0] == 0


def test_tree_shows_what_differs(app, capfd) -> None:
    """Each child is a line with the options that are not the default, configuration included."""
    (app / "app.toml").write_text("worker.workers.orders.mailbox.capacity = inf\n")
    code, out, err = said(capfd, "tree", "app:tree", "--config", "app.toml")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "shop  supervisor",
        "  outbox  idle  replicas=4",
        "  billing  supervisor  strategy=one_for_all",
        "    orders  Orders  mailbox.capacity=inf watchdog=9",
    ]


def test_tree_speaks_json(app, capfd) -> None:
    """The same as data for programs, infinity as text."""
    (app / "app.toml").write_text("worker.workers.orders.shutdown = inf\n")
    code, out, _ = said(capfd, "tree", "app:tree", "--json", "--config", "app.toml")
    shown = json.loads(out)

    assert code == 0
    assert (shown["name"], shown["kind"], shown["options"]) == ("shop", "supervisor", {})
    outbox, billing = shown["children"]
    assert outbox == {
        "name": "outbox",
        "path": "shop/outbox",
        "kind": "worker",
        "run": "idle",
        "options": {"replicas": 4},
    }
    assert billing["options"] == {"strategy": "one_for_all"}
    assert billing["children"][0]["options"] == {"shutdown": "inf", "watchdog": 9}


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("app", "'app' is not of the form MODULE:NAME"),
        ("app:", "not of the form MODULE:NAME"),
        (":tree", "not of the form MODULE:NAME"),
        ("app.py:tree", "write the name of the module: app:tree"),
        ("sub/app.py:tree", "write the name of the module: sub.app:tree"),
        ("nowhere:tree", "there is no module 'nowhere'"),
        ("nowhere.app:tree", "there is no module 'nowhere'"),
        ("app.sub:tree", "there is no module 'app.sub'"),
        ("app:tre", "app has no 'tre'. Did you mean 'tree'?"),
        ("app:xyzzy", "app has no 'xyzzy'. It has: "),
        ("app:number", "app:number is 3; what is needed is a Supervisor"),
        ("app:explode", "calling app:explode raised RuntimeError: no database"),
        (
            "app:wants",
            "cannot be called without arguments: missing a required argument: 'something'",
        ),
        ("app:later", "is an async function"),
        ("app:wrong", "the name 'a b' would be ambiguous in a path"),
    ],
)
def test_a_tree_that_cannot_be_had_is_one_sentence(app, capfd, target: str, says: str) -> None:
    """Bad usage gives exit code 2 and one line on stderr that says what to do, no traceback."""
    code, out, err = said(capfd, "check", target)

    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("treewarden: ")
    assert len(err.splitlines()) == 1


def test_a_broken_module_is_one_sentence(app, capfd) -> None:
    """An error while importing is told as such; its traceback comes with -v."""
    (app / "other.py").write_text("import nowhere\n")

    code, _, err = said(capfd, "check", "other:tree")
    long = said(capfd, "check", "other:tree", "-v")[2]

    assert code == 2
    assert (
        err == "treewarden: importing other raised ModuleNotFoundError: No module named 'nowhere'\n"
    )
    assert "Traceback" in long
    assert 'other.py", line 1' in long


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["serve", "app:tree", "--stop-timeout", "soon"], "'soon' is not a number of seconds"),
        (["serve", "app:tree", "--stop-timeout", "-1"], "not a number of seconds, 0 or more"),
        (["serve", "app:tree", "--stop-timeout", "nan"], "not a number of seconds, 0 or more"),
        (["serve", "app:tree", "--kill-after", "inf"], "leave it out"),
        (["serve", "app:tree", "--start", "strickt"], "Did you mean 'strict'?"),
        (["serve", "app:tree", "--log-level", "loud"], "none of debug, info, warning, error"),
        (["serve", "app:tree", "--wat"], "unrecognized arguments: --wat"),
        (["serve", "app:tree", "--stop-timout", "3"], "Did you mean '--stop-timeout'?"),
        (["serve", "app:tree", "--stop", "3"], "unrecognized arguments: --stop 3"),
        (["status", "--jsn"], "Did you mean '--json'?"),
        (["xyzzy", "app:tree"], "invalid choice: 'xyzzy'. One of: serve, check"),
        (["restrat", "work"], "Did you mean 'restart'?"),
        (["events", "--most", "0"], "'0' is not a whole number, 1 or more"),
        (["jobs", "puase", "charge"], "Did you mean 'pause'?"),
        (["health", "life"], "Did you mean 'live'?"),
        (["scale", "work", "many"], "'many' is no number of replicas"),
        (["check", "app:tree", "--fail-on", "eror"], "Did you mean 'error'?"),
        (["check", "app:tree", "--ignore", "TW999"], "there is no finding 'TW999'"),
        (["check"], "say which tree: MODULE:TREE"),
        ([], "usage: treewarden"),
    ],
)
def test_a_wrong_flag_is_refused(app, capfd, args: list[str], says: str) -> None:
    """Flags are checked before anything is imported or started."""
    code, out, err = said(capfd, *args)

    assert (code, out) == (2, "")
    assert says in err


def test_flags_may_come_from_the_environment(app, capfd, monkeypatch) -> None:
    """Each flag has a variable; a wrong one there is refused like a wrong flag."""
    (app / "app.toml").write_text("[worker.workers.outbox]\nreplicas = 2\n")
    monkeypatch.setenv("TREEWARDEN_TREE", "app:tree")
    monkeypatch.setenv("TREEWARDEN_CONFIG", "app.toml")
    assert "with 3 replicas" in said(capfd, "check")[1]

    monkeypatch.setenv("TREEWARDEN_START", "strickt")
    assert said(capfd, "serve")[0] == 2


def test_help_names_every_variable(app, capfd) -> None:
    """The help of serve shows each flag with its variable."""
    code, out, _ = said(capfd, "serve", "--help")

    assert code == 0
    for name in ("TREE", "CONFIG", "SERVICES", "STOP_TIMEOUT", "START", "KILL_AFTER", "LOG_LEVEL"):
        assert f"[TREEWARDEN_{name}]" in out


@pytest.mark.parametrize("name", commands())
def test_every_flag_has_a_variable(name: str) -> None:
    """Each flag of each command names its variable, but for help, and -v, which is for the moment."""
    for action in commands()[name]._actions:
        if action.option_strings and action.dest not in ("help", "verbose"):
            assert f"[{variable(action.option_strings[-1])}]" in action.help


@pytest.mark.parametrize("name", commands())
def test_every_command_says_what_it_does(name: str) -> None:
    """Each command has a description of its own, and ends well when asked for help."""
    assert commands()[name].description.endswith(".")


def test_the_exit_codes_are_in_the_help(capfd) -> None:
    """`--help` lists them all."""
    code, out, _ = said(capfd, "--help")

    assert code == 0
    assert [text for text in EXIT_CODES.values() if text not in out] == []
