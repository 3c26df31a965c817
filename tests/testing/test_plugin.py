"""The pytest plugin: fixture, options, profiles, and what it costs when it is not used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from supervision.testing import replay, simulate

ROOT = Path(__file__).parent.parent.parent

RACE = """
import trio
from supervision.testing import simulate

async def race():
    seen = []
    async def note(name):
        await trio.lowlevel.checkpoint()
        seen.append(name)
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(note, name)
    return "".join(seen)

def test_race():
    assert simulate(race) == "abc"
"""


def session(folder: Path, text: str, *options: str, path: str = "") -> tuple[int, str]:
    """Run pytest on `text` in a process of its own, with the plugin and nothing else of ours."""
    (folder / "test_it.py").write_text(text, "utf-8")
    # Under CI pytest tells each failure twice.
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [path, str(ROOT)]))
    done = subprocess.run(
        # The entry point may be installed, too: one module is not registered under two names.
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "no:supervision", "-p", "supervision.pytest_plugin", *options, "test_it.py"),
        ],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("-p", "no:trio")])
def test_the_fixture_works_with_and_without_another_trio_plugin(tmp_path, options) -> None:
    """`sim` needs no async test and no other plugin; a failure shows its timeline."""
    text = """
from supervision import Supervisor, Worker
from supervision.testing import idle

def test_good(sim):
    pool = sim.supervise(Supervisor("t", [Worker("w", idle)]))
    sim.advance(5)
    assert pool.health().ready

def test_bad(sim):
    sim.supervise(Supervisor("t", [Worker("w", idle)]))
    assert False
"""
    code, out = session(tmp_path, text, *options)

    assert code == 1
    assert "1 failed, 1 passed" in out
    assert "t/w/0 started (run 1)" in out
    assert "again: pytest 'test_it.py::test_bad' --supervision-schedule='fifo" in out


def test_what_is_seen_wrong_after_a_simulation_has_its_timeline(tmp_path) -> None:
    """A test that looks only when its scenario is over fails with the timeline too; one that ran nothing has none."""
    text = """
import trio
from supervision import Supervisor, Worker, supervisor
from supervision.testing import idle, simulate

async def scenario():
    async with supervisor.running(Supervisor("t", [Worker("w", idle)]), log=False):
        await trio.sleep(5)

def test_after():
    simulate(scenario)
    assert False

def test_other():
    assert False
"""
    code, out = session(tmp_path, text)

    assert code == 1
    assert out.count("t/w/0 started (run 1)") == 1
    again = "again: pytest 'test_it.py::test_after' --supervision-schedule='fifo'"
    assert out.count(f"{again}\n") == 1
    assert (
        f"{again} --hypothesis-profile=supervision\n"
        in session(tmp_path, text, "--hypothesis-profile=supervision")[1]
    )


def test_a_schedule_can_be_given_on_the_command_line(tmp_path) -> None:
    """The line that a failure prints runs that very order."""
    names: dict = {}
    exec(RACE, names)
    texts = [f"fifo except {n}:1" for n in range(10)]
    wrong = next(t for t in texts if simulate(names["race"], schedule=replay(t)) != "abc")

    assert session(tmp_path, RACE)[0] == 0
    code, out = session(tmp_path, RACE, f"--supervision-schedule={wrong}")
    assert code == 1
    assert "== 'abc'" in out


def test_a_wrong_schedule_is_a_usage_error(tmp_path) -> None:
    """A typing mistake in the option ends the session at once."""
    code, out = session(tmp_path, RACE, "--supervision-schedule=lifo")

    assert code == 4
    assert "a schedule reads 'fifo'" in out


def test_determinism_can_be_checked_for_a_whole_session(tmp_path) -> None:
    """Every simulate() runs twice and is compared."""
    text = """
import random
import trio
from supervision import RestartPolicy, Supervisor, Worker, supervisor
from supervision.testing import simulate

async def body(ctx):
    await trio.sleep(1)
    raise OSError

async def program():
    tree = Supervisor("t", [Worker("w", body, restart=RestartPolicy(jitter=0.5))])
    with trio.move_on_after(10):
        await supervisor.serve(tree, log=False, random=random.SystemRandom())

def test_it():
    simulate(program)
"""
    assert session(tmp_path, text)[0] == 0
    code, out = session(tmp_path, text, "--supervision-check-determinism")

    assert code == 1
    assert "the same schedule gave different traces" in out


def test_determinism_can_be_checked_of_machines(tmp_path) -> None:
    """Every example of a state machine runs twice too, and the first difference is the failure that is shown."""
    text = """
import random
from supervision import RestartPolicy, Supervisor, Worker
from supervision.testing import TrioStateMachine, faulty, idle, rule

class Shop(TrioStateMachine):
    def setup(self):
        policy = RestartPolicy(jitter=0.5)
        tree = Supervisor("t", [Worker("w", idle, restart=policy)])
        self.pool = self.sim.supervise(faulty(tree), random=random.SystemRandom())

    @rule()
    def crash(self):
        for grip in list(self.sim.grips.values()):
            grip.crash()

TestShop = Shop.TestCase

def test_another():
    pass
"""
    assert session(tmp_path, text)[0] == 0
    code, out = session(tmp_path, text, "--supervision-check-determinism")

    assert code == 1
    assert "the same schedule gave different traces" in out
    assert "1 failed, 1 passed" in out


def test_the_profiles_are_known_to_hypothesis(tmp_path) -> None:
    """`--hypothesis-profile=supervision` works without any configuration."""
    text = """
from hypothesis import Phase, settings

def test_it():
    assert settings.default.deadline is None
    assert Phase.explain not in settings.default.phases
"""
    assert session(tmp_path, text, "--hypothesis-profile=supervision")[0] == 0
    assert session(tmp_path, text, "--hypothesis-profile=supervision-nightly")[0] == 0


def test_what_never_held_fails_the_session(tmp_path) -> None:
    """A suite in which the interesting thing never happened is not green."""
    text = """
from supervision.testing import sometimes

def test_it():
    sometimes("a giveup", False)
"""
    code, out = session(tmp_path, text)

    assert code == 1
    assert "sometimes() that never held" in out
    assert re.search(r"a giveup \(.*test_it\.py:5, asked 1 times\)", out)


def test_without_hypothesis_the_import_names_the_extra(tmp_path) -> None:
    """Who has not installed the extra is told which one; the plugin and the library do not mind."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['hypothesis'] = None\n", "utf-8"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    run = [sys.executable, "-c"]
    wrong = subprocess.run(
        [*run, "import supervision.testing"],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    right = subprocess.run(
        [*run, "import supervision, supervision.pytest_plugin"],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert "ImportError: supervision.testing needs Hypothesis" in wrong.stderr
    assert "treewarden[testing]" in wrong.stderr
    assert right.returncode == 0, right.stderr


def test_the_library_and_the_plugin_import_neither_hypothesis_nor_the_kit() -> None:
    """A session that does not use the kit pays nothing for it."""
    code = (
        "import sys, supervision, supervision.pytest_plugin\n"
        "sys.exit(any(name in sys.modules for name in ('hypothesis', 'supervision.testing')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False)

    assert done.returncode == 0
