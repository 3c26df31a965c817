"""The command: `python -m tests.bench [--quick | --peers] [--write]`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

from tests.bench.plan import SIDES
from tests.bench.report import figures, machine, misses, write
from tests.bench.runner import Job, run_all, side_command

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
    parser.add_argument("--only", help="a part of the names of the sides to run, such as `tell`")
    parser.add_argument("--repetitions", type=int, default=DEFAULT_REPETITIONS)
    parser.add_argument("--save", type=Path, help="a file for all values, as JSON")
    found = parser.parse_args(arguments)
    if found.write and (found.quick or found.only):
        parser.error("--write is for whole runs, without --quick and --only")
    if found.repetitions < 1:
        parser.error("--repetitions must be 1 or more")
    return found


def main() -> None:
    asked = parse(sys.argv[1:])
    sides = [side for side in SIDES.values() if not asked.only or asked.only in side.name]
    jobs = [
        Job(side.name, side_command(side.target, side.quick if asked.quick else side.n), side.most)
        for side in sides
    ]
    say(machine())
    values = run_all(jobs, 1 if asked.quick else asked.repetitions, say)
    if asked.only:
        for side in sides:
            print(f"{side.name}: {values[side.name]}")
        return
    print(figures(values, quick=asked.quick))
    if asked.quick:
        say("small sizes, once: these figures say nothing about speed")
    else:
        say(f"{len(misses(values))} goals missed")
    if asked.save:
        asked.save.write_text(json.dumps(values, indent=1), "utf-8")
    minor = platform.python_version().rpartition(".")[0]
    if asked.write:
        write(f"figures {minor}", f"\n{machine()}\n\n{figures(values)}\n")
    if asked.peers:
        from tests.bench.peers.together import run_peers

        text = run_peers(asked.repetitions, say)
        print(text)
        if asked.write:
            write(f"peers {minor}", f"\n{machine()}\n\n{text}\n")


if __name__ == "__main__":
    main()
