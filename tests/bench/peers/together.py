"""The peers as data, their virtual environments, and the table that shows them beside ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.bench.plan import SIDES, Side
from tests.bench.report import spread_of, table
from tests.bench.runner import ROOT, Failure, Job, Spread, run_all, side_command

__all__ = ["PEERS", "SKIPPED", "Measured", "Peer", "measure_all", "named", "notes", "run_peers"]

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


@attrs.frozen
class Measured:
    """What came of the peers: values by `workload module`, ours under `workload ours`."""

    present: Sequence[Peer]
    values: Mapping[str, Sequence[float]]
    absent: Mapping[str, str]
    """Why others have none."""


def run_peers(repetitions: int, say: Callable[[str], None]) -> str:
    """Measure every peer that this Python can run, ours among them, and return the tables."""
    ours = {workload: SIDES[name] for workload, name in OURS.items()}
    measured = measure_all(PEERS, SKIPPED, ours, _how_many, repetitions, say)
    return "\n\n".join(_tables(measured))


def measure_all(
    peers: Sequence[Peer],
    skipped: Mapping[str, str],
    ours: Mapping[str, Side],
    how_many: Callable[[Peer, str], int],
    repetitions: int,
    say: Callable[[str], None],
) -> Measured:
    """Measure each workload of `ours`, here and in every peer that offers it and that this Python can run."""
    jobs = [
        Job(f"{workload} ours", side_command(side.target, side.n))
        for workload, side in ours.items()
    ]
    absent = {name: f"not measured: {why}" for name, why in skipped.items()}
    present: list[Peer] = []
    for peer in peers:
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
        for workload in peer.offers:
            what = (workload, str(how_many(peer, workload)))
            command = [str(python), "-m", f"tests.bench.peers.{peer.module}", *what]
            jobs.append(Job(f"{workload} {peer.module}", command, most=5))
    # A workload's measurements stand together, so that all peers meet the same neighbours.
    order = list(ours)
    jobs.sort(key=lambda job: order.index(job.name.partition(" ")[0]))
    return Measured(present, run_all(jobs, repetitions, say, lenient=True), absent)


def _how_many(peer: Peer, workload: str) -> int:
    n = SIDES[OURS[workload]].n
    if workload in ("life", "memory"):
        n = min(n, peer.most)
    if workload == "restart":
        n = 200 if peer.module == "mode" else 1_000
    return n


def environment(peer: Peer) -> Path:
    """The interpreter of a peer's virtual environment, made at its first use.

    Raises:
        Failure: it could not be made.
    """
    interpreter, minor = interpreter_for(peer)
    folder = ROOT / ".nox" / "bench-peers" / minor / name_of(peer)
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        for command in (
            [interpreter, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *peer.packages],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise Failure((done.stderr.strip().splitlines() or ["no reason given"])[-1])
        complete.touch()
    return python


def interpreter_for(peer: Peer) -> tuple[str, str]:
    """The Python to run a peer with, and its version: ours, or the oldest that the peer runs on.

    Raises:
        Failure: there is none.
    """
    if sys.version_info[:2] >= peer.python:
        return sys.executable, "{}.{}".format(*sys.version_info[:2])
    minor = ".".join(map(str, peer.python))
    for program in (f"python{minor}", *_of_pyenv(minor)):
        path = shutil.which(program)
        if (
            path is not None
            and not subprocess.run([path, "-c", ""], capture_output=True).returncode
        ):
            return path, minor
    raise Failure(f"it needs Python {minor}, which is not in PATH")


def _of_pyenv(minor: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [str(path) for path in sorted(root.glob(f"versions/{minor}.*/bin/python"))]


def version_of(peer: Peer) -> str:
    code = f"from importlib.metadata import version; print(version({name_of(peer)!r}))"
    done = subprocess.run(
        [str(environment(peer)), "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _tables(measured: Measured) -> list[str]:
    values = measured.values
    head = ("one of, in µs of CPU", "tell", "ask", "start + stop", "restart", "memory, idle")
    rows = [("**treewarden**", *(_cell(values, workload, "ours") for workload in WORKLOADS))]
    for peer in measured.present:
        cells = (_cell(values, workload, peer.module) for workload in WORKLOADS)
        rows.append((named(peer), *cells))
    return [table(head, rows), _fastest(measured.present, values), notes(measured)]


def named(peer: Peer) -> str:
    """A peer with its version."""
    return f"{name_of(peer)} {version_of(peer)}"


def name_of(peer: Peer) -> str:
    """What its package is called, without extras."""
    return peer.packages[0].partition("[")[0]


def notes(measured: Measured) -> str:
    """How the peers differ, and why some are missing."""
    lines = [f"* {name_of(peer)}: {peer.note}." for peer in measured.present if peer.note]
    lines += [f"* {name}: {why}." for name, why in measured.absent.items()]
    return "\n".join(lines)


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
