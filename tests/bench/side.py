"""One measurement in a process of its own: `python -m tests.bench.side WORKLOAD.FUNCTION N`.

It prints one line of JSON: `value`, in microseconds of CPU or bytes for one message, actor, restart.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module


def main() -> None:
    name, n = sys.argv[1], int(sys.argv[2])
    module, _, function = name.partition(".")
    value: float = getattr(import_module(f"tests.bench.{module}"), function)(n)
    print(json.dumps({"value": value}))


if __name__ == "__main__":
    main()
