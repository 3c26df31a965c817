"""How big, how fast, how rough: one value, which also travels to the other processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

import attrs

__all__ = ["Settings"]


@attrs.frozen(kw_only=True)
class Settings:
    """One demonstration. Times are seconds."""

    folder: str
    """Where everything lies: the orders, both databases, the log."""
    orders: int = 3000
    seed: int = 7
    chaos: bool = True
    processes: int = 2
    """How many processes work on payments."""
    engine: Literal["sqlite", "postgres"] = "sqlite"
    dsn: str = ""
    """Of PostgreSQL."""
    calm: int = 110
    """About how many charges the provider answers well before it does not."""
    lives: int = 900
    """About how many charges it answers before it dies."""
    latency: float = 0.1
    """Of the provider, for one charge."""
    timeout: float = 1.0
    """How long a worker waits for an answer."""
    lease: float = 3.0
    """How long the jobs of a worker that was killed are kept from others."""
    backoff: float = 0.6
    """Before the first restart of a process; it doubles up to four times as much."""
    kills: tuple[float, ...] = (0.3, 0.65)
    """After which shares of the orders a worker's process is killed."""

    @classmethod
    def fast(cls, **changes: object) -> Settings:
        """For a machine that watches instead of a person."""
        quick = cls(
            folder="",
            orders=400,
            calm=35,
            lives=180,
            latency=0.03,
            timeout=0.5,
            lease=1.0,
            backoff=0.2,
            kills=(0.4,),
        )
        return attrs.evolve(quick, **changes)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)

    @property
    def csv(self) -> Path:
        """The orders."""
        return self.path / "orders.csv"

    @property
    def database(self) -> Path:
        """Our database, if it is SQLite."""
        return self.path / "shop.sqlite"

    @property
    def ledger(self) -> Path:
        """The provider's."""
        return self.path / "provider.sqlite"

    @property
    def log(self) -> Path:
        """What all processes log."""
        return self.path / "payments.log"

    def command(self, module: str) -> list[str]:
        """What starts a module of this example in a process of its own, with these settings."""
        return [sys.executable, "-m", f"examples.payments.{module}", json.dumps(attrs.asdict(self))]

    @classmethod
    def received(cls) -> Settings:
        """What `command` has passed to this process."""
        found = json.loads(sys.argv[1])
        return cls(**{**found, "kills": tuple(found["kills"])})
