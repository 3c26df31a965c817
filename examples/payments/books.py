"""Our books: the tables of the shop, in the database that also keeps the jobs. That is what makes one transaction of both.

The statements are the same for SQLite and PostgreSQL, but for the mark that stands for a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from actors.jobs import DatabaseEngine, NewJob
from examples.payments.orders import Line

__all__ = ["Books", "Numbers"]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS orders (ref TEXT PRIMARY KEY, line BIGINT NOT NULL, job TEXT NOT NULL)",
    (
        "CREATE TABLE IF NOT EXISTS bookings (ref TEXT NOT NULL, charge TEXT NOT NULL, amount BIGINT NOT NULL,"
        " currency TEXT NOT NULL, score BIGINT)"
    ),
    "CREATE INDEX IF NOT EXISTS bookings_charge ON bookings (charge)",
    (
        "CREATE TABLE IF NOT EXISTS statement (number BIGINT PRIMARY KEY, charge TEXT NOT NULL, ref TEXT NOT NULL,"
        " amount BIGINT NOT NULL, currency TEXT NOT NULL, booked BIGINT NOT NULL)"
    ),
)


@attrs.frozen(kw_only=True)
class Numbers:
    """How far it is."""

    orders: int = 0
    booked: int = 0
    declined: int = 0
    poison: int = 0
    held: int = 0
    in_work: int = 0
    waiting: int = 0
    reconciled: int = 0

    @property
    def settled(self) -> int:
        """Orders of which is known what became."""
        return self.booked + self.declined + self.poison + self.held


@attrs.frozen
class Books:
    """What is written and read. A function that takes `db` first runs in a transaction, on the engine's thread."""

    engine: DatabaseEngine
    mark: str
    """What stands for a value in a statement."""

    async def open(self) -> None:
        """Make the tables, unless they are there."""
        await self.engine.run(lambda db: [db.execute(table) for table in _TABLES])

    def sql(self, statement: str) -> str:
        """A statement as this database wants it."""
        return statement.replace("?", self.mark)

    # -- orders come in --------------------------------------------------------------------------

    def place(self, db: Any, lines: Sequence[Line]) -> int:
        """Store the orders that are new and, in the same transaction, the job of each. Returns how many were new."""
        query = self.sql("SELECT 1 FROM orders WHERE ref = ?")
        new = {
            line.ref: line for line in lines if db.execute(query, (line.ref,)).fetchone() is None
        }
        jobs = [
            # The key goes to the provider: the same for an order whatever becomes of this job, or of this database.
            NewJob("charge", line.variables, retries=25, unique=ref, idempotency_key=f"order {ref}")
            for ref, line in new.items()
        ]
        enqueued = self.engine.enqueue_in(db, *jobs)
        for (ref, line), job in zip(new.items(), enqueued, strict=True):
            db.execute(self.sql("INSERT INTO orders VALUES (?, ?, ?)"), (ref, line.number, job.key))
        return len(new)

    # -- payments go out -------------------------------------------------------------------------

    def book(
        self, db: Any, ref: str, charge: str, amount: int, currency: str, score: int | None
    ) -> dict[str, Any]:
        """Book a charge. Nothing in this table keeps an order from being booked twice: the transaction does."""
        db.execute(
            self.sql("INSERT INTO bookings VALUES (?, ?, ?, ?, ?)"),
            (ref, charge, amount, currency, score),
        )
        return {"charge": charge}

    # -- the provider's statement ----------------------------------------------------------------

    def last_number(self, db: Any) -> int:
        """Up to where the statement was read."""
        return int(db.execute("SELECT coalesce(max(number), 0) FROM statement").fetchone()[0])

    def compare(self, db: Any, charges: Iterable[dict[str, Any]]) -> list[str]:
        """Store new lines of the statement, and look for the booking of each that had none. Returns those that nobody ordered.

        A charge without a booking is nothing bad: its worker may be about to book it, or may have died before it could. Then
        its job runs again, and books the same charge.
        """
        for line in charges:
            values = tuple(line[name] for name in ("number", "id", "order", "amount", "currency"))
            db.execute(
                self.sql(
                    "INSERT INTO statement VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT (number) DO NOTHING"
                ),
                values,
            )
        db.execute(
            "UPDATE statement SET booked = 1 WHERE booked = 0 AND EXISTS (SELECT 1 FROM bookings WHERE"
            " bookings.charge = statement.charge AND bookings.ref = statement.ref"
            " AND bookings.amount = statement.amount AND bookings.currency = statement.currency)"
        )
        unknown = db.execute(
            "SELECT charge FROM statement WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.ref = statement.ref)"
        ).fetchall()
        return [row[0] for row in unknown]

    # -- looking ---------------------------------------------------------------------------------

    async def numbers(self) -> Numbers:
        """How far it is."""
        found = await self.engine.statistics()
        jobs = found.jobs.get("charge", {})
        reconciled = await self.engine.run(
            self._number, "SELECT count(*) FROM statement WHERE booked = 1"
        )
        return Numbers(
            orders=sum(jobs.values()),
            booked=jobs.get("completed", 0),
            declined=jobs.get("errored", 0),
            poison=found.poison,
            held=jobs.get("incident", 0) - found.poison,
            in_work=jobs.get("active", 0),
            waiting=jobs.get("ready", 0) + jobs.get("scheduled", 0),
            reconciled=reconciled,
        )

    def _number(self, db: Any, query: str) -> int:
        return int(db.execute(query).fetchone()[0])
