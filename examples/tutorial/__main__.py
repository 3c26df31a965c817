"""All steps of the tutorial, one after the other; `--fast` runs them in virtual time."""

from __future__ import annotations

import sys

import trio
import trio.testing

from examples.tutorial import crash, first, give_up, replicas, stock, stop

for step in (first, crash, give_up, stock, replicas, stop):
    clock = trio.testing.MockClock(autojump_threshold=0) if "--fast" in sys.argv else None
    print(f"--- {step.__name__.rpartition('.')[2]}")
    trio.run(step.main, clock=clock)
