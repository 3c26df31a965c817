"""The proof: both databases compared after the end, whatever happened before.

It believes no counter of the program that ran, only what is on disk, and the auditors' list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from examples.outbox.journal import Journal
from examples.outbox.shop import Shop
from examples.outbox.store import Sent

__all__ = ["Proof", "prove", "report"]


@attrs.frozen(kw_only=True)
class Proof:
    """What was found."""

    wanted: int
    stored: int
    sent: int
    received: int
    missing: tuple[int, ...]
    """Stored and not received."""
    lost: tuple[int, ...]
    """Marked as sent and not received: never, not even after a stop half way."""
    unknown: tuple[int, ...]
    """Received and never stored."""
    twice: tuple[int, ...]
    """Booked more than once."""
    wrong: tuple[int, ...]
    """Booked with another amount than ordered."""
    unaudited: tuple[int, ...]
    """Marked as sent and seen by no auditor in this run of the program."""
    attempts: Counter[int]
    """How many orders were sent how often."""
    deliveries: Counter[int]
    """How many orders arrived how often."""
    cents: int
    booked_cents: int

    @property
    def sound(self) -> bool:
        """Nothing is lost, doubled, wrong or made up. Holds at every moment, not only at the end."""
        return not (self.lost or self.unknown or self.twice or self.wrong)

    @property
    def holds(self) -> bool:
        """It is sound, and every order wanted has arrived, is marked and was audited."""
        complete = self.wanted == self.stored == self.sent == self.received
        return self.sound and complete and not self.unaudited


def prove(
    wanted: int,
    outbox: list[Sent],
    deliveries: dict[int, int],
    bookings: list[tuple[int, int]],
    audited: Iterable[int],
) -> Proof:
    """Compare. `wanted` is how many orders there should be; amounts are cents."""
    ordered = {order.number: order.cents for order in outbox}
    sent = {order.number for order in outbox if order.sent}
    booked = Counter(number for number, _ in bookings)
    return Proof(
        wanted=wanted,
        stored=len(ordered),
        sent=len(sent),
        received=len(deliveries),
        missing=tuple(sorted(ordered.keys() - booked.keys())),
        lost=tuple(sorted(sent - booked.keys())),
        unknown=tuple(sorted((deliveries.keys() | booked.keys()) - ordered.keys())),
        twice=tuple(sorted(number for number, times in booked.items() if times > 1)),
        wrong=tuple(sorted({n for n, cents in bookings if ordered.get(n, cents) != cents})),
        unaudited=tuple(sorted(sent - set(audited))),
        attempts=Counter(order.attempts for order in outbox if order.attempts),
        deliveries=Counter(deliveries.values()),
        cents=sum(ordered[number] for number in deliveries if number in ordered),
        booked_cents=sum(cents for _, cents in bookings),
    )


def report(proof: Proof, shop: Shop, journal: Journal) -> RenderableType:
    """The proof as tables."""
    table = Table(title="proof", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column()

    def line(what: str, value: str, *, good: bool = True) -> None:
        table.add_row(what, Text(value, style="green" if good else "red"))

    line("orders stored", f"{proof.stored} of {proof.wanted}", good=proof.stored == proof.wanted)
    line("orders received", f"{proof.received} of {proof.wanted}", good=not proof.missing)
    line("not received (yet)", _numbers(proof.missing), good=not proof.missing)
    line("marked as sent, but lost", _numbers(proof.lost), good=not proof.lost)
    line("duplicates applied", str(len(proof.twice)), good=not proof.twice)
    line("wrong or unknown", _numbers(proof.wrong + proof.unknown), good=proof.sound)
    euros = f"{proof.booked_cents / 100:,.2f} of {proof.cents / 100:,.2f}"
    line("money booked", euros, good=proof.booked_cents == proof.cents)
    line("not audited", _numbers(proof.unaudited), good=not proof.unaudited)
    line("sent", _histogram(proof.attempts))
    line("arrived", _histogram(proof.deliveries))

    chaos = Table(title="what went wrong", title_justify="left", show_header=False)
    chaos.add_column(justify="right")
    chaos.add_column()
    for what, times in sorted(shop.chaos.dealt.items()):
        chaos.add_row(str(times), what)

    restarts = Table(title="restarts by cause", title_justify="left")
    for name in ("worker", "cause", "restarts"):
        restarts.add_column(name, justify="right" if name == "restarts" else "left")
    for (worker, why), times in sorted(journal.restarts.items()):
        restarts.add_row(worker, why, str(times))
    restarts.add_row("", "together", str(journal.restarts.total()), style="bold")
    return Group(chaos, restarts, table)


def _numbers(numbers: tuple[int, ...]) -> str:
    if not numbers:
        return "none"
    shown = ", ".join(map(str, numbers[:10]))
    return f"{len(numbers)}: {shown}{', ...' if len(numbers) > 10 else ''}"


def _histogram(times: Counter[int]) -> str:
    return ", ".join(f"{n}x: {count}" for n, count in sorted(times.items())) or "nothing"
