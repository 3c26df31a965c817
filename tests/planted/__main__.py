"""The long look: `python -m tests.planted [NAME ...]`, ten seeds a bug, shrunk; a table of when each was found and how small it got."""

from __future__ import annotations

import sys
from statistics import median

from tests.planted.bugs import BUGS, planted
from tests.planted.hunt import HUNTERS, Fixed, hunt

SEEDS = range(1, 11)


def main(names: list[str]) -> int:
    missed = 0
    print(
        "| bug | found by | seeds | first example, median | longest | rules and checks after shrinking |"
    )
    print("|---|---|---|---|---|---|")
    for name in names or BUGS:
        machine = HUNTERS.get(name, Fixed)
        with planted(name):
            # The first find says how fast it is; the last example of a shrunk hunt, how plain.
            found = [hunt(machine, number) for number in SEEDS]
            small = hunt(machine, SEEDS[0], shrink=True)
        seen = [find.example for find in found if find is not None]
        missed += len(found) - len(seen)
        figures = (f"{median(seen):g}", str(max(seen))) if seen else ("never", "never")
        steps = "none" if small is None else str(small.steps)
        print(
            f"| {name} | {machine.__name__} | {len(seen)}/{len(found)} | {figures[0]} | {figures[1]} | {steps} |",
            flush=True,
        )
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
