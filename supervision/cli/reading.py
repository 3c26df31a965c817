"""Reading: `status`, `events`, `stack`, `health`, `jobs`, `poison`, `letters`: looking at a running tree.

Floor: above client and frames. The rule: looking changes nothing; with `--json` it prints what the tree said, one object with stable
keys.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from supervision.cli.client import Client, client
from supervision.cli.frames import Row, matching, rows, state_of
from supervision.cli.tables import age, columns, number
from supervision.cli.words import DONE, NOT_RUNNING, UNKNOWN, Ended, colour, flush, put
from supervision.signals import say

__all__ = [
    "PROBES",
    "events",
    "health",
    "incidents",
    "job",
    "jobs",
    "letters",
    "poison",
    "stack",
    "status",
    "summary",
]

PROBES: Final = {"live": "/livez", "ready": "/readyz", "started": "/startupz"}
MOST: Final = 500
"""Events in one answer."""
LEVELS: Final = ("debug", "info", "warning", "error")
_STATES: Final = {
    "running": "32",
    "restarting": "33",
    "pending": "90",
    "stopped": "90",
    "failed": "31;1",
    "disabled": "34",
}


def status(args: argparse.Namespace) -> int:
    """Show how a running tree, or a part of it, is. Exit code 0 if it is running and ready, else 3."""
    tree = client(args)
    frame = tree.get("/api/snapshot")
    found = matching(rows(frame), args.paths)
    if args.json:
        put(json.dumps(_selected(frame, found) if args.paths else frame))
    else:
        _status(frame, found, whole=not args.paths)
    if args.paths:
        return DONE if all(row.state == "running" for row in found) else NOT_RUNNING
    return DONE if frame["health"]["live"]["ok"] and frame["health"]["ready"]["ok"] else NOT_RUNNING


def _selected(frame: Mapping[str, Any], found: Sequence[Row]) -> dict[str, Any]:
    paths = {row.path for row in found}
    kept = [values for values in frame["rows"] if values[0] in paths]
    return {**frame, "rows": kept}


def summary(frame: Mapping[str, Any]) -> str:
    """One line: the tree, its counts, its probes."""
    counts = ", ".join(f"{n} {state}" for state, n in frame["counts"].items() if n)
    live = "ok" if frame["health"]["live"]["ok"] else "NO"
    ready = "ok" if frame["health"]["ready"]["ok"] else "NO"
    how = "" if frame["mode"] == "live" else f"  {frame['mode'].upper()}"
    return (
        f"{frame['tree']}  pid {frame['pid']}  up {age(frame['uptime'])}{how}"
        f"  {counts or 'no replicas'}  live {live}  ready {ready}"
    )


def _status(frame: Mapping[str, Any], found: Sequence[Row], *, whole: bool) -> None:
    if whole:
        put(summary(frame))
        for look in frame["look"]:
            put(f"! {look['path']} {look['text']}")
    bright = colour(sys.stdout)
    head = ("NAME", "STATE", "MAILBOX", "HANDLED", "RESTARTS", "SINCE", "LAST ERROR")
    table = columns(
        head,
        (
            (
                "  " * (row.depth if whole else 0) + (row.name if whole else row.path),
                state_of(row),
                _box(row),
                number(row.handled),
                _restarts(row),
                age(row.since),
                row.error or "",
            )
            for row in found
        ),
        right=(2, 3),
    )  # fmt: skip
    put(table[0])
    for line, row in zip(table[1:], found, strict=True):
        shown = state_of(row)
        sign = _STATES.get(row.state) if bright else None
        put(line.replace(f"  {shown}", f"  \x1b[{sign}m{shown}\x1b[0m", 1) if sign else line)


def _restarts(row: Row) -> str:
    if not row.failures or not row.limit:
        return str(row.restarts)
    # The failure that used the limit up asked for one more than there is: as in the log, it is the last that counts.
    return f"{row.restarts} ({min(row.failures, row.limit)} of {row.limit} in a row)"


def _box(row: Row) -> str:
    if row.queued is None:
        return ""
    return f"{row.queued}/{'inf' if row.capacity is None else row.capacity}"


def events(args: argparse.Namespace) -> int:
    """Show the last events of a running tree; with `--follow`, those that come, until it ends or you do."""
    tree = client(args)
    after, last = 0, None
    least = LEVELS.index(args.level)
    while True:
        try:
            answer = tree.get("/api/events", after=after, most=MOST)
            if last is not None and _another(last, answer):
                say(f"the tree was started anew: pid {last['pid']}, now {answer['pid']}")
                after = 0
                answer = tree.get("/api/events", after=after, most=MOST)
        except Ended as end:
            if last is not None and args.follow and end.code == UNKNOWN:
                return DONE  # the tree that was followed is gone
            raise
        found: list[dict[str, Any]] = answer["events"]
        shown = _chosen(found, args.path, least)
        if last is None:
            while len(answer["events"]) == MOST:  # an older tree has more than one answer holds
                answer = tree.get("/api/events", after=answer["events"][-1]["seq"], most=MOST)
                found = answer["events"] or found
                shown += _chosen(answer["events"], args.path, least)
            shown = shown[-args.most :]
        elif answer["missed"] and after:
            say(f"{answer['missed']} events came too fast to be kept")
        # Events are timed by the clock of the tree's own Trio run.
        began = answer["wall"] - answer["time"]
        for event in shown:
            put(json.dumps(event) if args.json else _event(event, began))
        flush()
        after, last = found[-1]["seq"] if found else after, answer
        if not args.follow:
            return DONE
        if len(found) < MOST:
            time.sleep(args.every)


def _another(last: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Whether another run of the tree answers than last time; in a container each may have the same number."""
    return bool(answer["pid"] != last["pid"] or answer["uptime"] < last["uptime"])


def _chosen(found: Iterable[dict[str, Any]], path: str | None, least: int) -> list[dict[str, Any]]:
    def wanted(event: dict[str, Any]) -> bool:
        here = str(event["path"])
        below = (
            path is None
            or here == path
            or here.startswith(f"{path}/")
            or f"/{path}/" in f"/{here}/"
        )
        return below and LEVELS.index(event.get("level", "info")) >= least

    return [event for event in found if wanted(event)]


def _event(event: Mapping[str, Any], began: float) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(began + event["time"]))
    return f"{clock}  {event['level']:<7}  {event['text']}"


def stack(args: argparse.Namespace) -> int:
    """Show where the runs of a part of the tree wait."""
    tree = client(args)
    found = [
        row
        for row in matching(rows(tree.get("/api/snapshot")), [args.path])
        if row.kind == "worker"
    ]
    stacks: dict[str, list[str]] = {
        row.path: tree.get("/api/detail", path=row.path).get("stack") or [] for row in found
    }
    if args.json:
        put(json.dumps(stacks))
        return DONE
    for row in found:
        put(f"{row.path}  {state_of(row)}")
        for line in stacks[row.path] or ["it has no run now"]:
            put(f"    {line}")
    return DONE


def health(args: argparse.Namespace) -> int:
    """Ask the probes: live, ready, started, or all of them. Exit code 0 if well, else 3."""
    tree = client(args)
    wanted = [args.probe] if args.probe else list(PROBES)
    told: dict[str, Any] = {}
    for probe in wanted:
        code, text = tree.text(f"{PROBES[probe]}?verbose")
        if code not in (200, 503):
            raise Ended(f"{tree.where}{PROBES[probe]} answered with status {code}", UNKNOWN)
        told[probe] = {"ok": code == 200, "checks": [line for line in text.splitlines() if line]}
    if args.json:
        put(json.dumps(told))
    else:
        for probe, answer in told.items():
            put(f"{probe}: {'ok' if answer['ok'] else 'NO'}")
            for line in answer["checks"]:
                put(f"    {line}")
    return DONE if all(answer["ok"] for answer in told.values()) else NOT_RUNNING


# -- lists -----------------------------------------------------------------------------------------


def jobs(args: argparse.Namespace) -> int:
    """Show the queues of jobs that the tree's workers take from."""
    return _print(client(args).get("/api/snapshot")["queues"], args, "there are no queues of jobs")


def job(args: argparse.Namespace) -> int:
    """Show one job by its key: how it is, and what it failed with; what is in it only if the tree shows that."""
    tree = client(args)
    answer = tree.get("/api/jobs", key=args.key, engine=args.engine)
    if args.json:
        put(json.dumps(answer))
        return DONE
    for nth, found in enumerate(answer["jobs"]):
        if nth:
            put("")
        fields = [
            (key, _short(key, value)) for key, value in found.items() if value not in (None, "")
        ]
        for line in columns(("FIELD", "VALUE"), fields)[1:]:
            put(line)
    return DONE


def incidents(args: argparse.Namespace) -> int:
    """Show the jobs that wait for a person, the oldest first: why, and for how long. Their keys go to `jobs retry` and `jobs cancel`."""
    query = {"type": args.type, "engine": args.engine, "most": args.most}
    answer = client(args).get("/api/jobs", state="incident", **query)
    if args.json:
        put(json.dumps(answer))
        return DONE
    found = answer["jobs"]
    if not found:
        say("no job waits for a person")
        return DONE
    head = ("KEY", "TYPE", "ENGINE", "RETRIES", "WAITS", "ERROR")
    cells = (
        [job[name] for name in ("key", "type", "engine", "retries")]
        + [age(job["incident_for"]) or None, job["error"]]
        for job in found
    )
    for line in columns(head, cells, right=(3, 4)):
        put(line)
    if answer["more"]:
        say(f"these are the oldest {len(found)}, and there are more: --most N")
    return DONE


def poison(args: argparse.Namespace) -> int:
    """Show the jobs that were set aside as poison, and why. Other incidents are known by their keys: `jobs show`."""
    return _listed(client(args), args, "/api/poison", "poison", type=args.type, most=args.most)


def letters(args: argparse.Namespace) -> int:
    """Show the dead letters: what could not be delivered or handled, and why."""
    return _listed(client(args), args, "/api/letters", "letters", most=args.most)


_NONE: Final = {"poison": "no job is set aside", "letters": "there are no dead letters"}


def _listed(tree: Client, args: argparse.Namespace, where: str, name: str, **query: object) -> int:
    answer = tree.get(where, **query)
    if args.json:
        put(json.dumps(answer))
        return DONE
    return _print(answer[name], args, _NONE[name])


def _print(found: Sequence[Mapping[str, Any]], args: argparse.Namespace, nothing: str) -> int:
    if args.json:
        put(json.dumps(found))
    elif not found:
        sys.stderr.write(f"treewarden: {nothing}\n")
    else:
        head = list(dict.fromkeys(key for item in found for key in item))
        cells = ([_short(key, item.get(key)) for key in head] for item in found)
        for line in columns([key.upper() for key in head], cells):
            put(line)
    return DONE


def _short(key: str, value: Any) -> object:
    if key == "when" and isinstance(value, (int, float)):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if isinstance(value, float):
        return f"{value:.1f}"
    return json.dumps(value) if isinstance(value, (dict, list)) else value
