"""Hunting a planted bug: which machine looks for it, and after how many examples it was found."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import trio
from hypothesis import Phase, seed, settings, strategies as st
from hypothesis.stateful import run_state_machine_as_test

from actors import Actor, MailboxSpec
from supervision import AutoShutdown, OnFailed, RestartPolicy, Supervisor, Worker
from supervision.testing import (
    BackoffMachine,
    BreakerMachine,
    BulkheadMachine,
    PoolMachine,
    TrioStateMachine,
)

__all__ = ["HUNTERS", "Found", "hunt"]

EXAMPLES = 1000
"""In which every planted bug has to be found: about ten times what it takes as a rule."""


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
}
"""Who looks for which bug; `Fixed` for all others."""


@attrs.frozen
class Found:
    """A find."""

    example: int
    """At which one it was first seen."""
    error: BaseException
    steps: int
    """Of the last failing example, the smallest if it was shrunk."""


class _Enough(KeyboardInterrupt):
    """Ends Hypothesis' search at the first find: it would go on for a while, even without shrinking."""

    def __init__(self, error: Any) -> None:
        super().__init__()
        self.error = error


def hunt(machine: type[TrioStateMachine], number: int, *, shrink: bool = False) -> Found | None:
    """Run `machine` with one seed; None if it finds nothing in `EXAMPLES`."""
    counts = {"examples": 0, "first": 0, "steps": 0}

    class Counted(machine):  # type: ignore[valid-type,misc]
        def __init__(self) -> None:
            super().__init__()
            counts["examples"] += 1
            self.failure: Exception | None = None

        def _guarded(self, step):
            try:
                return super()._guarded(step)
            except Exception as error:
                self.failure = error
                raise

        def teardown(self) -> None:
            try:
                super().teardown()
            except Exception as error:
                if not self._stopped(error):
                    self._failed, self.failure = True, error
                raise
            finally:
                if self._failed:
                    counts["steps"] = self.steps
                if self._failed and not counts["first"]:
                    counts["first"] = counts["examples"]
                    if not shrink:
                        raise _Enough(self.failure)

    wanted = settings(
        settings.get_profile("supervision"),
        max_examples=EXAMPLES,
        stateful_step_count=30,
        database=None,
        print_blob=False,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
    )
    try:
        run_state_machine_as_test(seed(number)(Counted), settings=wanted)
    except _Enough as enough:
        return Found(counts["first"], enough.error, counts["steps"])
    except Exception as error:
        return Found(counts["first"], error, counts["steps"])
    return None
