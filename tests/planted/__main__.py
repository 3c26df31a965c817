"""The long look: every planted bug, ten seeds each, shrunk; about half an hour.

python -m tests.planted [NAME ...] [--seeds 10] [--shrink 10] [--quick] [--keep FILE] [--write]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.planted.bugs import BUGS, planted
from tests.planted.hunt import hunt
from tests.planted.hunters import hunter
from tests.planted.results import Result, load, missed, table, write_into

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "testing.md"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*BUGS, []], default=[])
    parser.add_argument("--seeds", type=int, default=10, help="how many hunts a bug")
    parser.add_argument("--shrink", type=int, default=10, help="how many of them shrink their find")
    parser.add_argument("--quick", action="store_true", help="two seeds, and nothing is shrunk")
    parser.add_argument(
        "--keep", type=Path, help="where results are kept: a look that was interrupted goes on"
    )
    parser.add_argument("--write", action="store_true", help="write the table into the docs")
    options = parser.parse_args(arguments)
    names = options.names or list(BUGS)
    there = load(options.keep) if options.keep else []
    results: list[Result] = []
    for name in names:
        for number in range(1, (2 if options.quick else options.seeds) + 1):
            known = [one for one in there if (one.bug, one.seed) == (name, number)]
            shrink = number <= options.shrink and not options.quick
            one = known[0] if known else look(name, number, shrink=shrink)
            if options.keep and not known:
                one.keep(options.keep)
            results.append(one)
            print(
                f"{name:30} seed {number:2}: example {one.example}, steps {one.steps}", flush=True
            )
    print(f"\n{table(results)}")
    if options.write:
        write_into(PAGE, results)
    return len(missed(results))


def look(name: str, number: int, *, shrink: bool) -> Result:
    """One hunt."""
    machine = hunter(name)
    with planted(name):
        found = hunt(machine, number, shrink=shrink)
    if found is None:
        return Result(name, machine.__name__, number, None)
    if not isinstance(found.error, AssertionError):
        raise found.error
    return Result(name, machine.__name__, number, found.example, found.steps if shrink else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
