"""Frame: the whole tree at one moment, as the text that every viewer gets.

Floor: above pieces and recent. Theory: a frame is built once for all viewers, and only while somebody looks. A large tree is built in
slices with a checkpoint after each, so that no actor waits longer for it than for a message; a row is then true for the moment
of its slice. What a frame costs is measured in the CPU time of this thread, and `Hub` slows its clock by that.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import trio

from actors.events import Event
from actors.jobs.signals import JobIncident
from actors.letters import NOTHING
from supervision import report
from supervision.branch import Branch
from supervision.child import Replica
from supervision.events import Failed
from supervision.health import health
from supervision.member import Member
from supervision.observer import guards
from supervision.observer.messages import encode
from supervision.observer.pieces import (
    COLUMNS,
    WORST_FIRST,
    Look,
    branch_info,
    look_at,
    row,
)
from supervision.observer.recent import Recent
from supervision.states import State
from supervision.tree import Tree

__all__ = ["Frame", "Sight", "health_of", "mode"]

SLICE: Final = 200
"""Rows built between two checkpoints."""
MOST_LOOKS: Final = 100


class Frame:
    """One frame: its text, and what it cost to build."""

    __slots__ = ("cost", "made", "seq", "text")

    def __init__(self, text: str, seq: int, made: float, cost: float) -> None:
        self.text = text
        self.seq = seq
        """From 1, without holes."""
        self.made = made
        """When, by Trio's clock."""
        self.cost = cost
        """Seconds of CPU time."""

    def __repr__(self) -> str:
        return f"<Frame {self.seq}: {len(self.text)} characters, {self.cost * 1e3:.1f} ms>"


class Sight:
    """How one tree is seen: what a viewer wants to know and the tree itself does not remember.

    Args:
        tree: which. Made before it starts.
        recent: its last events.
        queues: returns what is known of job queues.
        alarms: returns what else needs a look, such as a loop that stood still.
        actions: whether those who may can act.
        token: whether somebody may over the network, who shows a token or whom `access` lets in.
        cpu: returns the CPU time of this thread in seconds.
    """

    def __init__(
        self,
        tree: Tree,
        recent: Recent,
        *,
        queues: Callable[[], list[dict[str, Any]]] = list,
        alarms: Callable[[], list[Look]] = list,
        actions: bool = False,
        token: bool = False,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self.tree = tree
        self.recent = recent
        self.actions = actions
        self.token = token
        self.every = 1.0
        self.seq = 0
        self._queues = queues
        self._alarms = alarms
        self._cpu = cpu
        self._failures = self._poison = 0
        self._past = {"handled": 0, "restarts": 0}
        self._busy: dict[str, tuple[int, float]] = {}
        tree.on_forgotten.append(self._forgotten)
        tree.events.tap(self._happened)

    # -- what the tree forgets -------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        self.recent.add(event)
        if isinstance(event, Failed):
            self._failures += 1
        elif isinstance(event, JobIncident):
            self._poison += event.poison

    def _forgotten(self, member: Member) -> None:
        for each in report.walk(member):
            self._past["restarts"] += each.restarts
            if isinstance(each, Replica):
                self._past["handled"] += each.mailbox.handled

    # -- one frame -------------------------------------------------------------------------------

    async def frame(self) -> Frame:
        """Build the next frame, with a checkpoint after each slice."""
        started = self._cpu()
        cost = 0.0
        now = self.tree.now()
        members = list(report.walk(self.tree.root))
        draft = _Draft(now)
        pieces: list[str] = []
        busy: dict[str, tuple[int, float]] = {}
        for start in range(0, len(members), SLICE):
            if start:
                cost += self._cpu() - started
                await trio.lowlevel.checkpoint()
                started = self._cpu()
            rows = [
                draft.add(member, self.busy_for(member, now, busy))
                for member in members[start : start + SLICE]
            ]
            pieces.append(encode(rows)[1:-1])
        self._busy = busy
        self.seq += 1
        text = self._text(draft, ",".join(pieces))
        cost += self._cpu() - started
        return Frame(text, self.seq, now, cost)

    def busy_for(
        self, member: Member, now: float, busy: dict[str, tuple[int, float]] | None = None
    ) -> float | None:
        """Seconds that the message in hand has been seen in hand: nothing is measured for each message, so at least so long."""
        if not isinstance(member, Replica) or member.mailbox.in_hand is NOTHING:
            return None
        mark = id(member.mailbox.in_hand) ^ member.mailbox.handled
        known = self._busy.get(member.path)
        since = known[1] if known is not None and known[0] == mark else now
        (self._busy if busy is None else busy)[member.path] = (mark, since)
        return round(now - since, 1)

    def identity(self, now: float | None = None) -> dict[str, Any]:
        """Which tree this is, and when: after a restart the process is another, or its uptime is less than it was."""
        now = self.tree.now() if now is None else now
        return {
            "tree": self.tree.root.name,
            "pid": os.getpid(),
            "uptime": round(now - self.tree.started_at, 1),
            "time": round(now, 3),
            "wall": round(datetime.now(UTC).timestamp(), 3),
        }

    def _text(self, draft: _Draft, rows: str) -> str:
        tree = self.tree
        head = {
            "v": 1,
            **self.identity(draft.now),
            "host": socket.gethostname(),
            "seq": self.seq,
            "every": round(self.every, 2),
            "actions": self.actions,
            "token": self.token,
            "mode": mode(tree),
            "health": health_of(tree),
            "counts": draft.counts,
            "totals": {
                "handled": draft.handled + self._past["handled"],
                "queued": draft.queued,
                "restarts": draft.restarts + self._past["restarts"],
                "failures": self._failures,
                "dead_letters": tree.letters.total,
                "poison": self._poison + tree.letters.statistics().by_reason.get("poison", 0),
            },
            "columns": COLUMNS,
        }
        queues = self._queues()
        breakers, bulkheads = guards.described(tree.office)
        looks = [*self._alarms(), *draft.looks, *_looks_of(breakers, queues)]
        looks.sort(key=lambda look: WORST_FIRST.index(look["kind"]))
        tail = {
            "supervisors": draft.supervisors,
            "look": looks[:MOST_LOOKS],
            "looks": len(looks) + draft.more,
            "breakers": breakers,
            "bulkheads": bulkheads,
            "queues": queues,
            "events": self.recent.told(),
        }
        return f'{encode(head)[:-1]},"rows":[{rows}],{encode(tail)[1:]}'

    def __repr__(self) -> str:
        return f"<Sight of {self.tree.root.name}: {self.seq} frames>"


class _Draft:
    """What adds up while the rows of a frame are made."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.counts = {str(state): 0 for state in State}
        self.handled = self.queued = self.restarts = self.more = 0
        self.supervisors: dict[str, dict[str, Any]] = {}
        self.looks: list[Look] = []

    def add(self, member: Member, busy: float | None) -> list[Any]:
        now = self.now
        self.restarts += member.restarts
        if isinstance(member, Branch):
            self.supervisors[member.path] = branch_info(member, now)
        elif isinstance(member, Replica):
            self.counts[str(member.state)] += 1
            self.handled += member.mailbox.handled
            self.queued += len(member.mailbox.queue)
        look = look_at(member, now)
        if look is not None:
            if len(self.looks) < 10 * MOST_LOOKS:
                self.looks.append(look)
            else:
                self.more += 1
        return row(member, now, busy)


def mode(tree: Tree) -> str:
    """`live`, `stopping` or `stopped`."""
    return "stopped" if tree.done.is_set() else "stopping" if tree.final else "live"


def health_of(tree: Tree) -> dict[str, Any]:
    """The three probes, with reasons, in terms of JSON."""
    now = health(tree)
    waiting = [f"{path} is not ready" for path in now.waiting_for[:20]]
    if len(now.waiting_for) > 20:
        waiting.append(f"and {len(now.waiting_for) - 20} more")
    if tree.final:
        waiting.insert(0, "the tree is stopping")
    why = list(now.problems[:20])
    return {
        "live": {"ok": now.live, "why": why},
        "ready": {"ok": now.ready, "why": [] if now.ready else why + waiting},
        "started": {"ok": now.started, "why": [] if now.started else waiting},
    }


def _looks_of(breakers: list[dict[str, Any]], queues: list[dict[str, Any]]) -> Iterator[Look]:
    for breaker in breakers:
        if breaker["state"] == "open":
            after = breaker["retry_after"]
            when = "" if after is None else f", calls again in {after:.0f} s"
            text = f"breaker open{when}"
            yield _look("breaker", breaker["name"], text, ["breaker_close"])
    for queue in queues:
        if queue.get("error"):
            yield _look("queue", queue["engine"], str(queue["error"]), [])
        elif queue["incident"]:
            n, kind = queue["incident"], queue["type"]
            jobs = f"1 job of type {kind} needs" if n == 1 else f"{n} jobs of type {kind} need"
            text = f"{jobs} a person"
            yield {**_look("queue", kind, text, []), "engine": queue["engine"]}


def _look(kind: str, path: str, text: str, actions: list[str]) -> Look:
    return {"path": path, "kind": kind, "text": text, "actions": actions}
