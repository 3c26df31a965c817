"""Examining a tree by the checklist.

Floor: the highest of this room. The rule: nothing is started, and what was looked at is told with what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from actors.options import OptionError, nearest
from actors.records import Record, record
from actors.resilience.dependency import Dependency
from supervision.checklist.finding import Finding, Hit, Rule, Severity
from supervision.checklist.looking import Seen, look
from supervision.checklist.rules import RULES
from supervision.specs import Supervisor

__all__ = ["Examination", "examine"]


@record
class Examination(Record):
    """What the checklist says about a tree."""

    tree: str
    findings: tuple[Finding, ...]
    """The worst first."""
    accepted: tuple[tuple[Finding, str], ...]
    """Findings that the code says are meant so, with its reason; those ignored by the caller with theirs."""
    workers: tuple[str, ...]
    """Paths that were looked at."""
    dependencies: Mapping[str, tuple[str, ...]]
    """Names of the dependencies that were found, with the paths of the workers that use them."""
    unread: tuple[str, ...]
    """Paths of workers of whose code nothing could be read."""

    def worst(self) -> Severity | None:
        """The severity of the worst finding."""
        return self.findings[0].severity if self.findings else None


def examine(
    tree: Supervisor, *, stop_timeout: float = 15.0, ignore: Iterable[str] = ()
) -> Examination:
    """Look `tree` through for what is legal and usually a mistake; start nothing.

    Args:
        stop_timeout: what the tree is served with.
        ignore: codes, or `CODE:PATH` with a path that may have wildcards, such as `"TW402:shop/*"`.

    Raises:
        OptionError: there is no such code.
    """
    ignored = [_entry(text) for text in ignore]
    seen = look(tree, stop_timeout)
    found = _merged([_finding(rule, hit) for rule in RULES for hit in rule.check(seen)])
    order = list(Severity)
    found.sort(key=lambda finding: (order.index(finding.severity), finding.code, finding.path))
    findings: list[Finding] = []
    accepted: list[tuple[Finding, str]] = []
    for finding in found:
        why = _why_accepted(finding, seen, ignored)
        if why:
            accepted.append((finding, why))
        else:
            findings.append(finding)
    return Examination(
        tree=tree.name,
        findings=tuple(findings),
        accepted=tuple(accepted),
        workers=tuple(worker.path for worker in seen.workers),
        dependencies={
            guarded.guard.name: tuple(worker.path for worker in guarded.workers)
            for guarded in seen.guarded
            if isinstance(guarded.guard, Dependency)
        },
        unread=tuple(worker.path for worker in seen.workers if not worker.functions),
    )


def _finding(rule: Rule, hit: Hit) -> Finding:
    return Finding(
        code=rule.code,
        severity=rule.severity,
        paths=hit.paths,
        about=hit.about,
        text=hit.text,
        way_out=hit.way_out,
        source=hit.source,
    )


def _merged(found: Iterable[Finding]) -> list[Finding]:
    """One line of code that several workers share is one finding."""
    out: dict[object, Finding] = {}
    for finding in found:
        key = (
            (finding.code, finding.source, finding.about, finding.text)
            if finding.source
            else finding
        )
        before = out.get(key)
        paths = dict.fromkeys((*(before.paths if before else ()), *finding.paths))
        out[key] = _with_paths(finding, tuple(paths))
    return list(out.values())


def _with_paths(finding: Finding, paths: tuple[str, ...]) -> Finding:
    return Finding(
        code=finding.code,
        severity=finding.severity,
        paths=paths,
        about=finding.about,
        text=finding.text,
        way_out=finding.way_out,
        source=finding.source,
    )


def _entry(text: str) -> tuple[str, str]:
    code, _, path = text.partition(":")
    codes = [rule.code for rule in RULES]
    if code not in codes:
        raise OptionError(f"there is no finding {code!r}.{nearest(code, codes)}", option="ignore")
    return code, path or "*"


def _why_accepted(finding: Finding, seen: Seen, ignored: list[tuple[str, str]]) -> str:
    for code, pattern in ignored:
        if code == finding.code and all(fnmatchcase(path, pattern) for path in finding.paths):
            return "ignored by the caller"
    said = {worker.path: worker.accepted.get(finding.code, "") for worker in seen.workers}
    reasons = [said.get(path, "") for path in finding.paths]
    return reasons[0] if all(reasons) else ""
