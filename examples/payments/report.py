"""The report: what went wrong, and the proof, as tables."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from examples.payments.board import Board
from examples.payments.proof import Proof

__all__ = ["report"]


def report(proof: Proof, board: Board, faults: dict[str, int]) -> RenderableType:
    """All of it."""
    return Group(_chaos(board, faults), _places(proof), _reasons(proof), _problems(proof))


def _chaos(board: Board, faults: dict[str, int]) -> Table:
    table = Table(title="what went wrong", title_justify="left", show_header=False)
    table.add_column(justify="right")
    table.add_column()
    for what, times in faults.items():
        table.add_row(str(times), f"provider {what}")
    for kind, text in {
        "kills": "a worker's process was killed with SIGKILL",
        "crashes": "the database was killed, and recovered",
        "Failed": "a worker inside of a process crashed",
        "BreakerChanged": "a breaker opened or closed",
        "CallRetried": "a call was tried again at once",
        "JobFailed": "a job failed and was put back to be tried later",
    }.items():
        if board.counts[kind]:
            table.add_row(str(board.counts[kind]), text)
    return table


def _places(proof: Proof) -> Table:
    found, fates = proof.evidence, proof.fates()
    table = Table(title="proof", title_justify="left")
    table.add_column("", style="bold")
    for name in ("in the CSV", "at the provider", "in our books"):
        table.add_column(name, justify="right")

    def line(what: str, *values: object) -> None:
        same = len({value for value in values if value != ""}) == 1
        table.add_row(
            what,
            *(
                Text(f"{value:,}" if value != "" else "", "green" if same else "red")
                for value in values
            ),
        )

    line("charged", fates["charged"], len(found.charges), len(found.bookings))
    for currency in sorted({row[2] for row in found.charges}):
        line(
            f"  {currency}",
            sum(
                o.money[1]
                for o in found.ordered.values()
                if o.fate == "charged" and o.money and o.money[0] == currency
            ),
            _sum(found.charges, currency),
            _sum(found.bookings, currency),
        )
    errored = sum(state == "errored" for state, _ in found.ended.values())
    incidents = sum(state == "incident" for state, _ in found.ended.values())
    line("declined, with the code", fates["declined"], len(found.declined), errored)
    line("malformed, set aside", fates["malformed"], "", len(found.poison))
    line("too large, for a person", fates["held"], "", incidents - len(found.poison))
    line("charged twice", 0, len(found.charges) - len({row[1] for row in found.charges}), len(found.bookings) - len({row[1] for row in found.bookings}))  # fmt: skip
    line("open", 0, "", len(found.ended) - errored - incidents)
    table.caption = (
        f"{found.lines - len(found.ordered):,} lines were exported twice; {found.repeated:,} requests came again with a key"
        " that the provider knew, and charged nothing"
    )
    table.caption_justify = "left"
    return table


def _sum(rows: list[tuple[str, str, str, Decimal]], currency: str) -> Decimal:
    return sum((amount for _, _, found, amount in rows if found == currency), Decimal())


def _reasons(proof: Proof) -> Table:
    table = Table(title="for a person", title_justify="left", show_header=False)
    table.add_column(justify="right")
    table.add_column()
    kinds: dict[str, list[str]] = defaultdict(list)
    for reason in proof.evidence.poison.values():
        kinds[_kind(reason)].append(reason)
    for reasons in sorted(kinds.values(), key=len, reverse=True):
        table.add_row(str(len(reasons)), f"such as: {reasons[0]}")
    held = [
        why
        for ref, (state, why) in proof.evidence.ended.items()
        if state == "incident" and ref not in proof.evidence.poison
    ]
    if held:
        table.add_row(str(len(held)), f"such as: {held[0]}")
    return table


def _kind(reason: str) -> str:
    for kind in ("cut off", "currency", "no card", "no order", "amount"):
        if kind in reason:
            return kind
    return reason


def _problems(proof: Proof) -> RenderableType:
    lines = [
        Text(
            f"{name}{what}: {len(refs)} ({', '.join(refs[:3])}{', ...' if len(refs) > 3 else ''})",
            style,
        )
        for name, problems, style in (
            ("", proof.wrong, "bold red"),
            ("to come: ", proof.missing, "yellow"),
        )
        for what, refs in problems.items()
    ]
    return Group(*lines)
