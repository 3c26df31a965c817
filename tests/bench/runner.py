"""Runs measurements: each in a fresh process, the sides in turn, the order reversed every other time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import attrs

__all__ = ["ROOT", "Failure", "Job", "Spread", "measure", "run_all", "side_command"]

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 300.0
"""Seconds after which a measurement hangs."""


class Failure(Exception):
    """A measurement did not come to its end."""


@attrs.frozen
class Job:
    """A command whose last line of output is `{"value": ...}`, and how often it is worth running."""

    name: str
    command: Sequence[str]
    most: int = 99
    env: Mapping[str, str] = {}
    """Variables that it is told of."""
    patience: float = PATIENCE


@attrs.frozen
class Spread:
    """Some values of one kind: their median, and how far they lie apart."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))


def measure(
    command: Sequence[str], patience: float = PATIENCE, told: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Run one process and return the JSON of its last line.

    Raises:
        Failure: it ended with an error, said nothing, or took too long.
    """
    # With bytecode, whatever the machine's habit is: we do not measure the compiler.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(told or {})}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=patience
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"it took more than {patience:g} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        errors = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise Failure(errors[-1])
    found: dict[str, object] = json.loads(lines[-1])
    return found


def run_all(
    jobs: Sequence[Job],
    repetitions: int,
    say: Callable[[str], None],
    *,
    lenient: bool = False,
) -> Mapping[str, list[float]]:
    """Every job's values, in order of repetition: values at one index were measured together.

    What a job tells beside its value is under `name:what`. A `lenient` run gives up a job that fails, with what it has of it, instead of all.
    """
    values: dict[str, list[float]] = {job.name: [] for job in jobs}
    given_up: set[str] = set()
    for repetition in range(repetitions):
        say(f"repetition {repetition + 1} of {repetitions}")
        for job in jobs if repetition % 2 == 0 else list(reversed(jobs)):
            if repetition >= job.most or job.name in given_up:
                continue
            try:
                found = measure(job.command, job.patience, job.env)
                for what, value in found.items():
                    name = job.name if what == "value" else f"{job.name}:{what}"
                    values.setdefault(name, []).append(float(str(value)))
            except Failure as error:
                say(f"{job.name}: {error}")
                if not lenient:
                    raise
                given_up.add(job.name)
    return values


def side_command(function: str, n: int) -> list[str]:
    """The command that measures one of our own sides."""
    return [sys.executable, "-m", "tests.bench.side", function, str(n)]
