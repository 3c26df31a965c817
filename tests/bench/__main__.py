"""The command: `python -m tests.bench [--quick | --peers] [--write]`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

from tests.bench.plan import FIGURES, Block, Side
from tests.bench.plan_armour import ARMOUR
from tests.bench.plan_jobs import JOBS, MILLION
from tests.bench.plan_seen import SEEN
from tests.bench.plan_testing import TESTING
from tests.bench.report import figures, machine, misses, steps, write
from tests.bench.runner import Job, run_all, side_command
from tests.bench.servers import servers

BLOCKS = (FIGURES, ARMOUR, SEEN, TESTING, JOBS, MILLION)
DEFAULT_REPETITIONS = 7


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, once: it shows that all of it runs"
    )
    parser.add_argument(
        "--peers", action="store_true", help="other libraries as well, each in a venv of its own"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/performance.md"
    )
    parser.add_argument(
        "--only",
        help="a part of the names of the sides to run, such as `tell`, or `armour` for a table",
    )
    parser.add_argument("--repetitions", type=int, default=DEFAULT_REPETITIONS)
    parser.add_argument("--save", type=Path, help="a file for all values, as JSON")
    found = parser.parse_args(arguments)
    if found.write and found.quick:
        parser.error("--write is for whole runs, without --quick")
    if (found.write or found.peers) and not chosen(found.only, quick=False):
        parser.error(f"--write and --peers need a whole table, which --only {found.only} is not")
    if found.repetitions < 1:
        parser.error("--repetitions must be 1 or more")
    return found


def chosen(only: str | None, *, quick: bool) -> list[Block]:
    """The tables all of whose sides are to run."""
    return [
        block
        for block in BLOCKS
        if all((only or "") in name for name in block.sides)
        and (quick or not block.apart or only is not None)
    ]


def wanted(only: str | None, *, quick: bool) -> list[Side]:
    """The sides to run."""
    blocks = [block for block in BLOCKS if quick or not block.apart or only is not None]
    every = [side for block in blocks for side in block.sides.values()]
    return [side for side in every if (only or "") in side.name]


def main() -> None:
    asked = parse(sys.argv[1:])
    sides = wanted(asked.only, quick=asked.quick)
    say(machine())
    needed = {side.needs for side in sides}
    with servers(needed, say, durable=not asked.quick) as (running, missing):
        for name, why in missing.items():
            say(f"without {name}: {why}")
        sides = [side for side in sides if side.needs not in missing]
        jobs = [
            Job(
                side.name,
                side_command(side.target, side.quick if asked.quick else side.n),
                side.most,
                running.get(side.needs, {}),
                side.patience,
            )
            for side in sides
        ]
        values = run_all(jobs, 1 if asked.quick else asked.repetitions, say)
    blocks = chosen(asked.only, quick=asked.quick)
    whole = {name for block in blocks for name in block.sides}
    for side in sides:
        if side.name not in whole:
            print(f"{side.name}: {values[side.name]} {values.get(f'{side.name}:rate', '')}")
    minor = platform.python_version().rpartition(".")[0]
    for block in blocks:
        text = "\n\n".join(
            filter(None, (figures(block, values, quick=asked.quick), steps(block, values)))
        )
        print(f"{text}\n")
        if not asked.quick:
            say(f"{block.name}: {len(misses(block.rows, values))} goals missed")
        if asked.write:
            write(f"{block.name} {minor}", f"\n{machine()}\n\n{text}\n")
    if asked.quick:
        say("small sizes, once: these figures say nothing about speed")
    if asked.save:
        asked.save.write_text(json.dumps(values, indent=1), "utf-8")
    if asked.peers:
        from tests.bench.peers import together, together_armour, together_jobs

        runs = {
            "figures": ("peers", together.run_peers),
            "armour": ("armour peers", together_armour.run_peers),
            "jobs": ("jobs peers", together_jobs.run_peers),
        }
        for name, run_peers in (runs[block.name] for block in blocks if block.name in runs):
            text = run_peers(asked.repetitions, say)
            print(text)
            if asked.write:
                write(f"{name} {minor}", f"\n{machine()}\n\n{text}\n")


if __name__ == "__main__":
    main()
