"""The provider, seen from the shop: one HTTP client, and what its answers mean.

What an answer means is said here, once, by the error that is raised: the guards in `worker.py` go by that.
"""

from __future__ import annotations

from typing import Any

import attrs
import httpx2
import trio

from actors.jobs import IncidentError
from actors.resilience import non_idempotent

__all__ = ["TRANSIENT", "Busy", "Declined", "Provider"]


class Busy(Exception):
    """It cannot answer now, and says when to come back."""

    def __init__(self, status: int, retry_after: float | None) -> None:
        super().__init__(f"the provider answers {status}")
        self.retry_after = retry_after


class Declined(Exception):
    """It will not charge this card, and another attempt would hear the same."""

    def __init__(self, code: str) -> None:
        super().__init__(f"the card was declined: {code}")
        self.code = code


TRANSIENT = (Busy, httpx2.TransportError, trio.TooSlowError)
"""What may be gone in a moment. Everything else is final: a card that is declined, and our own bugs."""


@attrs.frozen
class Provider:
    """Its API, as far as a payment worker needs it."""

    http: httpx2.AsyncClient

    @non_idempotent  # a guard that would repeat it refuses to, unless it is given a key
    async def charge(self, order: dict[str, Any], *, idempotency_key: str) -> str:
        """Charge an order; returns the charge's id. A key that was charged before charges nothing."""
        answer = await self.http.post(
            "/charges", json=order, headers={"Idempotency-Key": idempotency_key}
        )
        if answer.status_code == 402:
            raise Declined(answer.json()["code"])
        return str(_good(answer)["id"])

    async def statement(self, after: int) -> list[dict[str, Any]]:
        """The charges of the ledger that come after number `after`."""
        return list(_good(await self.http.get("/charges", params={"after": after})))


def _good(answer: httpx2.Response) -> Any:
    if answer.status_code in (429, 503):
        seconds = answer.headers.get("retry-after")
        raise Busy(answer.status_code, float(seconds) if seconds else None)
    if answer.is_error:
        # Not a matter of waiting: it does not understand us, or a key was used for something else.
        raise IncidentError(f"the provider answers {answer.status_code}: {answer.text}")
    return answer.json()
