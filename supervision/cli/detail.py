"""Detail: what the wire says of one child, as lines for a terminal.

Floor: above tables. Pure. The rule: what is not known here is shown all the same, after what is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

from supervision.cli.tables import age

__all__ = ["shown_detail"]

FIRST: Final = (
    "state",
    "phase",
    "run",
    "restarts",
    "failures",
    "since",
    "next_restart",
    "queued",
    "handled",
    "busy",
)
HIDDEN: Final = ("path", "kind", "error", "actions", "capacity", "limit")
WIDE: Final = 78


def shown_detail(detail: Mapping[str, Any]) -> list[str]:
    """The name, how it is, its errors with tracebacks, where it waits, and then all the rest."""
    out = [str(detail.get("path", "")), *_pairs({key: detail.get(key) for key in FIRST}, "")]
    for error in sorted(_list(detail.get("errors")), key=lambda e: -e.get("when", 0)):
        when = time.strftime("%H:%M:%S", time.localtime(error.get("when", 0)))
        out += ["", f"run {error.get('run', '?')} failed at {when}: {error.get('error', '')}"]
        out += [f"  {line}" for line in str(error.get("traceback", "")).splitlines()]
    if detail.get("stack"):
        out += ["", "waits at", *(f"  {line}" for line in detail["stack"])]
    for key, value in detail.items():
        if key not in (*FIRST, *HIDDEN, "errors", "stack"):
            out += _rest(key, value)
    return out


def _list(value: Any) -> list[dict[str, Any]]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _rest(key: str, value: Any) -> Sequence[str]:
    if value in (None, "", [], {}):
        return ()
    if isinstance(value, dict):
        return ["", key, *_pairs(value, "  ")]  # pyright: ignore[reportUnknownArgumentType]
    return ["", f"{key}  {value if isinstance(value, (str, int, float)) else json.dumps(value)}"]


def _pairs(values: Mapping[str, Any], indent: str) -> list[str]:
    """Names and values, as many on a line as fit."""
    return wrap("  ".join(_words(values)), WIDE, initial_indent=indent, subsequent_indent=indent)


def _words(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if value is None or value == "":
            continue
        if key in ("since", "next_restart", "busy") and isinstance(value, (int, float)):
            yield f"{key}={age(value)}"
        else:
            yield f"{key}={json.dumps(value) if isinstance(value, (dict, list)) else value}"
