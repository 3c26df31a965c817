"""Keys: which jobs a command is about: named on the command line, or by what a list has printed.

Floor: above words. Pure, but for reading what is piped in. The rule: the JSON of a list may be passed on as it is, and a job goes by the
engine that it was listed with; plain words are keys, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from supervision.cli.words import Ended

__all__ = ["Named", "few", "listed", "named"]

STDIN: Final = "-"
_SHOWN: Final = 5


class Named(NamedTuple):
    """One job."""

    key: str
    engine: str | None


def named(words: Sequence[str], engine: str | None) -> list[Named]:
    """The jobs of these words, each once; `-` stands for what comes on stdin."""
    found: list[Named] = []
    for word in words:
        if word != STDIN:
            found.append(Named(word, engine))
        else:
            found += [Named(one.key, one.engine or engine) for one in listed(sys.stdin.read())]
    return list(dict.fromkeys(found))


def listed(text: str) -> list[Named]:
    """The jobs in what a list printed: its JSON, single lines of it, or keys with spaces between.

    Raises:
        Ended: it is something else.
    """
    return list(_of(_values(text)))


def _values(text: str) -> list[Any]:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return text.split()
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise Ended(f"what came on stdin is neither keys nor JSON: {error}") from None


def _of(value: object) -> Iterator[Named]:
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _of(one)
    elif isinstance(value, str) and value:
        yield Named(value, None)
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        inside = [fields[name] for name in ("jobs", "poison") if name in fields]
        key, engine = fields.get("key"), fields.get("engine")
        if isinstance(key, str) and key:
            yield Named(key, engine if isinstance(engine, str) and engine else None)
        elif inside:
            yield from _of(inside)
        else:
            raise Ended("the JSON on stdin is no list of jobs, such as `jobs incidents --json` prints")  # fmt: skip
    else:
        raise Ended(f"the JSON on stdin holds {json.dumps(value)[:40]} where the key of a job should be")  # fmt: skip


def few(jobs: Sequence[Named]) -> str:
    """Their keys for a sentence: the first of them, and how many more."""
    keys = [job.key for job in jobs[:_SHOWN]]
    more = len(jobs) - len(keys)
    return f"{', '.join(keys)} and {more} more" if more else ", ".join(keys)
