"""One measurement in a process of its own: `python -m tests.bench.side WORKLOAD.FUNCTION N`.

It prints one line of JSON: `value`, in microseconds of CPU or bytes for one message, actor, restart, and what else it has measured.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module


def main() -> None:
    name, n = sys.argv[1], int(sys.argv[2])
    module, _, function = name.partition(".")
    found: float | dict[str, float] = getattr(import_module(f"tests.bench.{module}"), function)(n)
    print(json.dumps(found if isinstance(found, dict) else {"value": found}))


if __name__ == "__main__":
    main()
