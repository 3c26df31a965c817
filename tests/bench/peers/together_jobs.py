"""The peers of the jobs as data, and the tables that show them beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from tests.bench.peers.together import Measured, Peer, environment, name_of, named, notes
from tests.bench.plan import Kind, Row
from tests.bench.plan_jobs import JOBS
from tests.bench.report import comparisons, spread_of, table
from tests.bench.runner import Failure, Job, run_all, side_command
from tests.bench.servers import servers

__all__ = ["run_peers"]

GOAL: Final = 1.0
"""How many times as many jobs, in a second and for a second of CPU, ours should do beside each of them."""
REPETITIONS: Final = 3


@attrs.frozen
class _Contest:
    """A kind of store: ours on it, and who is measured beside."""

    title: str
    server: str
    ours: Mapping[str, str]
    """The sides of `plan_jobs` for `work`, `one` and `many`."""
    modules: tuple[str, ...]
    suffix: str = ""
    """Of the functions of the peer."""


_ON_POSTGRES: Final = {
    "work": "jobs.threads",
    "one": "jobs.one_postgres",
    "many": "jobs.many_postgres",
}
_ON_SQLITE: Final = {
    "work": "jobs.sqlite_normal",
    "one": "jobs.one_sqlite_normal",
    "many": "jobs.many_sqlite_normal",
}
_ON_DISK: Final = {
    "work": "jobs.sqlite_full",
    "one": "jobs.one_sqlite_full",
    "many": "jobs.many_sqlite_full",
}
CONTESTS: Final = (
    _Contest("PostgreSQL", "postgres", _ON_POSTGRES, ("pgqueuer", "procrastinate", "oban")),
    _Contest("Redis, ours on PostgreSQL", "redis", _ON_POSTGRES, ("streaq", "saq")),
    _Contest("SQLite", "", _ON_SQLITE, ("huey",)),
    _Contest("SQLite, each commit on the disk", "", _ON_DISK, ("huey",), "_full"),
)
HEADS: Final = {"work": "done", "one": "put in alone", "many": "one of 32 put in"}
N: Final = {
    ("work", "pgqueuer"): 10_000,
    ("work", "oban"): 3_000,
    ("work", "huey"): 10_000,
    ("work_full", "huey"): 1_000,
    ("one", "huey"): 5_000,
}
"""How many; others are 1,000, and 5,000 in batches."""

PEERS: Final = (
    Peer(
        "pgqueuer",
        ("pgqueuer", "asyncpg", "psycopg[binary]"),
        ("work", "one", "many"),
        "asyncio, over asyncpg, in batches of 32; a finished job goes to a table of its own",
    ),
    Peer(
        "procrastinate",
        ("procrastinate", "psycopg[binary]"),
        ("work", "one", "many"),
        "asyncio; a round trip and a commit to fetch each job, and another to finish it",
    ),
    Peer(
        "oban",
        ("oban", "psycopg[binary]"),
        ("work", "one", "many"),
        "asyncio, on Python 3.12 as it needs that; a statement for each job that is finished, in a transaction",
        python=(3, 12),
    ),
    Peer(
        "streaq",
        ("streaq", "trio"),
        ("work", "one", "many"),
        "run on Trio; about ten commands for each job",
    ),
    Peer(
        "saq",
        ("saq[redis]", "typing_extensions"),
        ("work", "one"),
        "asyncio; each job is told to all who wait for it, too",
    ),
    Peer(
        "huey",
        ("huey",),
        ("work", "one"),
        "one thread; a job leaves the file before it runs, so it is lost if its worker dies",
    ),
)  # fmt: skip


def run_peers(repetitions: int, say: Callable[[str], None]) -> str:
    """Measure every peer of the jobs, ours among them, and return the tables."""
    absent: dict[str, str] = {}
    present: list[Peer] = []
    pythons: dict[str, str] = {}
    with servers({contest.server for contest in CONTESTS}, say) as (running, missing):
        for peer in PEERS:
            lacks = next(
                (c.server for c in CONTESTS if peer.module in c.modules and c.server in missing), ""
            )
            if lacks:
                absent[peer.packages[0]] = f"not measured: {missing[lacks]}"
                continue
            say(f"preparing {peer.packages[0]}")
            try:
                pythons[peer.module] = str(environment(peer))
            except Failure as error:
                absent[peer.packages[0]] = f"not measured: {error}"
                continue
            present.append(peer)
        jobs = [
            job
            for contest in CONTESTS
            if contest.server not in missing
            for job in _jobs(contest, present, pythons, running)
        ]
        unique = list({job.name: job for job in jobs}.values())
        values = run_all(unique, min(repetitions, REPETITIONS), say, lenient=True)
    return "\n\n".join(_tables(Measured(present, values, absent)))


def _jobs(
    contest: _Contest,
    present: Sequence[Peer],
    pythons: Mapping[str, str],
    running: Mapping[str, Mapping[str, str]],
) -> Iterator[Job]:
    """A workload's measurements stand together, so that all meet the same neighbours."""
    for workload, name in contest.ours.items():
        side = JOBS.sides[name]
        if side.needs in running or not side.needs:
            command = side_command(side.target, side.n)
            yield Job(name, command, env=running.get(side.needs, {}))
        for peer in present:
            if peer.module in contest.modules and workload in peer.offers:
                function = f"{workload}{contest.suffix}"
                n = N.get((function, peer.module), 5_000 if workload == "many" else 1_000)
                command = [pythons[peer.module], "-m", f"tests.bench.peers.{peer.module}"]
                env = running.get(contest.server, {})
                yield Job(f"{function} {peer.module}", [*command, function, str(n)], env=env)


def _tables(measured: Measured) -> Iterator[str]:
    values = measured.values
    for contest in CONTESTS:
        peers = [peer for peer in measured.present if peer.module in contest.modules]
        if not peers:
            continue
        lines = [("**treewarden**", *_cells(contest, values, None))]
        lines += [(named(peer), *_cells(contest, values, peer)) for peer in peers]
        heads = [
            f"{head}, {what}" for head in HEADS.values() for what in ("in a second", "CPU of one")
        ]
        yield table((f"a job, {contest.title}", *heads), lines)
    yield comparisons(list(_rows(measured)), values)
    yield notes(measured)


def _cells(
    contest: _Contest, values: Mapping[str, Sequence[float]], peer: Peer | None
) -> Iterator[str]:
    for workload, ours in contest.ours.items():
        name = ours if peer is None else f"{workload}{contest.suffix} {peer.module}"
        if name not in values:
            yield from ("not offered", "")
        elif not values[name]:
            yield from ("failed", "")
        else:
            yield spread_of(values[f"{name}:rate"], "")
            yield spread_of(values[name], "µs")


def _rows(measured: Measured) -> Iterator[Row]:
    for contest in CONTESTS:
        for peer in measured.present:
            if peer.module in contest.modules:
                ours, other = contest.ours["work"], f"work{contest.suffix} {peer.module}"
                where = f"{contest.title}, beside {name_of(peer)}"
                yield Row(f"{where}, in a second", f"{ours}:rate", f"{other}:rate", Kind.PACE, GOAL)
                yield Row(f"{where}, for a second of CPU", ours, other, Kind.RATE, GOAL)
