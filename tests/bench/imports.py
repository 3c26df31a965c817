"""What `import supervision` costs a fresh interpreter, beside `import trio`; compiled in both cases.

The CPU time is that of whole processes, less that of one which imports nothing.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys


def _processes(code: str, n: int) -> float:
    """Microseconds of CPU for one process that runs `code`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(n):
        subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent / n * 1e6


def _import(module: str, n: int) -> float:
    _processes(f"import {module}", 1)  # it writes the bytecode, where that is missing
    return _processes(f"import {module}", n) - _processes("", n)


def ours(n: int) -> float:
    return _import("supervision", n)


def trio_alone(n: int) -> float:
    return _import("trio", n)
