"""What the cases share: a tree under test, policies with exact waits, and readers of its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import attrs
import pytest
import trio

from actors import Event
from supervision import Pool, RestartPolicy, Supervisor, supervisor


def policy(
    initial: float = 0.0,
    factor: float = 1.0,
    cap: float | None = None,
    **more: Any,
) -> RestartPolicy:
    """Permanent, with exact waits, and no limit but that of the supervisor unless a case sets one."""
    cap = initial if cap is None else cap
    more = {"type": "permanent", "max_restarts": 0, "jitter": 0, **more}
    return RestartPolicy(initial_backoff=initial, factor=factor, max_backoff=cap, **more)


@attrs.define
class Trial:
    """A tree under test: its pool, what it reported, and how `serve` ended."""

    pool: Pool
    seen: list[Event]
    error: BaseException | None = None
    ended_at: float | None = None

    def times(self, kind: str, path: str) -> list[float]:
        """When events of this kind were reported about `path`."""
        return [e.time for e in self.seen if e.kind == kind and e.path == path]

    def kinds(self, path: str = "") -> list[str]:
        """The kinds of all events, or of those about `path`, in order."""
        return [e.kind for e in self.seen if not path or e.path == path]

    def story(self, *kinds: str) -> list[tuple[str, str]]:
        """`(worker, kind)` of the events of these kinds about replicas, in order."""
        return [
            (e.path.split("/")[-2], e.kind)
            for e in self.seen
            if e.kind in kinds and e.path.rpartition("/")[2].isdigit()
        ]

    def starts(self, path: str) -> list[float]:
        """When runs of `path` began."""
        return self.times("Started", path)


@asynccontextmanager
async def under_test(tree: Supervisor, **options: Any) -> AsyncIterator[Trial]:
    """Serve `tree` and hand out the pool at once; leaving the block stops what still runs and waits for the end."""
    seen: list[Event] = []
    options = {"wait_ready": False, "signals": False, "log": False, **options}
    options["listeners"] = [seen.append, *options.get("listeners", ())]
    trials: list[Trial] = []

    async def keep(*, task_status: trio.TaskStatus[Pool]) -> None:
        error: BaseException | None = None
        try:
            await supervisor.serve(tree, task_status=task_status, **options)
        except BaseException as raised:
            if all(isinstance(leaf, trio.Cancelled) for leaf in leaves(raised)):
                raise
            error = raised  # it is the test that judges it
        finally:
            trials[0].ended_at = trio.current_time()
            trials[0].error = error

    async with trio.open_nursery() as nursery:
        trials.append(Trial(None, seen))  # type: ignore[arg-type]
        trials[0].pool = await nursery.start(keep)
        yield trials[0]
        trials[0].pool.request_stop("the test is over")


async def at(when: float) -> None:
    """Sleep until `when`."""
    await trio.sleep_until(when)


async def turns(count: int) -> None:
    """Let the other tasks of this instant run `count` times: the order of events is what the count decides."""
    for _ in range(count):
        await trio.lowlevel.checkpoint()


async def forever(ctx: object) -> None:
    """Run until stopped."""
    await trio.sleep_forever()


def fails_after(seconds: float, error: Callable[[], Exception] = lambda: OSError("down")) -> Any:
    """A worker that fails so long after each start."""

    async def run(ctx: object) -> None:
        if seconds:
            await trio.sleep(seconds)
        raise error()

    return run


def fails_at(*times: float) -> Any:
    """A worker that fails at these moments, and otherwise runs until stopped."""

    async def run(ctx: object) -> None:
        now = trio.current_time()
        for when in times:
            if when > now:
                await trio.sleep_until(when)
                raise OSError(f"down at {when:g}")
        await trio.sleep_forever()

    return run


ORDERS = pytest.mark.parametrize(
    ("first", "second"),
    [(0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (0, 3), (3, 0), (0, 6), (6, 0)],
    ids=lambda turns: str(turns),
)
"""How many turns of the loop each of two actions of one instant waits: every order of the two is tried."""


def leaves(error: BaseException | None) -> list[BaseException]:
    """The errors at the bottom of a group."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [] if error is None else [error]


async def asked(out: dict, ref, message: str, timeout: float = inf) -> None:
    """Note when and how an ask ended."""
    try:
        out[message] = (trio.current_time(), await ref.ask(message, timeout=timeout))
    except Exception as error:
        out[message] = (trio.current_time(), error)
    else:
        out[message] = (trio.current_time(), out[message][1])
