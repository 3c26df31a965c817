"""The environment over TOML: how variables are written, read and refused."""

from __future__ import annotations

from math import inf

import pytest

from supervision import ConfigError, Supervisor, Worker
from supervision.config import configure

WORKERS = "TREEWARDEN_WORKER_WORKERS__"
SUPERVISORS = "TREEWARDEN_WORKER_SUPERVISORS__"


async def idle(ctx):
    """Do nothing until asked to stop."""
    await ctx.sleep(inf)


def shop(*more: Worker) -> Supervisor:
    return Supervisor(
        "shop",
        [
            Worker("outbox", idle),
            Worker("mail-out.eu", idle),
            Supervisor("billing", [Worker("mail", idle)]),
            Supervisor("eu", [Worker("mail", idle)]),
            *more,
        ],
    )


def worker(tree: Supervisor, path: str) -> Worker:
    found = dict(tree.walk())[path]
    assert isinstance(found, Worker)
    return found


def problems(environ: dict[str, str], tree: Supervisor | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        configure(tree or shop(), environ=environ)
    return caught.value.problems


def test_a_variable_wins_over_the_file() -> None:
    """What the environment says holds against TOML; the rest of TOML stays."""
    text = "[worker.workers.outbox]\nreplicas = 2\nshutdown = 5\n"
    outbox = worker(
        configure(shop(), text=text, environ={f"{WORKERS}OUTBOX__REPLICAS": "7"}), "shop/outbox"
    )

    assert (outbox.replicas, outbox.shutdown) == (7, 5)


def test_a_variable_wins_under_another_form_of_the_name_too() -> None:
    """A path in the file and a bare name in the environment mean the same worker."""
    text = '[worker.workers."shop/outbox"]\nreplicas = 2\n'
    tree = configure(shop(), text=text, environ={f"{WORKERS}OUTBOX__REPLICAS": "7"})

    assert worker(tree, "shop/outbox").replicas == 7


@pytest.mark.parametrize(
    ("suffix", "text", "path", "value"),
    [
        ("RESTART__MAX_RESTARTS", "3", "restart.max_restarts", 3),
        ("RESTART__TYPE", "Permanent", "restart.type", "permanent"),
        ("SHUTDOWN", "2.5", "shutdown", 2.5),
        ("SHUTDOWN", " 4 ", "shutdown", 4),
        ("SHUTDOWN", "inf", "shutdown", inf),
        ("MAILBOX__CAPACITY", "inf", "mailbox.capacity", inf),
        ("MAILBOX__CAPACITY", "64", "mailbox.capacity", 64),
        ("MAILBOX__DRAIN", "true", "mailbox.drain", True),
        ("WATCHDOG", "none", "watchdog", None),
        ("ENABLED", "false", "enabled", False),
        ("ENABLED", "0", "enabled", False),
        ("ENABLED", "YES", "enabled", True),
    ],
)
def test_values_are_read_by_the_type_of_the_option(suffix, text, path, value) -> None:
    """Numbers, switches, words, none and inf are read as the option needs them."""
    tree = configure(shop(), environ={f"{WORKERS}OUTBOX__{suffix}": text})
    found: object = worker(tree, "shop/outbox")
    for part in path.split("."):
        found = getattr(found, part)

    assert found == value
    assert isinstance(found, bool) is isinstance(value, bool)


def test_signs_in_names_become_underscores() -> None:
    """A name with dashes and dots is written with underscores."""
    tree = configure(shop(), environ={f"{WORKERS}MAIL_OUT_EU__REPLICAS": "2"})

    assert worker(tree, "shop/mail-out.eu").replicas == 2


def test_a_path_is_written_with_double_underscores() -> None:
    """Workers that share a name are told apart by their path."""
    environ = {
        f"{WORKERS}SHOP__EU__MAIL__REPLICAS": "3",
        f"{SUPERVISORS}SHOP__BILLING__STRATEGY": "one_for_all",
    }
    tree = configure(shop(), environ=environ)

    assert worker(tree, "shop/eu/mail").replicas == 3
    assert worker(tree, "shop/billing/mail").replicas == 1
    assert dict(tree.walk())["shop/billing"].strategy == "one_for_all"  # type: ignore[union-attr]


def test_a_bare_name_that_two_share_lists_the_paths() -> None:
    """An ambiguous name is refused with the paths it could be."""
    (problem,) = problems({f"{WORKERS}MAIL__REPLICAS": "2"})

    assert "shop/billing/mail, shop/eu/mail" in problem


def test_two_names_that_look_alike_in_capitals_are_ambiguous() -> None:
    """Where capitals make two names one, the variable is refused and TOML proposed."""
    tree = shop(Worker("mail_out-eu", idle))
    (problem,) = problems({f"{WORKERS}MAIL_OUT_EU__REPLICAS": "2"}, tree)

    assert "shop/mail-out.eu, shop/mail_out-eu" in problem
    assert "use TOML" in problem


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (f"{WORKERS}OUTBOX__REPLICS", "2", "Did you mean 'REPLICAS'?"),
        (f"{WORKERS}OUTBX__REPLICAS", "2", "Did you mean 'OUTBOX'?"),
        (f"{WORKERS}BILLING__ENABLED", "no", "belongs below worker.supervisors"),
        (f"{WORKERS}OUTBOX", "2", "is not an option"),
        ("TREEWARDEN_WORKER_WORKER__OUTBOX__REPLICAS", "2", "it is not known"),
        ("TREEWARDEN_WORKER_WORKERS_OUTBOX_REPLICAS", "2", "it is not known"),
        (
            "TREEWARDEN_WORKERS__OUTBOX__REPLICAS",
            "2",
            "TREEWARDEN_WORKER_WORKERS__OUTBOX__REPLICAS",
        ),
        (f"{WORKERS}OUTBOX__REPLICAS", "two", "must be a whole number, not 'two'"),
        (f"{WORKERS}OUTBOX__REPLICAS", "2.5", "must be a whole number, 0 or more, not 2.5"),
        (f"{WORKERS}OUTBOX__REPLICAS", "", "must be a whole number, not ''"),
        (f"{WORKERS}OUTBOX__SHUTDOWN", "nan", "not nan"),
        (f"{WORKERS}OUTBOX__ENABLED", "maybe", "must be true or false, not 'maybe'"),
        (f"{WORKERS}OUTBOX__ON_FAILED", "holt", "Did you mean 'hold'?"),
        (f"{SUPERVISORS}SHOP__INTENSITY", "-1", "0 or more, or None, not -1"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(variable: str, value: str, says: str) -> None:
    """Each mistake in a variable names it and says what would do."""
    (problem,) = problems({variable: value})

    assert problem.startswith(f"variable {variable}: ")
    assert says in problem


def test_variables_that_platforms_make_are_left_alone() -> None:
    """Service variables of a container platform and those of others mean nothing here."""
    tree = shop()
    environ = {
        "TREEWARDEN_WORKER_PORT_80_TCP": "tcp://10.0.0.1:80",
        "TREEWARDEN_WORKER_SERVICE_HOST": "10.0.0.1",
        "TREEWARDEN_WORKERS_SERVICE_HOST": "10.0.0.1",
        "TREEWARDEN_CONFIG": "app.toml",
        "PATH": "/bin",
    }

    assert configure(tree, environ=environ) is tree


def test_the_environment_of_the_process_counts_by_default(monkeypatch) -> None:
    """Without `environ` the variables of the process are read."""
    monkeypatch.setenv(f"{WORKERS}OUTBOX__REPLICAS", "3")

    assert worker(configure(shop()), "shop/outbox").replicas == 3
    assert worker(configure(shop(), environ={}), "shop/outbox").replicas == 1
