"""The armour's peers as data, and the tables that show them beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tests.bench.peers.together import Measured, Peer, measure_all, named, notes
from tests.bench.plan import Kind, Row
from tests.bench.plan_armour import ARMOUR
from tests.bench.report import comparisons, spread_of, table

__all__ = ["run_peers"]

OURS: Final = {
    "breaker": "armour.breaker",
    "rate": "armour.breaker_rate",
    "retry": "armour.retry",
    "once": "armour.retry_call",
    "bulkhead": "armour.bulkhead",
    "stack": "armour.stack",
}
HEADS: Final = {
    "breaker": "closed breaker",
    "rate": "breaker by rate",
    "retry": "retry",
    "once": "retry of one call",
    "bulkhead": "bulkhead",
    "stack": "whole stack",
}
GOAL: Final = 1.0
"""How many times as many calls per CPU second ours should guard, beside each of them."""

PEERS: Final = (
    Peer(
        "purgatory",
        ("purgatory", "trio"),
        ("breaker",),
        "sends an event over a bus when something changed, which a success after a success does not",
    ),
    Peer(
        "pybreaker",
        ("pybreaker", "trio"),
        ("breaker",),
        "`with breaker.calling()`: its decorator would count a coroutine as a success when it is made",
    ),
    Peer(
        "circuitbreaker",
        ("circuitbreaker", "trio"),
        ("breaker",),
        "does nothing at a success but set its count of failures to 0",
    ),
    Peer(
        "aiobreaker", ("aiobreaker", "trio"), ("breaker",), "`pybreaker`'s design, with coroutines"
    ),
    Peer(
        "nopanic",
        ("nopanic", "trio"),
        ("rate", "retry", "once", "bulkhead", "stack"),
        "its breaker knows rates only; its stack is `compose` of retry with budget, breaker, bulkhead "
        "and timeout, and stands beside ours with a breaker that counts consecutive failures",
    ),
    Peer(
        "tenacity",
        ("tenacity", "trio"),
        ("retry",),
        "finds out at each call which of the async libraries it runs on",
    ),
    Peer("stamina", ("stamina", "trio"), ("retry",), "tenacity within; its log is taken away"),
    Peer(
        "bulkman",
        ("bulkman", "trio"),
        ("bulkhead",),
        "run on Trio by way of AnyIO; each call is answered with a record of how it went",
    ),
)

SKIPPED: Final = {
    "hyx": "only its breaker runs on Trio, the rest needs asyncio",
    "aioresilience": "only its breaker runs on Trio, the rest needs asyncio",
    "pyresilience": "only its breaker runs on Trio, the rest needs asyncio",
    "backoff": "needs asyncio", "redress": "needs asyncio", "resilient-circuit": "needs asyncio",
}  # fmt: skip
DEAR: Final = ("tenacity", "stamina", "bulkman")
"""Those of which fewer calls will do."""


def run_peers(repetitions: int, say: Callable[[str], None]) -> str:
    """Measure every peer of the armour, ours among them, and return the tables."""
    ours = {workload: ARMOUR.sides[name] for workload, name in OURS.items()}

    def how_many(peer: Peer, workload: str) -> int:
        return 10_000 if workload == "stack" or peer.module in DEAR else ours[workload].n

    measured = measure_all(PEERS, SKIPPED, ours, how_many, repetitions, say)
    return "\n\n".join(_tables(measured))


def _tables(measured: Measured) -> Iterator[str]:
    values = measured.values

    def cell(workload: str, who: str) -> str:
        found = values.get(f"{workload} {who}")
        if found is None:
            return "not offered"
        return spread_of(found, "µs") if found else "failed"

    rows = [("**treewarden**", *(cell(workload, "ours") for workload in OURS))]
    rows += [
        (named(peer), *(cell(workload, peer.module) for workload in OURS))
        for peer in measured.present
    ]
    yield table(("a call that succeeds, in µs of CPU", *HEADS.values()), rows)
    pairs = [
        Row(
            f"{HEADS[workload]}, beside {peer.packages[0]}",
            f"{workload} ours",
            f"{workload} {peer.module}",
            Kind.RATE,
            GOAL,
        )
        for workload in OURS
        for peer in measured.present
        if values.get(f"{workload} {peer.module}")
    ]
    yield comparisons(pairs, values)
    yield notes(measured)
