"""Payments that are booked once, although the worker is killed again and again.

Orders and their jobs are written in one transaction. A worker process books each payment and completes its job in one transaction
too. The shop kills that process without warning, starts another, and at the end compares what was ordered with what was booked.
`--fast` makes it short.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from sqlite3 import Connection
from tempfile import TemporaryDirectory

import trio

from actors import Backoff, Context
from actors.jobs import Job, NewJob, SQLiteEngine, job_worker, open_sqlite
from supervision import Supervisor, Worker, supervisor

ORDERS, KILLS = (60, 3) if "--fast" in sys.argv else (400, 10)


class BankIsBusy(Exception):
    """Happens now and then; the job is tried again."""


# -- the worker's process ------------------------------------------------------------------------


def book(db: Connection, order: int, amount: int) -> dict[str, object]:
    db.execute("INSERT INTO payments VALUES (?, ?)", (order, amount))
    return {"booked": amount}


# Leases of a second: so long is a job kept from others after its worker was killed.
@job_worker("charge", concurrency=4, timeout=1.0, backoff=Backoff(initial=0.05, maximum=0.2))
async def charge(job: Job, ctx: Context) -> None:
    await ctx.sleep(0.02)
    if Random(job.fence * 1000 + int(job.key)).random() < 0.1:
        raise BankIsBusy
    await job.transaction(book, job.variables["order"], job.variables["amount"])


async def work(path: str) -> None:
    async with open_sqlite(path) as engine:
        await supervisor.serve(
            Supervisor("bank", [Worker("charges", charge.on(engine))]), log=False
        )


# -- the shop ------------------------------------------------------------------------------------


def place(db: Connection, engine: SQLiteEngine, order: int) -> None:
    amount = 10 + order % 7
    db.execute("INSERT INTO orders VALUES (?, ?)", (order, amount))
    engine.enqueue_in(db, NewJob("charge", {"order": order, "amount": amount}, retries=20))


def number(db: Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


DONE = "SELECT count(*) FROM payments"
COMPLETED = "SELECT count(*) FROM jobs WHERE state = 'completed'"
WRONG = """SELECT count(*) FROM (
    SELECT orders.id FROM orders LEFT JOIN payments ON payments.id = orders.id AND payments.amount = orders.amount
    GROUP BY orders.id HAVING count(payments.id) != 1)"""


async def main() -> None:
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "shop.db")
        async with open_sqlite(path) as engine:
            for table in ("orders", "payments"):
                await engine.run(Connection.execute, f"CREATE TABLE {table} (id, amount)")
            for order in range(ORDERS):
                await engine.run(place, engine, order)
            print(f"{ORDERS} orders placed, each in one transaction with its job")
            await see_through(engine, path)
            booked, wrong = await engine.run(number, DONE), await engine.run(number, WRONG)
            print(
                f"{booked} payments booked for {ORDERS} orders, {wrong} of them missing or double"
            )
            if wrong or booked != ORDERS:
                sys.exit(1)


async def see_through(engine: SQLiteEngine, path: str) -> None:
    command = [sys.executable, "-m", "examples.payments", "--worker", path]
    for kills in range(1, KILLS + 1):
        process = await trio.lowlevel.open_process(command)
        await until(engine, DONE, at_least=ORDERS * kills // (KILLS + 1))
        process.kill()
        await process.wait()
        print(f"worker {kills} killed after {await engine.run(number, DONE)} payments")
    process = await trio.lowlevel.open_process(command)
    await until(engine, COMPLETED, at_least=ORDERS)
    process.terminate()  # this one stops in order
    await process.wait()


async def until(engine: SQLiteEngine, query: str, at_least: int) -> None:
    while await engine.run(number, query) < at_least:  # noqa: ASYNC110 - another process does it
        await trio.sleep(0.02)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        trio.run(work, sys.argv[-1])
    else:
        trio.run(main)
