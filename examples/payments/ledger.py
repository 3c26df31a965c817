"""The provider's ledger: its own database, of which the shop sees nothing but HTTP.

Nothing here keeps an order from being charged twice except idempotency keys: `charges` takes whatever it is given, so that a
worker which used two keys for one order would be found out.
"""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256
from typing import Any, Final

from examples.outbox.store import Database
from examples.payments.wire import Answer

__all__ = ["Ledger"]

# As with the test cards of real providers, the card says what comes of it.
_DECLINES: Final = {"nsf": "insufficient_funds", "exp": "expired_card", "sto": "stolen_card"}


class Ledger(Database):
    """Charges, and what was answered under each key."""

    schema = """
        CREATE TABLE IF NOT EXISTS charges (
            number INTEGER PRIMARY KEY, id TEXT NOT NULL, order_ref TEXT NOT NULL, amount INTEGER NOT NULL, currency TEXT NOT NULL
        );
        CREATE TABLE IF NOT EXISTS answers (
            key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, order_ref TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL,
            times INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS faults (kind TEXT PRIMARY KEY, times INTEGER NOT NULL);
    """

    async def charge(self, key: str, order: dict[str, Any]) -> Answer:
        """Charge, once for each key; the answer to a repetition is the first one."""
        return await self.transact(_charge, key, order)

    async def charges(self, after: int, most: int) -> list[dict[str, Any]]:
        """The statement: charges with higher numbers than `after`."""
        query = "SELECT number, id, order_ref, amount, currency FROM charges WHERE number > ? ORDER BY number LIMIT ?"
        rows = await self.transact(lambda db: db.execute(query, (after, most)).fetchall())
        names = ("number", "id", "order", "amount", "currency")
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def count_fault(self, kind: str) -> int:
        """Note one more fault of this kind."""
        return int(
            await self.transact(
                lambda db: db.execute(
                    "INSERT INTO faults VALUES (?, 1) ON CONFLICT (kind) DO UPDATE SET times = times + 1 RETURNING times",
                    (kind,),
                ).fetchone()[0]
            )
        )


def _charge(db: sqlite3.Connection, key: str, order: dict[str, Any]) -> Answer:
    fingerprint = sha256(json.dumps(order, sort_keys=True).encode()).hexdigest()
    row = db.execute(
        "SELECT fingerprint, status, body FROM answers WHERE key = ?", (key,)
    ).fetchone()
    if row is not None:
        if row[0] != fingerprint:
            return Answer(409, {"error": f"key {key} was used for something else"})
        db.execute("UPDATE answers SET times = times + 1 WHERE key = ?", (key,))
        return Answer(row[1], json.loads(row[2]), {"Idempotent-Replayed": "true"})
    code = _DECLINES.get(order["card"].split("_")[1])
    if code is None:
        charge = f"ch_{sha256(key.encode()).hexdigest()[:12]}"
        db.execute(
            "INSERT INTO charges (id, order_ref, amount, currency) VALUES (?, ?, ?, ?)",
            (charge, order["order"], order["amount"], order["currency"]),
        )
        answer = Answer(201, {"id": charge})
    else:
        answer = Answer(402, {"code": code})
    db.execute(
        "INSERT INTO answers VALUES (?, ?, ?, ?, ?, 1)",
        (key, fingerprint, order["order"], answer.status, json.dumps(answer.value)),
    )
    return answer
