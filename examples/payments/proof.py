"""The proof: the CSV, the provider's ledger and our books, compared after the end.

It believes no counter of the programs that ran, and shares no code with them: it reads the file in its own way, and the ledger
behind the provider's back.
"""

from __future__ import annotations

import csv
import sqlite3
from collections import Counter
from contextlib import closing
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from examples.payments.books import Books

__all__ = ["Evidence", "Order", "Proof", "gather", "prove"]

_UNITS: Final = {"EUR": "0.01", "USD": "0.01", "GBP": "0.01", "CHF": "0.01", "JPY": "1"}
_MOST: Final = {"EUR": 5000, "USD": 5500, "GBP": 4500, "CHF": 5000, "JPY": 800_000}
_CODES: Final = {"ok": "", "nsf": "insufficient_funds", "exp": "expired_card", "sto": "stolen_card"}


@attrs.frozen
class Order:
    """What the file says has to become of one order."""

    fate: str
    """`charged`, `declined`, `malformed` or `held`."""
    money: tuple[str, Decimal] | None = None
    code: str = ""


@attrs.frozen(kw_only=True)
class Evidence:
    """What was found in the three places."""

    ordered: dict[str, Order]
    lines: int
    """Of the file; more than orders, since some are exported twice."""
    charges: list[tuple[str, str, str, Decimal]]
    """At the provider: charge, order, currency, amount."""
    declined: dict[str, str]
    """At the provider: order and code."""
    repeated: int
    """Requests that the provider answered from its memory of keys."""
    bookings: list[tuple[str, str, str, Decimal]]
    """In our books: charge, order, currency, amount."""
    ended: dict[str, tuple[str, str]]
    """In our books: the orders without a booking, and the state and code, or reason, of their jobs."""
    poison: dict[str, str]
    """In our books: what was set aside, and why."""
    reconciled: set[str]
    """The charges of the provider's statement, as we have it, that were found in our books."""


@attrs.frozen(kw_only=True)
class Proof:
    """What follows from it. Each problem is a sentence and the orders that it is true of."""

    evidence: Evidence
    wrong: dict[str, list[str]]
    """What must never be, not even half way."""
    missing: dict[str, list[str]]
    """What is still to come, if the demonstration was stopped half way."""

    @property
    def sound(self) -> bool:
        """Nothing is wrong so far."""
        return not self.wrong

    @property
    def holds(self) -> bool:
        """Nothing is wrong, and nothing is missing."""
        return self.sound and not self.missing

    def fates(self) -> Counter[str]:
        """How many orders there are of each fate."""
        return Counter(order.fate for order in self.evidence.ordered.values())


def prove(found: Evidence) -> Proof:
    """Compare."""
    ordered, nobody = found.ordered, Order("never ordered")
    charged = {ref: (currency, amount) for _, ref, currency, amount in found.charges}
    booked = {ref: (currency, amount) for _, ref, currency, amount in found.bookings}
    fate = {ref: order.fate for ref, order in ordered.items()}
    at_provider = {row[:2] for row in found.charges}
    wrong = {
        "charged twice": _twice(ref for _, ref, *_ in found.charges),
        "booked twice": _twice(ref for _, ref, *_ in found.bookings),
        "charged, although it should not be": [r for r in charged if fate.get(r) != "charged"],
        "charged another amount": [
            r for r in charged if fate.get(r) == "charged" and charged[r] != ordered[r].money
        ],
        "booked, but never charged": [row[1] for row in found.bookings if row[:2] not in at_provider],
        "booked another amount": [
            r for r in booked if ordered.get(r, nobody).money not in (booked[r], None)
        ],
        "declined by the provider for another reason": [
            r for r, code in found.declined.items() if ordered.get(r, nobody).code != code
        ],
        "ended with another code than the provider's": [
            ref
            for ref, (state, code) in found.ended.items()
            if state == "errored" and found.declined.get(ref) != code
        ],
        "ended in another way than it should": [
            ref
            for ref, (state, _) in found.ended.items()
            if state in ("errored", "incident", "cancelled") and not _fits(fate.get(ref), state, ref in found.poison)
        ],
        "set aside without a reason": [ref for ref, reason in found.poison.items() if not reason],
    }  # fmt: skip
    over = {
        ref
        for ref, (state, _) in found.ended.items()
        if _fits(fate.get(ref), state, ref in found.poison)
    }
    missing = {
        "not charged": [r for r, order in ordered.items() if order.fate == "charged" and r not in charged],
        "charged, and not booked yet": [r for r in charged if r not in booked],
        "declined, and the process was not told": _rest(ordered, "declined", over),
        "malformed, and not set aside": _rest(ordered, "malformed", over),
        "too large, and not held for a person": _rest(ordered, "held", over),
        "not found in the provider's statement": [
            row[1] for row in found.bookings if row[0] not in found.reconciled
        ],
    }  # fmt: skip
    return Proof(evidence=found, wrong=_some(wrong), missing=_some(missing))


def _fits(fate: str | None, state: str, poisoned: bool) -> bool:
    return (fate, state, poisoned) in (
        ("declined", "errored", False),
        ("malformed", "incident", True),
        ("held", "incident", False),
    )


def _rest(ordered: dict[str, Order], fate: str, over: set[str]) -> list[str]:
    return [ref for ref, order in ordered.items() if order.fate == fate and ref not in over]


def _some(problems: dict[str, list[str]]) -> dict[str, list[str]]:
    return {what: refs for what, refs in problems.items() if refs}


def _twice(refs: Any) -> list[str]:
    return [ref for ref, times in Counter(refs).items() if times > 1]


# -- the three places ----------------------------------------------------------------------------


async def gather(file: Path, ledger: Path, books: Books) -> Evidence:
    """Read the three of them."""
    ordered, lines = await trio.to_thread.run_sync(read_file, file)
    charges, declined, repeated = await trio.to_thread.run_sync(read_ledger, ledger)
    bookings, unbooked, reconciled = await books.engine.run(_read_books)
    ended: dict[str, tuple[str, str]] = {}
    poisoned = {job.key: job.reason for job in await books.engine.poison("charge", most=10**9)}
    poison: dict[str, str] = {}
    for ref, key in unbooked:
        job = await books.engine.find(key)
        ended[ref] = (str(job.state), job.error_code or job.error or "")
        if key in poisoned:
            poison[ref] = poisoned[key]
    return Evidence(
        ordered=ordered,
        lines=lines,
        charges=charges,
        declined=declined,
        repeated=repeated,
        bookings=bookings,
        ended=ended,
        poison=poison,
        reconciled=reconciled,
    )


def read_file(path: Path) -> tuple[dict[str, Order], int]:
    """What should become of each order of the CSV, and how many lines there are."""
    found: dict[str, Order] = {}
    lines = path.read_bytes().splitlines()[1:]
    for number, raw in enumerate(lines, 2):
        try:
            order, _, _, _, card, amount, currency, _ = next(csv.reader([raw.decode()]))
        except ValueError:
            found[f"line {number}"] = Order("malformed")
            continue
        found[order or f"line {number}"] = _fate(order, card, amount, currency)
    return found, len(lines)


def _fate(order: str, card: str, amount: str, currency: str) -> Order:
    try:
        money, unit = Decimal(amount), Decimal(_UNITS[currency])
    except (InvalidOperation, KeyError):
        return Order("malformed")
    if (
        not (order and card and money.is_finite() and money > 0)
        or money.as_tuple().exponent != unit.as_tuple().exponent
    ):
        return Order("malformed")
    if money > _MOST[currency]:
        return Order("held")
    code = _CODES[card.split("_")[1]]
    return Order("declined" if code else "charged", (currency, money), code)


def read_ledger(path: Path) -> tuple[list[tuple[str, str, str, Decimal]], dict[str, str], int]:
    """What the provider has charged and declined, and how often it did not charge again."""
    with closing(sqlite3.connect(path)) as db:
        charges = db.execute("SELECT id, order_ref, currency, amount FROM charges ORDER BY number")
        declined = db.execute(
            "SELECT order_ref, json_extract(body, '$.code') FROM answers WHERE status = 402"
        )
        (repeated,) = db.execute("SELECT coalesce(sum(times - 1), 0) FROM answers").fetchone()
        return [_money(row) for row in charges], dict(declined.fetchall()), repeated


def read_faults(path: Path) -> dict[str, int]:
    """What the provider did wrong, by its own count."""
    with closing(sqlite3.connect(path)) as db:
        return dict(
            db.execute("SELECT kind, times FROM faults WHERE kind != 'lives' ORDER BY kind")
        )


def _read_books(
    db: Any,
) -> tuple[list[tuple[str, str, str, Decimal]], list[tuple[str, str]], set[str]]:
    bookings = db.execute("SELECT charge, ref, currency, amount FROM bookings").fetchall()
    unbooked = db.execute(
        "SELECT ref, job FROM orders WHERE NOT EXISTS (SELECT 1 FROM bookings WHERE bookings.ref = orders.ref)"
    ).fetchall()
    reconciled = db.execute("SELECT charge FROM statement WHERE booked = 1").fetchall()
    return (
        [_money(row) for row in bookings],
        [(row[0], row[1]) for row in unbooked],
        {row[0] for row in reconciled},
    )


def _money(row: Any) -> tuple[str, str, str, Decimal]:
    charge, ref, currency, amount = row
    return charge, ref, currency, amount * Decimal(_UNITS[currency])
