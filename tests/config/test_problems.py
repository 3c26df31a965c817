"""What is wrong with a configuration: all of it at once, each with its place and a way out."""

from __future__ import annotations

from math import inf

import pytest

from supervision import ConfigError, RestartPolicy, SpecError, Supervisor, Worker
from supervision.config import configure, load


async def idle(ctx):
    """Do nothing until asked to stop."""
    await ctx.sleep(inf)


TREE = Supervisor(
    "shop",
    [
        Worker("outbox", idle),
        Supervisor("billing", [Worker("mail", idle), Worker("invoices", idle)]),
        Supervisor("eu", [Worker("mail", idle)]),
    ],
)


def problems(text: str, tree: Supervisor = TREE, **more: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        configure(tree, text=text, **{"environ": {}, **more})
    return caught.value.problems


def test_all_problems_come_at_once(tmp_path) -> None:
    """One error names every problem of file and environment, with file, line, key and expectation."""
    path = tmp_path / "app.toml"
    path.write_text(
        """
[worker.workers.outbox]
replicas = "3"

[worker.workers.outbox.restart]
max_restart = 3

[worker.workers.outbx]
replicas = 2
""",
        "utf-8",
    )

    with pytest.raises(ConfigError) as caught:
        configure(TREE, file=path, environ={"TREEWARDEN_WORKER_WORKERS__OUTBOX__SHUTDOWN": "soon"})

    assert caught.value.problems == (
        f"{path}:3: worker.workers.outbox.replicas must be a whole number, 0 or more, not '3'",
        f"{path}:6: worker.workers.outbox.restart.max_restart is not an option. Did you mean 'max_restarts'?",
        f"{path}:9: worker.workers.outbx: the tree has no worker 'outbx'. Did you mean 'outbox'?",
        "variable TREEWARDEN_WORKER_WORKERS__OUTBOX__SHUTDOWN: worker.workers.OUTBOX.shutdown must be a number, not 'soon'",
    )
    assert all(problem in str(caught.value) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('replicas = "3"', "must be a whole number, 0 or more, not '3'"),
        ("replicas = 3.0", "must be a whole number, 0 or more, not 3.0"),
        ("replicas = true", "must be a whole number, not True"),
        ("replicas = -1", "must be a whole number, 0 or more, not -1"),
        ("replicas = [1]", "must be a whole number, 0 or more, not [1]"),
        ("replicas = { min = 1 }", "must be a whole number, 0 or more, not {'min': 1}"),
        ("shutdown = nan", "must be a number of seconds, 0 or more"),
        ("shutdown = true", "must be a number, not True"),
        ('shutdown = "2"', "must be a number of seconds, 0 or more"),
        ("watchdog = 0", "must be a finite number of seconds above 0, or None, not 0"),
        ("watchdog = inf", "must be a finite number of seconds above 0, or None, not inf"),
        ('enabled = "yes"', "must be True or False, not 'yes'"),
        ("enabled = 1", "must be True or False, not 1"),
        ('ready = "sigal"', "Did you mean 'signal'?"),
        ("ready = 3", "must be one of 'run', 'signal', not 3"),
        ('restart = "permanent"', "must be a table with any of type, max_restarts"),
        ("restart.jitter = 1", "must be a share, from 0 up to but not 1, not 1"),
        ("restart.factor = 0.5", "must be a finite number, 1 or more, not 0.5"),
        ("restart.type.x = 1", "must be one of 'permanent'"),
        ("mailbox.capacity = -1", "0 or more, or math.inf, not -1"),
        ("mailbox.capacity = 1.5", "0 or more, or math.inf, not 1.5"),
        ('mailbox.overflow = "block"', "must be one of 'wait', 'reject'"),
    ],
)
def test_a_wrong_value_says_what_is_expected(line: str, says: str) -> None:
    """A wrong type or a value out of range is named with the key and with what would do."""
    (problem,) = problems(f"[worker.workers.outbox]\n{line}\n")

    assert problem.startswith("<text>:2: worker.workers.outbox.")
    assert says in problem


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("replics = 3", "Did you mean 'replicas'?"),
        ("xyz = 3", "Options are: replicas, restart, mailbox,"),
        ("max_restarts = 3", "it is 'restart.max_restarts'"),
        ("mailbox.max_restarts = 3", "it is 'restart.max_restarts'"),
        ("intensity = 3", "it belongs to supervisors"),
        ("run = 'x'", "is not an option."),
        ("name = 'x'", "is not an option."),
        ("restart.on = ['OSError']", "is not an option."),
        ("mailbox.capcity = 3", "Did you mean 'capacity'?"),
    ],
)
def test_an_unknown_key_names_the_nearest(line: str, says: str) -> None:
    """A key that is none says which one may have been meant, or where it belongs."""
    (problem,) = problems(f"[worker.workers.outbox]\n{line}\n")

    assert problem.startswith("<text>:2: worker.workers.outbox.")
    assert says in problem


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("worker.workers.outbx", "the tree has no worker 'outbx'. Did you mean 'outbox'?"),
        ("worker.workers.xyz", "There are: outbox, mail, invoices, mail."),
        ('worker.workers."shop/billing/mial"', "Did you mean 'shop/billing/mail'?"),
        ("worker.workers.billing", "'billing' is not a worker"),
        ("worker.supervisors.outbox", "'outbox' is not a supervisor"),
        ("worker.workers.mail", "ambiguous; write the path: shop/billing/mail, shop/eu/mail"),
        ("worker.superviors.billing", "Did you mean 'supervisors'?"),
        ("worker.xyz", "What may be here: workers, supervisors."),
        ("workers.outbox", "Did you mean 'worker.workers'?"),
        ("wroker.workers.outbox", "Did you mean 'worker'?"),
    ],
)
@pytest.mark.parametrize("body", ["", "enabled = true\n"], ids=["empty", "used"])
def test_a_table_for_nobody_is_a_problem(table: str, says: str, body: str) -> None:
    """A table must be for somebody in the tree, even an empty one."""
    (problem,) = problems(f"# first\n[{table}]\n{body}")

    assert problem.startswith("<text>:")
    assert says in problem


def test_a_name_that_is_wrong_is_reported_once() -> None:
    """Ten options under one wrong name are one problem, not ten."""
    assert len(problems("[worker.workers.outbx]\nreplicas = 1\nshutdown = 2\nwatchdog = 3\n")) == 1


@pytest.mark.parametrize(
    "text", ["worker = 3\n", "worker.workers = 3\n", "worker.workers.outbox = 3\n"]
)
def test_a_value_where_a_table_belongs_is_a_problem(text: str) -> None:
    """A number in place of a table is named."""
    (problem,) = problems(text)

    assert "must be a table, not 3" in problem


def test_saying_it_twice_is_a_problem() -> None:
    """The same option under the bare name and under the path names both lines."""
    text = '[worker.workers.outbox]\nreplicas = 2\n[worker.workers."shop/outbox"]\nreplicas = 3\n'
    (problem,) = problems(text)

    assert problem.startswith("<text>:4: ")
    assert "<text>:2" in problem


def test_options_that_exclude_each_other_point_at_the_line() -> None:
    """What passes alone but not together is refused by the check that code has, at the line that did it."""
    tree = Supervisor(
        "shop",
        [Worker("a", idle, significant=True, restart=RestartPolicy(type="temporary"))],
        auto_shutdown="any_significant",
    )
    text = '[worker.workers.a]\nreplicas = 2\n[worker.workers.a.restart]\ntype = "permanent"\n'
    (problem,) = problems(text, tree)

    assert problem.startswith("<text>:")
    assert "cannot be significant" in problem


def test_a_child_that_no_longer_fits_its_supervisor_points_at_the_line() -> None:
    """A check of the parent that fails because of a child is reported where the child was configured."""
    (problem,) = problems("[worker.workers.outbox]\nreplicas = 2\nsignificant = true\n")

    assert problem.startswith("<text>:3: worker.workers.outbox.significant: ")
    assert "auto_shutdown" in problem


def test_too_many_children_point_at_the_limit() -> None:
    """A limit below the children that there are is refused at its line."""
    (problem,) = problems("[worker.supervisors.billing]\nperiod = 3\nmax_children = 1\n")

    assert problem.startswith("<text>:3: worker.supervisors.billing.max_children: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\n[worker\n", 2), ("a = 1\na = 2\n", 2), ("a = [1,\n\n\n", 1), ("a = tru\n", 1)],
)
def test_a_syntax_error_has_its_line(text: str, line: int) -> None:
    """What is not TOML at all is a ConfigError with the line."""
    (problem,) = problems(text)

    assert problem.startswith(f"<text>:{line}: this is not TOML: ")


def test_variables_are_judged_even_if_the_file_is_broken() -> None:
    """A syntax error does not hide what is wrong in the environment."""
    found = problems("[", environ={"TREEWARDEN_WORKER_WORKERS__OUTBX__REPLICAS": "1"})

    assert len(found) == 2


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path) -> None:
    """A missing file, a folder and a text in another encoding are named."""
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe4'\n")

    for name in ("missing.toml", ".", "latin.toml"):
        with pytest.raises(ConfigError, match="cannot be read"):
            load(tmp_path / name)


def test_a_mapping_has_no_lines() -> None:
    """Problems of a mapping name the key without a line."""
    with pytest.raises(ConfigError) as caught:
        configure(TREE, mapping={"worker": {"workers": {"outbox": {"replicas": -1}}}}, environ={})

    assert caught.value.problems[0].startswith("<mapping>: worker.workers.outbox.replicas must")


def test_a_config_error_is_a_value_error_and_no_spec_error() -> None:
    """Callers can tell a wrong configuration from a wrong declaration."""
    assert issubclass(ConfigError, ValueError)
    assert not issubclass(ConfigError, SpecError)


@pytest.mark.parametrize(
    "much",
    ["replicas = " + "9" * 5000, "list = " + "[" * 3000 + "]" * 3000],
    ids=["digits", "deep"],
)
def test_too_much_is_a_problem_of_the_configuration(much: str) -> None:
    """What the parser itself gives up on is a ConfigError like any other."""
    (said,) = problems(f"[worker.workers.outbox]\n{much}\n")

    assert "too much for a configuration" in said


def test_a_file_may_say_that_it_is_utf_8(tmp_path) -> None:
    """The mark that some editors put before the first line is no part of it."""
    file = tmp_path / "app.toml"
    file.write_bytes(b"\xef\xbb\xbf[worker.workers.outbox]\nreplicas = 3\n")
    tree = configure(TREE, file=file, environ={})

    assert tree.children[0].replicas == 3
