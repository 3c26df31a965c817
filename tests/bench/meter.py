"""What one measurement reads: the CPU time of a block, the memory of this process.

It runs inside the processes of other libraries, too, so it imports nothing but the standard library.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Self

__all__ = ["CpuTime", "Memory"]


class CpuTime:
    """`with CpuTime(n) as spent:` and then `spent.each`, the microseconds of CPU for one of `n`.

    CPU time of all threads of this process: what other programs do on the machine counts little.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.each = 0.0
        self._began = 0.0

    def __enter__(self) -> Self:
        gc.collect()
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.each = (time.process_time() - self._began) / self.n * 1e6


class Memory:
    """Growth of the resident set: make it, create `n` things, call `each()`, which is in bytes."""

    def __init__(self, n: int) -> None:
        self.n = n
        gc.collect()
        self._before = resident()

    def each(self) -> float:
        gc.collect()
        return (resident() - self._before) / self.n


def resident() -> int:
    """Bytes of this process in memory now, from Linux's own account."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
