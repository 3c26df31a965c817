"""The reconciler: reads the provider's statement, as a job of its own, and compares it with our books."""

from __future__ import annotations

import attrs

from actors import Context
from actors.jobs import IncidentError, Job
from actors.resilience import Dependency
from examples.payments.books import Books
from examples.payments.client import Provider

__all__ = ["Reconciling"]


@attrs.frozen
class Reconciling:
    """The handler of `reconcile` jobs. One run goes on where the last one ended."""

    provider: Provider
    armoured: Dependency
    books: Books

    async def __call__(self, job: Job, ctx: Context) -> None:
        """Read what is new, page by page; each page is compared in one transaction."""
        page: list[dict[str, object]] | None = None
        while page is None or page:
            last = await self.books.engine.run(self.books.last_number)
            page = await self.armoured.call(self.provider.statement, last)
            unknown = await self.books.engine.run(self.books.compare, page)
            if unknown:
                raise IncidentError(f"charges that nobody ordered: {', '.join(unknown[:5])}")
