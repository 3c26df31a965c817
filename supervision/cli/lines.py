"""Lines: the tree of a frame as the lines of a screen: grouped, folded, filtered, sorted.

Floor: above frames. Pure. Theory: a frame has supervisors and replicas; the workers in between are told by the replicas' paths. A worker
with one replica is one line; one with several is a line of its own above them, and can be folded like a supervisor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from actors.records import Record, record
from supervision.cli.frames import Row, state_of

__all__ = ["SORTS", "Line", "lines"]

SORTS = {"t": "tree", "n": "name", "s": "state", "m": "mailbox", "g": "msg/s", "r": "restarts"}
"""Keys, and the order that each sets."""
_WORST = ("failed", "restarting", "pending", "running", "stopped", "disabled")


@record
class Line(Record):
    """One line of the tree."""

    path: str
    """What a verb would be about."""
    label: str
    state: str
    """The word that is shown."""
    sort: str
    """One of the six states, for the colour; the worst of a group."""
    rows: tuple[Row, ...]
    """The replicas in it; of a supervisor all that are below."""
    kind: str
    """`supervisor`, `worker` (a group), `replica`."""
    folded: bool = False

    @property
    def queued(self) -> int:
        """Messages waiting."""
        return sum(row.queued or 0 for row in self.rows)

    @property
    def handled(self) -> int:
        """Messages handled."""
        return sum(row.handled or 0 for row in self.rows)


def lines(
    found: Sequence[Row],
    *,
    folded: Collection[str] = (),
    wanted: str = "",
    order: str = "tree",
    rates: Mapping[str, float] | None = None,
) -> list[Line]:
    """The lines for these rows.

    Args:
        folded: paths whose inside is not shown.
        wanted: only lines with this in their path.
        order: one of the values of `SORTS`; other than `tree`, only replicas are shown.
        rates: messages per second by path.
    """
    workers = [row for row in found if row.kind == "worker"]
    if wanted:
        workers = [row for row in workers if wanted.lower() in row.path.lower()]
    if order != "tree":
        return _sorted([_replica(row, row.path) for row in workers], order, rates or {})
    tree = _Tree(found, {row.path for row in workers}, folded)
    for path in tree.supervisors:
        if path.rpartition("/")[0] not in tree.supervisors and (not wanted or path in tree.below):
            tree.supervisor(path, "", "", empty=not wanted)
    return tree.out


def _sorted(flat: list[Line], order: str, rates: Mapping[str, float]) -> list[Line]:
    if order == "name":
        return sorted(flat, key=lambda line: line.path)
    if order == "state":
        return sorted(flat, key=lambda line: (_WORST.index(line.sort), line.path))
    if order == "mailbox":
        return sorted(flat, key=lambda line: -line.queued)
    if order == "restarts":
        return sorted(flat, key=lambda line: -sum(row.restarts for row in line.rows))
    return sorted(flat, key=lambda line: -rates.get(line.path, 0.0))


def _replica(row: Row, label: str) -> Line:
    return Line(
        path=row.path, label=label, state=state_of(row), sort=row.state, rows=(row,), kind="replica"
    )


class _Tree:
    """The tree while its lines are written."""

    def __init__(
        self, found: Sequence[Row], shown: Collection[str], folded: Collection[str]
    ) -> None:
        self.folded = folded
        self.out: list[Line] = []
        self.supervisors = {row.path: row for row in found if row.kind == "supervisor"}
        self.children: dict[str, list[str]] = {}
        self.replicas: dict[str, list[Row]] = {}
        self.below: dict[str, list[Row]] = {}
        for row in found:
            if row.kind == "supervisor":
                self.children.setdefault(row.path.rpartition("/")[0], []).append(row.path)
            elif row.path in shown:
                self._place(row)

    def _place(self, row: Row) -> None:
        worker = row.path.rpartition("/")[0]
        if worker not in self.replicas:
            self.children.setdefault(worker.rpartition("/")[0], []).append(worker)
        self.replicas.setdefault(worker, []).append(row)
        parts = row.path.split("/")
        for n in range(1, len(parts) - 1):
            self.below.setdefault("/".join(parts[:n]), []).append(row)

    def supervisor(self, path: str, lead: str, inside: str, *, empty: bool) -> None:
        """Write it and what is in it; `empty` says whether those without a worker are written too."""
        row, mine = self.supervisors[path], self.below.get(path, [])
        shut = path in self.folded
        self.out.append(
            Line(
                path=path,
                label=f"{lead}{'+ ' if shut else ''}{path.rpartition('/')[2]}",
                state=_share(mine, state_of(row)) if shut else state_of(row),
                sort=_worst([row, *mine]) if shut else row.state,
                rows=tuple(mine),
                kind="supervisor",
                folded=shut,
            )
        )
        if shut:
            return
        kids = [
            kid
            for kid in self.children.get(path, ())
            if empty or kid in self.replicas or kid in self.below
        ]
        for kid in kids:
            last = kid == kids[-1]
            below, further = (
                f"{inside}{'└─ ' if last else '├─ '}",
                f"{inside}{'   ' if last else '│  '}",
            )
            if kid in self.replicas:
                self.worker(kid, below, further)
            else:
                self.supervisor(kid, below, further, empty=empty)

    def worker(self, path: str, lead: str, inside: str) -> None:
        """Write a worker and its replicas."""
        mine, name = self.replicas[path], path.rpartition("/")[2]
        if len(mine) == 1:
            self.out.append(_replica(mine[0], f"{lead}{name}"))
            return
        shut = path in self.folded
        self.out.append(
            Line(
                path=path,
                label=f"{lead}{'+ ' if shut else ''}{name} x{len(mine)}",
                state=_share(mine, "running"),
                sort=_worst(mine),
                rows=tuple(mine),
                kind="worker",
                folded=shut,
            )
        )
        if not shut:
            self.out += [
                _replica(row, f"{inside}{'└─ ' if row is mine[-1] else '├─ '}{row.name}")
                for row in mine
            ]


def _share(mine: Sequence[Row], state: str) -> str:
    running = sum(row.state == "running" for row in mine)
    return f"{state} {running}/{len(mine)}" if running < len(mine) and state == "running" else state


def _worst(mine: Sequence[Row]) -> str:
    return min((row.state for row in mine), key=_WORST.index)
