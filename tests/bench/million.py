"""Million: a worker that goes on and on, with a backlog that stays small; does its memory?

What was done is pruned now and then, as it would be. The collector of garbage is left alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.context import Context
from actors.jobs import Job, JobWorker
from supervision import Supervisor, Worker, supervisor
from tests.bench.jobs import PLACES, fill, postgres, sqlite
from tests.bench.meter import resident

if TYPE_CHECKING:
    from tests.bench.jobs import Opener

_STEPS = 10
_BACKLOG = 1_000


async def _run(opener: Opener, n: int) -> dict[str, float]:
    handled = 0
    memory: list[int] = []
    wanted, done = trio.Event(), trio.Event()

    async def handler(job: Job, ctx: Context) -> None:
        nonlocal handled
        handled += 1
        if handled % _BACKLOG == 0:
            wanted.set()
        if handled * _STEPS >= n * (len(memory) + 1):
            gc.collect()
            memory.append(resident())
        if handled == n:
            done.set()

    async def feed() -> None:
        nonlocal wanted
        for begin in range(0, n, _BACKLOG):
            await fill(engine, min(_BACKLOG, n - begin))
            while handled < begin:
                await wanted.wait()
                wanted = trio.Event()
            if begin % (50 * _BACKLOG) == 0:
                await engine.prune(0.0)

    async with opener() as engine:
        worker = JobWorker("noop", handler, engine=engine, concurrency=PLACES)
        tree = Supervisor("bench", [Worker("noop", worker)])
        async with supervisor.running(tree, log=False), trio.open_nursery() as nursery:
            nursery.start_soon(feed)
            await done.wait()
    assert handled == n
    steps = {f"{10 * at}%": float(size) for at, size in enumerate(memory, 1)}
    return {"value": float(memory[-1] - memory[0]), **steps}


def _side(opener: Opener) -> Callable[[int], dict[str, float]]:
    return lambda n: trio.run(partial(_run, opener, n))


sqlite_file = _side(sqlite("NORMAL"))
postgres_server = _side(postgres("threads", 2))
