"""The test kit: one example of a property about a tree of three workers, beside the same history in a plain `trio.run`."""

from __future__ import annotations

import trio
from hypothesis import given, seed, settings, strategies as st
from hypothesis.strategies import DataObject

from supervision import OnFailed, RestartPolicy, Supervisor, Worker, supervisor
from supervision.testing import Plan, faulty, idle, plans, schedules, simulate
from tests.bench.meter import CpuTime

_POLICY = RestartPolicy(jitter=0, initial_backoff=0.5, max_restarts=3)
TREE = Supervisor(
    "t", [Worker(name, idle, restart=_POLICY, on_failed=OnFailed.HOLD) for name in "abc"]
)


async def _history(plan: dict[str, Plan]) -> None:
    async with supervisor.running(faulty(TREE, plan), log=False):
        await trio.sleep(20)


def _examples(n: int) -> settings:
    return settings(
        settings.get_profile("supervision"), max_examples=n, database=None, derandomize=False
    )


def ours(n: int) -> float:
    """Drawn failures and a drawn order, every invariant asked at every instant."""

    @seed(1)
    @_examples(n)
    @given(plan=plans(TREE), schedule=schedules())
    def one(plan: dict[str, Plan], schedule: object) -> None:
        simulate(lambda: _history(plan), schedule=schedule)  # type: ignore[arg-type]

    with CpuTime(n) as spent:
        one()
    return spent.each


def plain(n: int) -> float:
    """Drawn failures, Trio's own order, nothing asked."""

    @seed(1)
    @_examples(n)
    @given(plan=plans(TREE), data=st.data())
    def one(plan: dict[str, Plan], data: DataObject) -> None:
        del data
        trio.run(_history, plan, clock=trio.testing.MockClock(autojump_threshold=0))

    with CpuTime(n) as spent:
        one()
    return spent.each
