"""The shop: its settings, its parts, and the tree that keeps them alive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from examples.outbox.chaos import Chaos
from examples.outbox.receiver import Receiver
from examples.outbox.store import Ledger, Outbox
from examples.outbox.workers import Audit, Intake, Pricing, Relay
from supervision import MailboxSpec, RestartPolicy, Supervisor, Worker

__all__ = ["Settings", "Shop", "open_shop"]


@attrs.frozen(kw_only=True)
class Settings:
    """How big, how fast, how rough. Times are seconds."""

    orders: int = 300
    seed: int = 7
    chaos: bool = True
    calm: int = 20
    """About how many requests the receiver answers well before it does not."""
    interval: float = 0.11
    """Between two orders, on average."""
    latency: float = 0.02
    """Of the receiver, for one order."""
    timeout: float = 1.5
    """How long a relay waits for an answer."""
    watchdog: float = 2.5
    """How long the receiver may show no progress."""
    backoff: float = 0.4
    """Before the first restart; it doubles up to four times as much."""

    @classmethod
    def fast(cls, **changes: object) -> Settings:
        """For a machine that watches instead of a person."""
        quick = cls(
            orders=120,
            calm=14,
            interval=0.03,
            latency=0.005,
            timeout=0.5,
            watchdog=0.8,
            backoff=0.1,
        )
        return attrs.evolve(quick, **changes)


@attrs.frozen(kw_only=True)
class Shop:
    """The parts that outlive every run of a worker."""

    settings: Settings
    outbox: Outbox
    ledger: Ledger
    chaos: Chaos
    receiver: Receiver
    audited: set[int] = attrs.field(factory=set)

    def tree(self) -> Supervisor:
        """What runs. The start is in this order and the stop in reverse: relays end before those they talk to."""
        s = self.settings
        # Nobody can know how long a partner is down: try for ever, at most every few seconds.
        patient = RestartPolicy(
            max_restarts=0, initial_backoff=s.backoff, max_backoff=4 * s.backoff, reset_after=2
        )
        # A bug of our own that comes back again and again is given up on: five in a row, by default.
        strict = RestartPolicy(initial_backoff=s.backoff, reset_after=1)
        return Supervisor(
            "shop",
            [
                Worker(
                    "receiver",
                    self.receiver.run,
                    ready="signal",
                    start_timeout=5,
                    watchdog=s.watchdog,
                    shutdown=2,
                    restart=patient,
                ),
                Worker("pricing", lambda: Pricing(self.chaos), replicas=2, restart=strict),
                Worker(
                    "audit",
                    lambda: Audit(self.ledger, self.chaos, self.audited),
                    replicas=2,
                    restart=strict,
                    mailbox=MailboxSpec(capacity=100, redeliver=2, drain=True),
                ),
                Supervisor(
                    "outbox",
                    [
                        Worker(
                            "intake",
                            Intake(
                                outbox=self.outbox,
                                seed=s.seed,
                                orders=s.orders,
                                interval=s.interval,
                            ),
                            restart=strict,
                        ),
                        Worker(
                            "relay",
                            Relay(outbox=self.outbox, receiver=self.receiver, timeout=s.timeout),
                            replicas=3,
                            restart=patient,
                        ),
                    ],
                ),
            ],
        )


@contextmanager
def open_shop(settings: Settings, path: Path) -> Iterator[Shop]:
    """Open the databases: the outbox at `path`, the ledger beside it."""
    outbox = Outbox(path)
    ledger = Ledger(path.with_name(f"{path.stem}-ledger{path.suffix}"))
    chaos = Chaos(settings.seed, every=settings.calm if settings.chaos else 0)
    try:
        yield Shop(
            settings=settings,
            outbox=outbox,
            ledger=ledger,
            chaos=chaos,
            receiver=Receiver(
                ledger, chaos, heartbeat=settings.watchdog / 5, latency=settings.latency
            ),
        )
    finally:
        outbox.close()
        ledger.close()
