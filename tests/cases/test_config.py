"""CONFIG: an option without effect is an error, in code and in files, and a counter says what it counts."""

from __future__ import annotations

from math import inf

import attrs
import pytest
import trio

from supervision import ConfigError, MailboxSpec, RestartPolicy, SpecError, Supervisor, Worker
from supervision.config import configure
from tests.cases.kit import fails_after, forever, policy, under_test

MISPLACED = {
    "a supervisor's in a worker": (Worker, {"intensity": 3}, "Supervisor"),
    "another supervisor's in a worker": (Worker, {"max_children": 3}, "Supervisor"),
    "a policy's in a worker": (Worker, {"max_restarts": 3}, "RestartPolicy"),
    "a mailbox's in a worker": (Worker, {"capacity": 3}, "MailboxSpec"),
    "a policy's in a supervisor": (Supervisor, {"max_backoff": 3}, "RestartPolicy"),
    "a worker's in a supervisor": (Supervisor, {"replicas": 3}, "Worker"),
    "a worker's watchdog in a supervisor": (Supervisor, {"watchdog": 3}, "Worker"),
}


@pytest.mark.parametrize(("spec", "options", "home"), MISPLACED.values(), ids=MISPLACED)
def test_b146_right_option_in_the_wrong_place(spec, options, home):
    """B146, elixir-lang/elixir#13675: an option that has no effect is an error, which says where it belongs."""
    args = ("sessions", forever) if spec is Worker else ("sessions",)
    with pytest.raises(SpecError) as wrong:
        spec(*args, **options)

    (option,) = options
    assert repr(option) in str(wrong.value)
    assert "sessions" in str(wrong.value)
    assert home in str(wrong.value)
    assert wrong.value.option == option


@pytest.mark.parametrize(
    ("table", "home"),
    [
        ("worker.workers.w]\nintensity = 3", "supervisor"),
        ("worker.workers.w]\nmax_restarts = 3", "restart"),
    ],
)
def test_b146_right_option_in_the_wrong_table(table, home):
    """B146, elixir-lang/elixir#13675: the same holds for a file: the place it was found and the one it belongs to."""
    tree = Supervisor("app", [Worker("w", forever)])
    with pytest.raises(ConfigError) as wrong:
        configure(tree, text=f"[{table}", environ={})

    (problem,) = wrong.value.problems
    assert f"worker.workers.w.{table.split(chr(10))[1].split()[0]}" in problem
    assert home in problem.lower()


NO_EFFECT = {
    "significance that nobody looks at": lambda: Supervisor(
        "s", [Worker("w", forever, significant=True)]
    ),
    "significance of what never ends": lambda: Worker(
        "w", forever, significant=True, restart=RestartPolicy(type="permanent")
    ),
    "a limit on the start of what is ready at once": lambda: Worker("w", forever, start_timeout=3),
}


@pytest.mark.parametrize("build", NO_EFFECT.values(), ids=NO_EFFECT)
def test_b146_options_without_effect_together(build):
    """B146, elixir-lang/elixir#13675: an option that another one makes useless is refused too."""
    with pytest.raises(SpecError):
        build()


def test_b147_every_misspelt_key_is_told():
    """B147, mozilla-services/heka#124 and hassio-addons/app-wireguard#275: unknown keys and wrong types are never skipped."""
    tree = Supervisor("app", [Worker("export", forever), Worker("other", forever)])
    text = """
        [worker.workers.export]
        replicsa = 4
        shutdown = "3"
        [worker.workers.export.restart]
        max_restart = 3
        """
    with pytest.raises(ConfigError) as wrong:
        configure(tree, text=text, environ={})

    told = "\n".join(wrong.value.problems)
    assert len(wrong.value.problems) == 3
    assert "worker.workers.export.replicsa" in told
    assert "'replicas'" in told
    assert "worker.workers.export.restart.max_restart " in told
    assert "'max_restarts'" in told
    assert "worker.workers.export.shutdown" in told
    assert "'3'" in told
    assert all(problem in str(wrong.value) for problem in wrong.value.problems)


@pytest.mark.parametrize(
    ("build", "option", "near"),
    [
        (lambda: Worker("w", forever, replicsa=3), "replicsa", "replicas"),
        (lambda: Supervisor("s", intensty=3), "intensty", "intensity"),
    ],
)
def test_b147_misspelt_options_in_code(build, option, near):
    """B147, mozilla-services/heka#124: a misspelt option in code is an error with a suggestion."""
    with pytest.raises(SpecError, match=near) as wrong:
        build()

    assert wrong.value.option == option


@pytest.mark.parametrize(
    ("home", "option", "near"),
    [(RestartPolicy, "max_restart", "max_restarts"), (MailboxSpec, "capasity", "capacity")],
)
def test_b147_misspelt_options_of_policies(home, option, near):
    """B147, mozilla-services/heka#124: a misspelt option of a policy is never taken for its default."""
    with pytest.raises(ValueError, match=f"'{option}'.*'{near}'"):
        home(**{option: 3})


@pytest.mark.parametrize("value", ["3", 3.5, True, None, -1, inf])
def test_b147_wrong_types_in_code(value):
    """B147, hassio-addons/app-wireguard#275: a text or a fraction is no number of restarts, of replicas or of messages."""
    with pytest.raises(ValueError, match="max_restarts"):
        RestartPolicy(max_restarts=value)
    with pytest.raises(ValueError, match="replicas"):
        Worker("w", forever, replicas=value)
    with pytest.raises(ValueError, match="redeliver"):
        MailboxSpec(redeliver=value)


@pytest.mark.parametrize("restarts", [1, 2, 5])
async def test_b150_restarts_are_counted_not_runs(autojump_clock, restarts):
    """B150, camunda/camunda#11372: a counter says what it counts: max_restarts=n is n restarts after the first run."""
    worker = Worker("w", fails_after(0), restart=policy(max_restarts=restarts))
    async with under_test(Supervisor("app", [worker])) as trial:
        await trial.pool.wait_stopped()

    assert len(trial.starts("app/w/0")) == 1 + restarts
    assert trial.pool.info("w").restarts == restarts
    assert f"max_restarts={restarts}" in str(trial.error)


async def test_b150_zero_restarts_is_said_to_be_unlimited(autojump_clock):
    """B150, camunda/camunda#11372: 0 is not 1: it is unlimited, and the help text says so."""
    worker = Worker("w", fails_after(1), restart=policy(max_restarts=0))
    async with under_test(Supervisor("app", [worker])) as trial:
        with trio.move_on_after(100.5):
            await trial.pool.wait_stopped()
        assert trial.pool.info("w").restarts == 100

    text = attrs.fields(RestartPolicy).max_restarts.metadata["doc"]
    assert "consecutive restarts" in text
    assert "0 is unlimited" in text


@pytest.mark.parametrize("intensity", [0, 1, 2])
async def test_b150_intensity_counts_restarts(autojump_clock, intensity):
    """B150, camunda/camunda#11372: intensity=n allows n restarts in the window; 0 allows none, and none given is no limit."""
    worker = Worker("w", fails_after(0), restart=policy())
    async with under_test(Supervisor("app", [worker], intensity=intensity)) as trial:
        await trial.pool.wait_stopped()

    assert len(trial.starts("app/w/0")) == 1 + intensity
