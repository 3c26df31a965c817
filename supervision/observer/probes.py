"""Probes: health as a status and a text, for machines and for people.

Floor: above messages. The rules: `/livez` never depends on a dependency, since a restart of this process would not mend one; `/readyz`
may; `/startupz` stays green once it was. A machine reads the status, a person asks `?verbose` and gets a line for each check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from actors.records import Record
from supervision.health import Health
from supervision.observer.messages import Response, as_bytes

__all__ = ["Check", "answer", "livez", "readyz", "startupz"]

MOST: Final = 50
"""Lines of a failing probe's text, unless all are asked for."""


@attrs.frozen
class Check(Record):
    """One thing that was looked at: its name, and why it is not well, or nothing."""

    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"[-]{self.name} {self.why}" if self.why else f"[+]{self.name} ok"


def livez(health: Health, stuck: str = "") -> list[Check]:
    """Should this process be restarted? `stuck` says that the event loop stands still, and where."""
    tree = Check("tree", "" if health.live else "failed for good, see below")
    problems = [Check(*_named(problem)) for problem in health.problems]
    return [Check("event-loop", stuck), tree, *problems]


def readyz(
    health: Health,
    members: Iterable[tuple[str, bool, str]],
    *,
    stopping: bool,
    breakers: Sequence[tuple[str, str]] = (),
) -> list[Check]:
    """Can it take work? `members` are path, whether it is well, and how it is; `breakers` are names and states of those required."""
    checks = [Check("tree", _tree(health, stopping=stopping))]
    checks += [
        Check(f"breaker/{name}", f"is {state}" if state == "open" else "")
        for name, state in breakers
    ]
    checks += [Check(path, "" if well else how) for path, well, how in members]
    return checks


def startupz(health: Health) -> list[Check]:
    """Has the first start been completed?"""
    return [Check("start", "" if health.started else "the first start is not complete")]


def answer(checks: Sequence[Check], *, verbose: bool) -> Response:
    """200 if all is well, else 503, with names."""
    bad = [check for check in checks if check.why]
    status = 503 if bad else 200
    if verbose:
        shown = "\n".join(map(str, checks))
    elif bad:
        shown = "\n".join(f"{check.name} {check.why}" for check in bad[:MOST])
        if len(bad) > MOST:
            shown += f"\nand {len(bad) - MOST} more"
    else:
        shown = "ok"
    return Response(status=status, body=as_bytes(f"{shown}\n"))


def _tree(health: Health, *, stopping: bool) -> str:
    if stopping:
        return "is stopping"
    if not health.live:
        return "has failed"
    return "" if health.ready else "is not ready"


def _named(problem: str) -> tuple[str, str]:
    """`worker NAME (replica N) failed: REASON` in two."""
    name, found, reason = problem.partition(" failed: ")
    return (name, f"failed: {reason}") if found else ("tree", problem)
