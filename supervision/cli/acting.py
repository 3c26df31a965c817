"""Acting: the verbs that change a running tree, and what their exit code is.

Floor: above client and frames. The rule: the tree decides what can be done; here it is only asked, and its answer told: what was done
on stdout, what was not on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from actors.options import nearest
from supervision.cli.client import Client, client
from supervision.cli.frames import rows
from supervision.cli.keys import Named, few, named
from supervision.cli.words import DONE, FAILED, LATE, PARTLY, UNKNOWN, Ended, confirmed, put
from supervision.signals import say

__all__ = [
    "VERBS",
    "act",
    "cancel",
    "drop",
    "pause",
    "requeue",
    "reset",
    "resume",
    "retry",
    "scale",
    "set_limit",
    "stop",
]

VERBS: Final = {
    "start": "Start what is stopped, failed or pending, and wait until it is ready.",
    "restart": "Stop it in order and start it again; one that waits for a restart starts now.",
    "drain": "Let it finish what is queued, then stop it.",
    "enable": "Undo `disable`, and start it.",
    "disable": "Stop it and keep it from being started until it is enabled.",
}
"""Verbs that take paths and nothing else, and what they do."""


def act(args: argparse.Namespace) -> int:
    """Do one of `VERBS` to each path."""
    return _each(client(args), args, args.verb)


def stop(args: argparse.Namespace) -> int:
    """Stop children in order; nothing starts them again by itself. Without a path: the whole tree, which ends its process."""
    tree = client(args)
    if args.paths:
        return _each(tree, args, "stop")
    confirmed("The whole tree will be stopped, and its process ends.", yes=args.yes)
    return _one(tree, args, "stop_tree", confirm=True)


def reset(args: argparse.Namespace) -> int:
    """Forget the failures of children, or close the breaker of a dependency."""
    tree = client(args)
    frame = tree.get("/api/snapshot")
    breakers = {breaker["name"] for breaker in frame["breakers"]}
    told = _Told()
    told.also = f" Breakers that are known now: {', '.join(sorted(breakers)) or 'none'}."
    for path in args.paths:
        known = any(path in (row.path, *row.path.split("/")) for row in rows(frame))
        verb = "breaker_close" if path in breakers and not known else "reset"
        told.ask(tree, verb, path=path)
    return told.end(args)


def scale(args: argparse.Namespace) -> int:
    """Change the number of replicas of a worker: N, or by +N or -N."""
    text = args.n
    if not text.lstrip("+-").isdecimal() or len(text.lstrip("+-")) < len(text) - 1:
        raise Ended(f"{text!r} is no number of replicas: N, +N or -N")
    return _one(
        client(args), args, "scale", path=args.path, n=text if text[0] in "+-" else int(text)
    )


def pause(args: argparse.Namespace) -> int:
    """Take no more jobs of a type, on any machine, until `resume`."""
    return _one(client(args), args, "pause", type=args.type)


def resume(args: argparse.Namespace) -> int:
    """Take jobs of a type again."""
    return _one(client(args), args, "resume", type=args.type)


def set_limit(args: argparse.Namespace) -> int:
    """Let at most N jobs of a type run at once, on all machines together; `none` for no limit."""
    if args.n != "none" and not args.n.isdecimal():
        raise Ended(f"{args.n!r} is no limit: a whole number, or none")
    return _one(client(args), args, "limit", type=args.type, n=None if args.n == "none" else int(args.n))  # fmt: skip


def cancel(args: argparse.Namespace) -> int:
    """End jobs that are not finished. The handler of one that runs is cancelled when its lease is renewed next."""
    jobs = named(args.keys, args.engine)
    if jobs:
        confirmed(f"{few(jobs)} will be cancelled, and not be run again.", yes=args.yes)
    return _jobs(args, jobs, "cancel", confirm=True)


def retry(args: argparse.Namespace) -> int:
    """Have jobs run at once: incidents, and those that wait for their time or their next try."""
    return _jobs(args, named(args.keys, args.engine), "retry", n=args.retries)


def _jobs(args: argparse.Namespace, jobs: Sequence[Named], verb: str, **what: object) -> int:
    told = _Told()
    if not jobs:
        say("there is nothing to do: no job was named")
        return told.end(args)
    tree = client(args)
    often = Counter(job.key for job in jobs)
    for key, engine in jobs:
        name = f"{key} of {engine}" if often[key] > 1 else key
        told.ask(tree, verb, name, key=key, engine=engine, **what)
    return told.end(args)


def requeue(args: argparse.Namespace) -> int:
    """Give what was set aside another try: a job by its key, a dead letter by the path of its worker."""
    tree = client(args)
    told = _Told()
    for name in args.names:
        told.ask(tree, "requeue", **_named(args, name))
    return told.end(args)


def drop(args: argparse.Namespace) -> int:
    """Throw away what was set aside, for good."""
    confirmed(f"{', '.join(args.names)} will be dropped for good.", yes=args.yes)
    tree = client(args)
    told = _Told()
    for name in args.names:
        told.ask(tree, "drop", confirm=True, **_named(args, name))
    return told.end(args)


def _named(args: argparse.Namespace, name: str) -> dict[str, str | None]:
    return {args.by: name, "engine": args.engine if args.by == "key" else None}


def _each(tree: Client, args: argparse.Namespace, verb: str) -> int:
    told = _Told()
    for path in _meant(tree, args.paths):
        told.ask(tree, verb, path=path)
    return told.end(args)


def _meant(tree: Client, names: Sequence[str]) -> list[str]:
    """Full paths for what may be the end of one: `fetch/3`, `fetch/*`. The tree itself knows paths and bare names."""
    if all("/" not in name and not _is_glob(name) for name in names):
        return list(names)
    paths = [row.path for row in rows(tree.get("/api/snapshot"))]
    root = paths[0]
    out: list[str] = []
    for name in names:
        ends = [path for path in paths if path.endswith(f"/{name}")]
        if _is_glob(name) and name != "*" and not name.startswith((f"{root}/", "*/", "all")):
            out.append(f"*/{name}")
        else:
            out.append(ends[0] if len(ends) == 1 and name not in paths else name)
    return out


def _is_glob(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _one(tree: Client, args: argparse.Namespace, verb: str, **what: object) -> int:
    told = _Told()
    told.ask(tree, verb, **what)
    return told.end(args)


_UNFINISHED: Final = "is not done after"


def _user() -> str | None:
    """Who is at this keyboard, for the tree's record; it proves nothing."""
    return os.environ.get("USER") or os.environ.get("LOGNAME")


class _Told:
    """What the tree said to one command, which may have asked several times."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: dict[str, str] = {}
        self.said: list[str] = []
        self.also = ""
        """What a path that is not there may have been instead."""
        self._codes: list[int] = []

    def ask(self, tree: Client, verb: str, called: str = "", /, **what: Any) -> None:
        """Ask for one thing; what fails is told by the name of its target, or as it is `called`."""
        try:
            answer: Mapping[str, Any] = tree.do(verb, who=_user(), **what)
        except Ended as end:
            name = called or str(what.get("path") or what.get("type") or what.get("key") or verb)
            text = str(end)
            if end.code == UNKNOWN and "path" in what and "mean" not in text:
                text += _hint(tree, name) + self.also
            self.failed[name] = text
            self._codes.append(end.code)
            return
        if answer["done"]:
            self.said.append(str(answer["said"]))
        self.done += answer["done"]
        self.failed |= {called or name: why for name, why in answer.get("failed", {}).items()}

    def end(self, args: argparse.Namespace) -> int:
        """Tell it, and return the exit code."""
        if args.json:
            put(json.dumps({"said": self.said, "done": self.done, "failed": self.failed}))
        else:
            for text in self.said:
                put(text)
        for path, why in self.failed.items():
            say(why if why.startswith(path) or path in why else f"{path}: {why}")
        if not self.failed:
            return DONE
        if all(_UNFINISHED in why for why in self.failed.values()):
            return LATE
        if self.done:
            return PARTLY
        all_alike = len(set(self._codes)) == 1 and len(self._codes) == len(self.failed)
        return self._codes[0] if all_alike else FAILED


def _hint(tree: Client, name: str) -> str:
    try:
        found = rows(tree.get("/api/snapshot"))
    except Ended:
        return ""
    return nearest(name, {text for row in found for text in (row.path, *row.path.split("/"))})
