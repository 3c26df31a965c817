"""One process that works on payments: its tree. `demo.py` runs several, kills them now and then, and starts them again."""

from __future__ import annotations

import os

import httpx2
import trio

from actors import Backoff
from actors.jobs import JobWorker, NewJob, Periodic
from examples.payments import parent
from examples.payments.books import Books
from examples.payments.client import Provider
from examples.payments.reconciler import Reconciling
from examples.payments.scores import Scores
from examples.payments.settings import Settings
from examples.payments.store import open_books
from examples.payments.worker import FETCH, Charging, dependency
from supervision import RestartPolicy, Supervisor, Worker

__all__ = ["office"]


def office(settings: Settings, books: Books, http: httpx2.AsyncClient) -> Supervisor:
    """The tree. It starts in this order and stops in reverse: no job is taken when what it needs is not there any more."""
    provider, armoured, engine = Provider(http), dependency(settings), books.engine
    charging = JobWorker(
        "charge",
        Charging(provider, armoured, books),
        engine=engine,
        concurrency=12,
        timeout=settings.lease,
        claim_timeout=settings.lease / 3,
        fetch_variables=FETCH,
        requires=[armoured],
        backoff=Backoff(
            initial=settings.timeout, factor=1.5, maximum=4 * settings.timeout, jitter=0.3
        ),
    )
    reconciling = JobWorker(
        "reconcile",
        Reconciling(provider, armoured, books),
        engine=engine,
        concurrency=1,
        timeout=2 * settings.lease,
        claim_timeout=settings.lease / 3,
        fetch_variables=[],
        requires=[armoured],
        backoff=Backoff(initial=settings.timeout, maximum=4 * settings.timeout),
    )
    crash = 300 if settings.chaos else 0
    patient = RestartPolicy(initial_backoff=settings.backoff / 2, max_restarts=0, reset_after=2)
    return Supervisor(
        "office",
        [
            Worker("scores", lambda: Scores(crash), restart=patient),
            Worker("charges", charging, shutdown=10),
            Supervisor(
                "ledger",
                [
                    Worker("reconciler", reconciling, shutdown=5),
                    Worker(
                        "schedule",
                        Periodic(
                            "reconcile",
                            NewJob("reconcile", retries=25, unique="periodic"),
                            every=4 * settings.timeout,
                            engine=engine,
                        ),
                    ),
                ],
            ),
        ],
    )


async def main(settings: Settings) -> None:
    """The process."""
    async with (
        open_books(settings) as books,
        # Its own timeouts are off: `Dependency` has them.
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{os.environ['PORT']}", timeout=None) as http,
    ):
        await parent.serve(office(settings, books, http))


if __name__ == "__main__":
    trio.run(main, Settings.received())
