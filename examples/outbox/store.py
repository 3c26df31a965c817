"""The two databases: the shop's outbox, and the receiver's ledger.

SQLite blocks: a commit waits for the disk, for milliseconds if all is well. On Trio's thread nothing else would move
meanwhile, no heartbeat, no stop. So every transaction is one function that runs in a worker thread, and it is short:

* One connection for each database, and a limiter of one thread: SQLite has one writer at a time anyway. Those that wait
  for their turn wait in Trio, where they can be cancelled, and not in a busy loop inside SQLite.
* `trio.to_thread.run_sync` lets a transaction that has begun come to its end even if its caller is cancelled, so it is
  committed or not, never abandoned half way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any, TypeVar

import attrs
import trio

from examples.outbox.orders import Order

__all__ = ["Ledger", "Outbox", "Sent"]

T = TypeVar("T")


class Database:
    """One SQLite file, written by one thread at a time."""

    schema: str

    def __init__(self, path: Path) -> None:
        self.path = path
        # The limiter sees to it that threads use the connection one after the other.
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.executescript(f"PRAGMA journal_mode = WAL;{self.schema}")
        self._one = trio.CapacityLimiter(1)

    async def transact(self, fn: Callable[..., T], *args: object) -> T:
        """Run `fn(connection, *args)` as one transaction, in a thread."""
        return await trio.to_thread.run_sync(self._transact, fn, args, limiter=self._one)

    def _transact(self, fn: Callable[..., Any], args: tuple[object, ...]) -> Any:
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            return fn(connection, *args)

    def close(self) -> None:
        """Call it when nothing uses the database any more."""
        self._connection.close()


@attrs.frozen
class Sent:
    """What the outbox knows about one order."""

    number: int
    cents: int
    attempts: int
    sent: bool


class Outbox(Database):
    """The shop's side. An order has an owner while a relay tries to send it."""

    schema = """
        CREATE TABLE IF NOT EXISTS outbox (
            number INTEGER PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL,
            quantity INTEGER NOT NULL, cents INTEGER NOT NULL,
            owner TEXT, attempts INTEGER NOT NULL DEFAULT 0, sent_at REAL
        );
        CREATE INDEX IF NOT EXISTS unsent ON outbox (number) WHERE sent_at IS NULL;
    """

    async def add(self, order: Order) -> None:
        """Store a new order, to be sent."""

        def add(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO outbox (number, customer, item, quantity, cents) VALUES (?, ?, ?, ?, ?)",
                (order.number, order.customer, order.item, order.quantity, order.cents),
            )

        await self.transact(add)

    async def last_number(self) -> int:
        """The number of the newest order; 0 if there is none."""
        return await self.transact(
            lambda db: db.execute("SELECT coalesce(max(number), 0) FROM outbox").fetchone()[0]
        )

    async def unsent(self) -> int:
        """How many orders are not known to have arrived."""
        return await self.transact(
            lambda db: db.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchone()[0]
        )

    async def claim(self, owner: str) -> Order | None:
        """Take the oldest order that nobody tries to send, and count the attempt."""

        def claim(db: sqlite3.Connection) -> Order | None:
            row = db.execute(
                """
                UPDATE outbox SET owner = ?, attempts = attempts + 1 WHERE number = (
                    SELECT number FROM outbox WHERE sent_at IS NULL AND owner IS NULL
                    ORDER BY number LIMIT 1
                ) RETURNING number, customer, item, quantity, cents
                """,
                (owner,),
            ).fetchone()
            return Order(*row) if row else None

        return await self.transact(claim)

    async def release(self, owner: str) -> None:
        """Give back what `owner` has claimed and not sent."""
        await self.transact(
            lambda db: db.execute(
                "UPDATE outbox SET owner = NULL WHERE sent_at IS NULL AND owner = ?", (owner,)
            )
        )

    async def release_all(self) -> None:
        """Give back all claims: whoever held them was another process, which is gone."""
        await self.transact(
            lambda db: db.execute("UPDATE outbox SET owner = NULL WHERE sent_at IS NULL")
        )

    async def mark_sent(self, number: int) -> None:
        """Note that the receiver has confirmed an order."""
        await self.transact(
            lambda db: db.execute(
                "UPDATE outbox SET sent_at = ? WHERE number = ?", (time(), number)
            )
        )

    async def all(self) -> list[Sent]:
        """Every order, for the proof."""
        query = "SELECT number, cents, attempts, sent_at IS NOT NULL FROM outbox ORDER BY number"
        rows = await self.transact(lambda db: db.execute(query).fetchall())
        return [Sent(number, cents, attempts, bool(sent)) for number, cents, attempts, sent in rows]


class Ledger(Database):
    """The receiver's side. Nothing but its own code keeps it from booking an order twice: see the proof."""

    schema = """
        CREATE TABLE IF NOT EXISTS deliveries (number INTEGER PRIMARY KEY, times INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS bookings (number INTEGER NOT NULL, cents INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS by_number ON bookings (number);
    """

    async def record(self, number: int, cents: int) -> int:
        """Count a delivery, and book the order if it is the first; returns which delivery this is."""

        def record(db: sqlite3.Connection) -> int:
            (times,) = db.execute(
                """
                INSERT INTO deliveries VALUES (?, 1)
                ON CONFLICT (number) DO UPDATE SET times = times + 1 RETURNING times
                """,
                (number,),
            ).fetchone()
            if times == 1:
                db.execute("INSERT INTO bookings VALUES (?, ?)", (number, cents))
            return int(times)

        return await self.transact(record)

    async def received(self) -> int:
        """How many different orders have arrived."""
        return await self.transact(
            lambda db: db.execute("SELECT count(*) FROM deliveries").fetchone()[0]
        )

    async def booked(self, number: int) -> list[int]:
        """The amounts booked for one order: one, if all is well."""
        query = "SELECT cents FROM bookings WHERE number = ?"
        rows = await self.transact(lambda db: db.execute(query, (number,)).fetchall())
        return [cents for (cents,) in rows]

    async def all(self) -> tuple[dict[int, int], list[tuple[int, int]]]:
        """Deliveries by order, and every booking, for the proof."""

        def read(db: sqlite3.Connection) -> tuple[dict[int, int], list[tuple[int, int]]]:
            deliveries = dict(db.execute("SELECT number, times FROM deliveries").fetchall())
            return deliveries, db.execute("SELECT number, cents FROM bookings").fetchall()

        return await self.transact(read)
