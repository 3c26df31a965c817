"""Hunters: who looks for which planted bug, and on what tree."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import trio
from hypothesis import strategies as st

from actors import Actor, MailboxSpec
from supervision import AutoShutdown, OnFailed, RestartPolicy, Supervisor, Worker
from supervision.testing import (
    BackoffMachine,
    BreakerMachine,
    BulkheadMachine,
    JobsMachine,
    PoolMachine,
    TrioStateMachine,
)

__all__ = ["HUNTERS", "hunter"]


@attrs.frozen(eq=False)
class Parcel:
    """A message: to be read, or to be worked on for a long time."""

    long: bool = False


PARCELS = st.builds(Parcel, st.sampled_from([False, False, True]))


async def busy(ctx) -> None:
    """Reads its mailbox, and works on long messages in a block that a stop has to wait for."""
    while True:
        message = await ctx.mailbox.receive()
        if message.long:
            with ctx.busy():
                await trio.sleep(30)


class Punctual(Actor):
    """Reminds itself, and knows a reminder that is not its own."""

    async def started(self, ctx) -> None:
        ctx.after(1.0, ("reminder", ctx.run))
        ctx.after(1.0, ("reminder", ctx.run))

    async def handle(self, message: Any) -> None:
        if isinstance(message, tuple) and message[1] != self.ctx.run:
            Punctual.faults.append(f"run {self.ctx.run} got a reminder of run {message[1]}")
        await trio.sleep(0.5)

    faults: ClassVar[list[str]] = []


def policy(**options: Any) -> RestartPolicy:
    return RestartPolicy(**{"jitter": 0, "max_restarts": 3, "initial_backoff": 0.5, **options})


TREE = Supervisor(
    "t",
    [
        Worker(
            "poison",
            Punctual,
            mailbox=MailboxSpec(capacity=2, redeliver=1),
            restart=policy(initial_backoff=0, max_restarts=4),
            on_failed=OnFailed.HOLD,
        ),
        Worker("plain", busy, restart=policy(reset_after=2), on_failed=OnFailed.HOLD, shutdown=2),
        Supervisor(
            "inner",
            [Worker("loop", busy, restart=policy(initial_backoff=0, max_restarts=0), shutdown=1)],
            intensity=2,
            period=1,
            on_failed=OnFailed.HOLD,
        ),
    ],
    auto_shutdown=AutoShutdown.NEVER,
)


class Fixed(PoolMachine):
    """The tree above: every kind of worker and limit that the bugs are about."""

    tree = TREE
    messages = PARCELS

    def setup(self) -> None:
        Punctual.faults = self.sim.trace.faults


class Tight(PoolMachine):
    """One reader under a tight window: for bugs that need several things to happen to the same run."""

    messages = PARCELS

    tree = Supervisor(
        "t",
        [
            Supervisor(
                "inner",
                [Worker("loop", busy, restart=policy(initial_backoff=0, max_restarts=0))],
                intensity=1,
                period=1,
                restart=policy(initial_backoff=0, max_restarts=0),
                auto_shutdown=AutoShutdown.NEVER,
            )
        ],
        auto_shutdown=AutoShutdown.NEVER,
    )


HUNTERS: dict[str, type[TrioStateMachine]] = {
    "late_result_counted": BreakerMachine,
    "trial_place_leaked": BreakerMachine,
    "place_lost_at_handover": BulkheadMachine,
    "backoff_never_reset": BackoffMachine,
    "lost_wake_up": Tight,
    "window_edge": Tight,
    "budget_off_by_one": Tight,
    "completion_without_fence": JobsMachine,
    "outcome_told_twice": JobsMachine,
}
"""Who looks for which bug; `Fixed` for all others."""


def hunter(name: str) -> type[TrioStateMachine]:
    """Who looks for this bug."""
    return HUNTERS.get(name, Fixed)
