"""Where jobs and books are: an SQLite file, or a PostgreSQL server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from actors.jobs import open_postgres, open_sqlite
from examples.payments.books import Books
from examples.payments.settings import Settings

__all__ = ["open_books"]


@asynccontextmanager
async def open_books(settings: Settings) -> AsyncGenerator[Books]:
    """The engine, whichever it is, and our tables beside its own. The name goes into keys, so it is the same for both."""
    if settings.engine == "sqlite":
        async with open_sqlite(settings.database, name="shop") as sqlite:
            yield Books(sqlite, "?")
    else:
        async with open_postgres(settings.dsn, name="shop") as postgres:
            yield Books(postgres, "%s")
