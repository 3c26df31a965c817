"""The peers as data, their virtual environments, and the table that shows them beside ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.bench.plan import SIDES
from tests.bench.report import spread_of, table
from tests.bench.runner import ROOT, Failure, Job, Spread, run_all, side_command

__all__ = ["PEERS", "SKIPPED", "Peer", "run_peers"]

WORKLOADS: Final = ("tell", "ask", "life", "restart", "memory")
OURS: Final = {
    "tell": "tell.ours",
    "ask": "ask.ours",
    "life": "life.replicas",
    "restart": "restart.ours",
    "memory": "life.memory",
}
TELL_GOAL: Final = 4.0
"""How many times as fast as the fastest peer a one-way message should be."""


@attrs.frozen
class Peer:
    """One library: its file here, what to install, and how it differs."""

    module: str
    packages: tuple[str, ...]
    offers: tuple[str, ...]
    note: str = ""
    python: tuple[int, int] = (3, 11)
    """The oldest Python it runs on."""
    most: int = 10**6
    """Not more actors than this at once: threads are dear."""


ALL: Final = WORKLOADS
PEERS: Final = (
    Peer(
        "pykka",
        ("pykka",),
        ("tell", "ask", "life", "memory"),
        "an actor is a thread, so 1,000 of them; what a message costs depends on how two threads share "
        "the interpreter; no supervisor",
        most=1_000,
    ),
    Peer(
        "tapio",
        ("tapio-py",),
        ALL,
        "validates messages with pydantic; a restart keeps the task and builds the behaviour anew",
    ),
    Peer(
        "triotp",
        ("triotp",),
        ALL,
        "a mailbox is a rendezvous, so a `tell` waits for the receiver; on Python 3.11 its last "
        "version needs an old Trio",
    ),
    Peer("fauxtp", ("fauxtp", "trio"), ALL, "run on Trio by way of AnyIO"),
    Peer(
        "thespian",
        ("thespian",),
        ("tell", "ask", "life", "memory"),
        "`simpleSystemBase`: an actor is an object without a task, and calls are synchronous",
    ),
    Peer(
        "mode",
        ("mode-streaming",),
        ("life", "restart", "memory"),
        "services without messages; it waits up to 5 s before it sees a failure, "
        "which CPU time does not show: 200 restarts",
    ),
    Peer("quattro", ("quattro",), ("life", "memory"), "task groups only, a queue for each task"),
    Peer(
        "asy",
        ("asy",),
        ("life", "restart", "memory"),
        "no messages; a restart is one that the task itself asks for",
    ),
    Peer(
        "async_pykka",
        ("async-pykka",),
        ("tell", "ask", "life", "memory"),
        "asyncio; no supervisor",
        python=(3, 12),
    ),
    Peer(
        "everything",
        ("everything-is-an-actor",),
        ALL,
        "asyncio; a restart swaps the object inside the running task",
        python=(3, 12),
    ),
    Peer(
        "py_gen_server",
        ("py-gen-server",),
        ("tell", "ask", "life", "memory"),
        "asyncio; no supervisor",
        python=(3, 13),
    ),
)

SKIPPED: Final = {
    "casty": "serialises every message for a cluster: another kind of work",
    "domo-actors": "a burst of sends overflows its recursive dispatcher",
    "genserver": "every actor is a thread that polls ten times a second, too much for 10,000",
    "aioerl": "GPL", "tractor": "AGPL; an actor is a process",
}  # fmt: skip


def run_peers(repetitions: int, say: Callable[[str], None]) -> str:
    """Measure every peer that this Python can run, ours among them, and return the tables."""
    jobs = [_ours(workload) for workload in WORKLOADS]
    absent = {name: f"not measured: {why}" for name, why in SKIPPED.items()}
    present: list[Peer] = []
    for peer in PEERS:
        if sys.version_info[:2] < peer.python:
            absent[peer.packages[0]] = f"needs Python {'.'.join(map(str, peer.python))}"
            continue
        say(f"preparing {peer.packages[0]}")
        try:
            python = environment(peer)
        except Failure as error:
            absent[peer.packages[0]] = f"could not be installed: {error}"
            continue
        present.append(peer)
        jobs += [_theirs(peer, python, workload) for workload in peer.offers]
    # A workload's measurements stand together, so that all peers meet the same neighbours.
    jobs.sort(key=lambda job: WORKLOADS.index(job.name.partition(" ")[0]))
    values = run_all(jobs, repetitions, say, lenient=True)
    return "\n\n".join(_tables(present, values, absent))


def _ours(workload: str) -> Job:
    side = SIDES[OURS[workload]]
    return Job(f"{workload} ours", side_command(side.target, side.n))


def _theirs(peer: Peer, python: Path, workload: str) -> Job:
    n = SIDES[OURS[workload]].n
    if workload in ("life", "memory"):
        n = min(n, peer.most)
    if workload == "restart":
        n = 200 if peer.module == "mode" else 1_000
    command = [str(python), "-m", f"tests.bench.peers.{peer.module}", workload, str(n)]
    return Job(f"{workload} {peer.module}", command, most=5)


def environment(peer: Peer) -> Path:
    """The interpreter of a peer's virtual environment, made at its first use.

    Raises:
        Failure: it could not be made.
    """
    minor = "{}.{}".format(*sys.version_info[:2])
    folder = ROOT / ".nox" / "bench-peers" / minor / peer.packages[0]
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *peer.packages],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise Failure((done.stderr.strip().splitlines() or ["no reason given"])[-1])
        complete.touch()
    return python


def version_of(peer: Peer) -> str:
    code = f"from importlib.metadata import version; print(version({peer.packages[0]!r}))"
    done = subprocess.run(
        [str(environment(peer)), "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _tables(
    present: Sequence[Peer], values: Mapping[str, Sequence[float]], absent: Mapping[str, str]
) -> list[str]:
    head = ("one of, in µs of CPU", "tell", "ask", "start + stop", "restart", "memory, idle")
    rows = [("**treewarden**", *(_cell(values, workload, "ours") for workload in WORKLOADS))]
    for peer in present:
        name = f"{peer.packages[0]} {version_of(peer)}"
        rows.append((name, *(_cell(values, workload, peer.module) for workload in WORKLOADS)))
    notes = [f"* {peer.packages[0]}: {peer.note}." for peer in present if peer.note]
    notes += [f"* {name}: {why}." for name, why in absent.items()]
    return [table(head, rows), _fastest(present, values), "\n".join(notes)]


def _cell(values: Mapping[str, Sequence[float]], workload: str, who: str) -> str:
    found = values.get(f"{workload} {who}")
    if found is None:
        return "not offered"
    return spread_of(found, "B" if workload == "memory" else "µs") if found else "failed"


def _fastest(present: Sequence[Peer], values: Mapping[str, Sequence[float]]) -> str:
    ours = values["tell ours"]
    ratios = {
        peer.packages[0]: Spread.of([b / a for a, b in zip(ours, theirs, strict=False)])
        for peer in present
        if (theirs := values.get(f"tell {peer.module}"))
    }
    name = min(ratios, key=lambda name: ratios[name].middle)
    best = ratios[name]
    goal = (
        "reached"
        if best.middle >= TELL_GOAL
        else f"**missed** by {1 - best.middle / TELL_GOAL:.0%}"
    )
    return (
        f"One-way messages, beside the fastest of them ({name}): {best.middle:.2f}x "
        f"({best.low:.2f}x to {best.high:.2f}x), wanted ≥ {TELL_GOAL:g}x: {goal}."
    )
