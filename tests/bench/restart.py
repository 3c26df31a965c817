"""One worker that fails again and again, restarted without a wait, nobody listening.

Beside it stand two loops. Both try, catch and pass a checkpoint; the second gives each attempt a
cancel scope of its own, which a supervised run cannot do without: it is how it can be stopped alone.
"""

from __future__ import annotations

import trio

from supervision import RestartPolicy, Supervisor, Worker, supervisor
from tests.bench.meter import CpuTime


class Attempts:
    """Fails `n` times, then returns."""

    def __init__(self, n: int) -> None:
        self.left = n

    async def __call__(self, ctx: object = None) -> None:
        if self.left:
            self.left -= 1
            raise RuntimeError("attempt failed")


def ours(n: int) -> float:
    async def main() -> float:
        attempts = Attempts(n)

        async def run(ctx: object) -> None:
            await attempts()

        policy = RestartPolicy(max_restarts=0, initial_backoff=0)
        tree = Supervisor("bench", [Worker("failing", run, restart=policy)])
        with CpuTime(n) as spent:
            await supervisor.serve(tree, log=False)
        assert not attempts.left
        return spent.each

    return trio.run(main)


def loop(n: int) -> float:
    async def main() -> float:
        attempts = Attempts(n)
        with CpuTime(n) as spent:
            while True:
                try:
                    await attempts()
                    break
                except Exception:
                    await trio.lowlevel.checkpoint()
        return spent.each

    return trio.run(main)


def loop_with_scope(n: int) -> float:
    async def main() -> float:
        attempts = Attempts(n)
        with CpuTime(n) as spent:
            while True:
                try:
                    with trio.CancelScope():
                        await attempts()
                    break
                except Exception:
                    await trio.lowlevel.checkpoint()
        return spent.each

    return trio.run(main)
