"""Local: `check` and `tree`, which look at a tree that does not run.

Floor: above target. The rule: nothing is started.
"""

from __future__ import annotations

import argparse
import json
import sys
from math import inf

from supervision.checklist import Examination, Finding, Severity, examine
from supervision.cli.target import services_of, tree_of
from supervision.cli.words import DONE, FAILED, colour, put, some, words_of
from supervision.schema import changed
from supervision.specs import Spec, Supervisor, Worker, check_makeable, check_root

__all__ = ["check", "show"]

_COLOURS = {Severity.ERROR: "31;1", Severity.WARNING: "33;1", Severity.NOTE: "36"}
NEVER = "never"
FAIL_ON = (*map(str, Severity), NEVER)


def check(args: argparse.Namespace) -> int:
    """Import a tree, apply the configuration, and say what is wrong with it; start nothing."""
    tree = tree_of(args)
    check_root(tree)
    if services_of(args) is None:
        check_makeable(tree)
    seen = examine(tree, stop_timeout=args.stop_timeout, ignore=words_of(args.ignore))
    if args.json:
        put(json.dumps(_report(seen, tree), indent=2))
    else:
        _tell(seen, tree, verbose=args.verbose)
    if args.fail_on == NEVER:
        return DONE
    least = Severity(args.fail_on)
    return FAILED if any(f.severity.at_least(least) for f in seen.findings) else DONE


def _tell(seen: Examination, tree: Supervisor, *, verbose: bool) -> None:
    bright = colour(sys.stdout)
    for finding in seen.findings:
        head = f"{finding.code} {finding.severity}"
        head = f"\x1b[{_COLOURS[finding.severity]}m{head}\x1b[0m" if bright else head
        put(f"{head}  {finding.place}")
        put(f"    {finding.text}")
        put(f"    -> {finding.way_out}")
    counts = [
        some(number, severity)
        for severity in Severity
        if (number := sum(f.severity is severity for f in seen.findings))
    ]
    if seen.accepted:
        counts.append(f"{len(seen.accepted)} accepted")
    put(f"{', '.join(counts) or 'ok'}: {_summary(tree)}")
    if verbose:
        for finding, why in seen.accepted:
            put(f"accepted: {finding.code} {finding.place}: {why}")
        for name, paths in seen.dependencies.items():
            put(f"looked at: dependency {name}, used by {', '.join(paths) or 'nobody that shows'}")
        for path in seen.unread:
            put(f"not looked at: the code of {path} is no Python source of its package")


def _summary(tree: Supervisor) -> str:
    specs = [spec for _, spec in tree.walk()]
    workers = [spec for spec in specs if isinstance(spec, Worker)]
    disabled = sum(not spec.enabled for spec in specs)
    return (
        f"{tree.name}: {some(len(specs) - len(workers), 'supervisor')},"
        f" {some(len(workers), 'worker')} with {some(sum(w.replicas for w in workers), 'replica')}"
        + (f", {disabled} disabled" if disabled else "")
    )


def _report(seen: Examination, tree: Supervisor) -> dict[str, object]:
    return {
        "tree": tree.name,
        "summary": _summary(tree),
        "findings": [_finding(finding) for finding in seen.findings],
        "accepted": [{**_finding(finding), "why": why} for finding, why in seen.accepted],
        "looked_at": {
            "workers": seen.workers,
            "dependencies": seen.dependencies,
            "unread": seen.unread,
        },
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "paths": finding.paths,
        "about": finding.about,
        "text": finding.text,
        "way_out": finding.way_out,
        "source": finding.source,
    }


def show(args: argparse.Namespace) -> int:
    """Print a tree with the options that differ from their default."""
    tree = tree_of(args)
    if args.json:
        put(json.dumps(_plain(tree, ""), indent=2))
        return DONE
    for path, spec in tree.walk():
        options = " ".join(f"{key}={_text(value)}" for key, value in changed(spec).items())
        indent = "  " * path.count("/")
        put(f"{indent}{spec.name}  {_what(spec)}{'  ' if options else ''}{options}")
    return DONE


def _what(spec: Spec) -> str:
    return "supervisor" if isinstance(spec, Supervisor) else _name(spec.run)


def _name(run: object) -> str:
    return getattr(run, "__qualname__", None) or repr(run)


def _text(value: object) -> str:
    return "none" if value is None else str(value)


def _plain(spec: Spec, parent: str) -> dict[str, object]:
    path = f"{parent}/{spec.name}" if parent else spec.name
    # JSON knows no infinity; configuration writes it as text, too.
    options = {key: "inf" if value == inf else value for key, value in changed(spec).items()}
    out: dict[str, object] = {"name": spec.name, "path": path, "options": options}
    if isinstance(spec, Worker):
        return {**out, "kind": "worker", "run": _name(spec.run)}
    children = [_plain(child, path) for child in spec.children]
    return {**out, "kind": "supervisor", "children": children}
