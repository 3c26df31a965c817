"""What one measurement reads: the CPU time of a block, the memory of this process, work that a server has a part in.

It runs inside the processes of other libraries, too, so it imports nothing but the standard library.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Self

__all__ = ["SERVER", "CpuTime", "Memory", "Work", "resident"]

SERVER = "TREEWARDEN_BENCH_SERVER"
"""The environment variable with the process whose CPU time, with that of its children, belongs to the work."""


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


class Work:
    """`with Work(n) as work:` and then `work.found`: CPU of one of `n`, here and in the server, and how many came a second."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.found: dict[str, float] = {}
        self._server = int(os.environ.get(SERVER, "0"))
        self._began = self._cpu = 0.0

    def __enter__(self) -> Self:
        gc.collect()
        self._cpu = self._spent()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        took = time.perf_counter() - self._began
        cpu = self._spent() - self._cpu
        self.found = {"value": cpu / self.n * 1e6, "rate": self.n / took}

    def _spent(self) -> float:
        return time.process_time() + (cpu_of_family(self._server) if self._server else 0.0)


def cpu_of_family(pid: int) -> float:
    """Seconds of CPU that a process and its children have used, those that are gone included; in hundredths."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # After the name, which may hold anything: state, parent; then times, its own and those of buried children.
            fields = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended, and its parent has its times
        if int(folder.name) == pid:
            ticks += sum(int(field) for field in fields[11:15])
        elif int(fields[1]) == pid:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


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
