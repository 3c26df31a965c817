"""What the file of a peer needs: `python -m tests.bench.peers.NAME WORKLOAD N` measures one workload.

A peer's file defines those of `tell ask life restart memory` that its library offers, each a function
of `n` that returns microseconds of CPU or bytes for one, and ends with `main(globals())`. Those that work on jobs define
`work`, `one` and `many`, which return what `meter.Work` has found.
It is run by the peer's own interpreter, where only the standard library and the peer are installed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping

from tests.bench.meter import CpuTime, Memory

__all__ = ["CpuTime", "Memory", "main"]


def main(offered: Mapping[str, object]) -> None:
    """Measure what the command line asks for and print it as the last line."""
    workload, n = sys.argv[1], int(sys.argv[2])
    logging.disable(logging.CRITICAL)  # nobody's log is measured, ours neither
    function = offered[workload]
    assert callable(function)
    found = function(n)
    print(json.dumps(found if isinstance(found, dict) else {"value": found}), flush=True)
    os._exit(0)  # some peers leave threads or tasks that would never end
