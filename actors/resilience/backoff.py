"""Backoff: how long to wait before trying again, as a value.

Floor: above options. The formula, for try number n from 1:
`min(maximum / (1 + jitter), initial * factor ** (n - 1)) * (1 + U(-jitter, +jitter))`.
The base is capped below `maximum` so that waits at the cap are spread too and still never exceed it; the power is never
computed once it is known to pass the cap, so no n overflows.
"""

from __future__ import annotations

from math import log
from random import Random

import attrs

from actors.options import amount, seconds, share
from actors.records import Record

__all__ = ["Backoff"]


@attrs.frozen(eq=False, repr=False)
class Backoff(Record):
    """Exponential waits with a cap and relative jitter. `initial=0` means no wait at all."""

    initial: float = attrs.field(default=1.0, validator=seconds)
    """Seconds before the first new try."""
    factor: float = attrs.field(default=2.0, validator=amount)
    """Growth from one wait to the next."""
    maximum: float = attrs.field(default=30.0, validator=seconds)
    """Seconds that no wait exceeds."""
    jitter: float = attrs.field(default=0.1, validator=share)
    """Each wait is spread by this share to both sides."""

    def base(self, n: int) -> float:
        """The wait before jitter. Never falls as `n` grows.

        Raises:
            ValueError: n is below 1.
        """
        if n < 1:
            raise ValueError(f"tries are counted from 1, not {n}")
        cap = self.maximum / (1 + self.jitter)
        if self.initial == 0 or cap == 0:
            return 0.0
        if self.initial >= cap or (n - 1) * log(self.factor) >= log(cap / self.initial):
            return cap
        try:
            return min(cap, self.initial * self.factor ** (n - 1))
        except (
            OverflowError
        ):  # only where `initial` is too near to 0 for the quotient above to say anything
            return cap

    def delay(self, n: int, random: Random) -> float:
        """Seconds to wait before new try number `n` (from 1), in (0, maximum] unless `initial` is 0."""
        base = self.base(n)
        if base == 0.0 or self.jitter == 0.0:
            return min(base, self.maximum)
        return min(base * (1 + random.uniform(-self.jitter, self.jitter)), self.maximum)
