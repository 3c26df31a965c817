"""Frames: what a tree would send, made up: for looks that no test can bring about at will.

A `Story` is a tree that lives: each `frame()` is a second later than the one before, and its counters have grown.
"""

from __future__ import annotations

import random
from typing import Any

COLUMNS = [
    *("path", "kind", "state", "phase", "run", "restarts", "failures", "limit"),
    *("queued", "capacity", "handled", "since", "next_restart", "busy", "error"),
]
STATES = ("pending", "running", "restarting", "stopped", "failed", "disabled")
WALL = 1_796_000_000.0


class Story:
    """A tree of `workers` (path of the worker: its number of replicas) that lives on with each frame.

    Args:
        supervisors: their paths, the root first.
        workers: replicas by path.
        pid: of the process.
        uptime: of the first frame.
    """

    def __init__(
        self,
        supervisors: list[str],
        workers: dict[str, int],
        *,
        pid: int = 4121,
        uptime: float = 273_600.0,
    ) -> None:
        self.chance = random.Random(7)
        self.pid = pid
        self.uptime = uptime
        self.seq = int(uptime)
        self.actions = True
        self.mode = "live"
        self.look: list[dict[str, Any]] = []
        self.breakers: list[dict[str, Any]] = []
        self.bulkheads: list[dict[str, Any]] = []
        self.queues: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.extra = {"dead_letters": 0, "poison": 0, "failures": 0}
        self.supervisors = {
            path: {
                "strategy": "one_for_one",
                "budget_used": 0,
                "intensity": 10 if n else None,
                "period": 60.0,
            }
            for n, path in enumerate(supervisors)
        }
        self.rows: dict[str, dict[str, Any]] = {}
        self.speed: dict[str, float] = {}
        for supervisor in supervisors:
            self._add(supervisor, "supervisor")
            for worker, replicas in workers.items():
                if worker.rpartition("/")[0] == supervisor:
                    for n in range(replicas):
                        self._add(f"{worker}/{n}", "worker")

    def _add(self, path: str, kind: str) -> None:
        worker = kind == "worker"
        self.speed[path] = self.chance.choice([0, 3, 12, 40, 38]) if worker else 0
        self.rows[path] = {
            **dict.fromkeys(COLUMNS),
            "path": path,
            "kind": kind,
            "state": "running",
            "phase": "ready",
            "run": 1,
            "restarts": 0,
            "failures": 0,
            "limit": 5,
            "queued": self.chance.choice([0, 0, 0, 1, 3]) if worker else None,
            "capacity": 16 if worker else None,
            "handled": self.chance.randrange(10_000, 90_000) if worker else None,
            "since": self.uptime - 2,
        }

    def change(self, path: str, **fields: Any) -> None:
        """Let a row be different from now on."""
        self.rows[path].update(fields)

    def fails(self, path: str, text: str, **fields: Any) -> None:
        """Let a replica fail for good, as the tree would tell it."""
        self.change(path, state="failed", phase=None, since=0.0, error="ValueError: bad", **fields)
        self.look.insert(
            0, {"path": path, "kind": "failed", "text": text, "actions": ["restart", "disable"]}
        )

    def happened(self, path: str, kind: str, text: str, level: str = "info") -> None:
        """Add an event of this moment."""
        self.seq += 1
        self.events.append(
            {
                "seq": self.seq,
                "time": self.uptime,
                "level": level,
                "kind": kind,
                "path": path,
                "text": text,
            }
        )

    def frame(self, seconds: float = 1.0) -> dict[str, Any]:
        """The next frame, `seconds` after the last."""
        self.uptime += seconds
        self.seq += 1
        for path, row in self.rows.items():
            row["since"] += seconds
            if row["next_restart"] is not None:
                row["next_restart"] = max(0.0, row["next_restart"] - seconds)
            if row["state"] == "running" and self.speed[path]:
                row["handled"] += round(self.speed[path] * seconds * self.chance.uniform(0.6, 1.4))
        for breaker in self.breakers:
            breaker["calls"] += breaker["state"] == "closed" and self.chance.randrange(20, 40)
        for queue in self.queues:
            queue["done_total"] += 0 if queue["paused"] else self.chance.randrange(3, 10)
        rows = list(self.rows.values())
        workers = [row for row in rows if row["kind"] == "worker"]
        waiting = [row["path"] for row in workers if row["state"] in {"restarting", "failed"}]
        failed = [row["path"] for row in workers if row["state"] == "failed"]
        return {
            "v": 1,
            "tree": next(iter(self.supervisors)),
            "pid": self.pid,
            "host": "box",
            "seq": self.seq,
            "uptime": self.uptime,
            "time": self.uptime,
            "wall": WALL + self.uptime,
            "every": 1.0,
            "actions": self.actions,
            "mode": self.mode,
            "health": {
                "live": {"ok": not failed, "why": [f"worker {path} failed" for path in failed]},
                "ready": {"ok": not waiting, "why": [f"{path} is not ready" for path in waiting]},
                "started": {"ok": True, "why": []},
            },
            "counts": {state: sum(row["state"] == state for row in workers) for state in STATES},
            "totals": {
                "handled": sum(row["handled"] for row in workers),
                "queued": sum(row["queued"] for row in workers),
                "restarts": sum(row["restarts"] for row in rows),
                **self.extra,
            },
            "columns": COLUMNS,
            "rows": [list(row.values()) for row in rows],
            "supervisors": self.supervisors,
            "look": self.look,
            "breakers": self.breakers,
            "bulkheads": self.bulkheads,
            "queues": self.queues,
            "events": self.events[-50:],
        }


def quiet() -> Story:
    """A shop on a good day."""
    story = Story(
        ["shop", "shop/billing", "shop/mail"],
        {
            "shop/fetch": 4,
            "shop/store": 3,
            "shop/billing/invoices": 6,
            "shop/billing/ledger": 1,
            "shop/mail/smtp": 1,
            "shop/mail/templates": 1,
            "shop/prune": 1,
        },
    )
    # The order of a walk over the tree: what stands below comes right after.
    story.breakers = [
        {"name": name, "state": "closed", "retry_after": None, "calls": 90_000, "failures": 12}
        for name in ("payments", "stock")
    ]
    story.bulkheads = [
        {"name": "payments", "limit": 8, "busy": 3, "waiting": 0, "max_waiting": 16},
        {"name": "stock", "limit": 4, "busy": 1, "waiting": 0, "max_waiting": 8},
    ]
    story.queues = [_queue("fetch", ready=12, active=6, limit=20), _queue("mail", active=1)]
    story.happened("shop/prune/0", "Rested", "shop/prune/0 has ended for good")
    return story


def _queue(name: str, **more: Any) -> dict[str, Any]:
    base = dict.fromkeys(("ready", "scheduled", "active", "incident"), 0)
    return {
        "engine": "sqlite",
        "type": name,
        **base,
        "done_total": 41_200,
        "paused": False,
        "limit": None,
        **more,
    }


def troubled() -> Story:
    """The same shop on a bad day."""
    story = quiet()
    story.happened(
        "shop/mail/smtp/0",
        "FailedForGood",
        "shop/mail/smtp/0 stays failed: 5 restarts in a row",
        "error",
    )
    story.happened(
        "shop/fetch/3",
        "Failed",
        "shop/fetch/3 failed (run 4): ValueError('bad payload')",
        "warning",
    )
    story.happened(
        "shop/fetch/3",
        "RestartScheduled",
        "shop/fetch/3 restarts in 2.4 s (3 of 5 consecutive)",
        "warning",
    )
    story.change(
        "shop/fetch/3",
        state="restarting",
        phase=None,
        run=4,
        restarts=3,
        failures=3,
        queued=14,
        next_restart=9.4,
        since=0.6,
        error="ValueError: bad payload",
    )
    story.change("shop/fetch/1", queued=8, busy=1.2)
    story.change("shop/billing/ledger/0", phase="draining")
    story.change("shop/prune/0", state="stopped", phase=None)
    story.change("shop/store/2", state="disabled", phase=None, queued=0)
    story.breakers[0].update(state="open", retry_after=12.0, failures=21)
    story.bulkheads[0].update(busy=8, waiting=5)
    story.queues[1].update(paused=True, ready=20, incident=14, scheduled=11, limit=5)
    story.extra = {"dead_letters": 14, "poison": 2, "failures": 9}
    story.look = [
        {
            "path": "shop/fetch/3",
            "kind": "restarting",
            "text": "next try in 2.4 s (3 of 5 used): ValueError: bad payload",
            "actions": ["restart", "disable"],
        },
        {
            "path": "payments",
            "kind": "breaker",
            "text": "breaker open for 48 s, half-open in 12 s: 9 of the last 10 calls failed",
            "actions": ["reset"],
        },
        {
            "path": "mail",
            "kind": "queue",
            "text": "paused; the oldest of 20 ready jobs has waited 4 m",
            "actions": ["resume"],
        },
    ]
    story.fails(
        "shop/mail/smtp/0",
        "failed after 5 restarts in a row (limit 5): ConnectError: refused",
        queued=16,
        restarts=5,
        failures=5,
        run=6,
    )
    return story


def huge(replicas: int = 5000) -> Story:
    """A tree of thousands, with something wrong somewhere."""
    each = replicas // 10
    return Story(
        ["farm", *(f"farm/hall{n}" for n in range(5))],
        {f"farm/hall{n // 2}/crawler{n}": each for n in range(10)},
    )


DETAIL = {
    "path": "shop/fetch/3",
    "policy": {
        "restart": {
            "type": "permanent",
            "max_restarts": 5,
            "initial_backoff": 0.5,
            "max_backoff": 30.0,
            "reset_after": 60.0,
        },
        "mailbox": {"capacity": 16, "overflow": "wait"},
        "shutdown": 15,
    },
    "errors": [
        {
            "when": WALL + 273_590 - 20 * n,
            "run": 4 - n,
            "error": "ValueError: bad payload",
            "traceback": "Traceback (most recent call last):\n"
            '  File "shop/fetch.py", line 41, in handle\n'
            "    return self.parse(message.body)\n"
            '  File "shop/fetch.py", line 58, in parse\n'
            '    raise ValueError("bad payload")\n'
            "ValueError: bad payload\n",
        }
        for n in range(3)
    ],
    "mailbox": {"capacity": 16, "queued": 14, "peak": 16},
    "handling": None,
    "stack": [],
}
