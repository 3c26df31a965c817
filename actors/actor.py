"""Actor: the handler class, and its receive loop.

Floor: the highest of this package's core. Theory of the loop: it drains what is queued, one message at a time, and lets
other tasks run after a bounded batch (count and time), instead of one scheduler pass a message. A stop is seen between
messages; a cancellation only by a handler that waits, or between batches.
"""

from __future__ import annotations

from collections.abc import Coroutine
from math import inf
from typing import Any, Final

import trio
from trio.lowlevel import checkpoint, wait_task_rescheduled

from actors.context import Context
from actors.errors import noted, shown
from actors.letters import NOTHING, Letter
from actors.mailbox import Mailbox
from actors.ref import Ask

__all__ = ["Actor", "run_actor"]

BATCH: Final = 256
"""Messages handled before other tasks get a turn."""
BATCH_SECONDS: Final = 0.005
"""Time after which they get it anyway, looked at every 16 messages."""
_LOOK: Final = 15  # a mask


class Actor:
    """One handler, many messages, one at a time. A new instance is made for each run.

    Synopsis::

        class Orders(Actor):
            async def started(self, ctx):
                self.db = await connect()

            async def handle(self, message):
                await self.db.insert(message)

            async def stopped(self, ctx):
                await self.db.aclose()

    A run is ready when `started` has returned, unless its spec says `ready="signal"`. An exception from `handle` fails the run:
    the message goes to the dead letters or is redelivered, the mailbox stays, and the supervisor decides about a restart.
    """

    ctx: Context
    """The context of this run; set before `started` is called."""

    async def started(self, ctx: Context) -> None:
        """Get ready to work. An exception here is a failed run that lasted nothing."""

    async def handle(self, message: Any) -> Any:
        """Work on one message. What it returns answers an ask. A subclass may say which messages it takes: `message: Order`."""
        raise NotImplementedError(f"{type(self).__name__} has no 'async def handle(self, message)'")

    async def stopped(self, ctx: Context) -> None:
        """Clean up, however the run ended, also after a failed `started`.

        It runs shielded from cancellation until the stop deadline. An exception here never replaces the run's own.
        """


def run_actor(actor: Actor, ctx: Context) -> Coroutine[Any, Any, None]:
    """One run of `actor`, to be awaited: `started`, messages until a stop, `stopped`."""
    ctx.one_at_a_time = True
    actor.ctx = ctx
    if type(actor).stopped is Actor.stopped:
        return _live(actor, ctx)
    return _live_and_clean_up(actor, ctx)


async def _live_and_clean_up(actor: Actor, ctx: Context) -> None:
    error: Exception | None = None
    try:
        await _live(actor, ctx)
    except Exception as exc:
        error = exc
        raise
    finally:
        limit = ctx.host.stop_deadline()
        if ctx.stopping and limit > trio.current_time():
            limit = inf  # whoever asked for the stop cancels it then, and says so
        with trio.CancelScope(shield=True, deadline=limit) as ctx.cleaning:
            try:
                await actor.stopped(ctx)
            except Exception as second:
                if error is None:
                    raise
                noted(error, f"its stopped() then raised {shown(second)}")


async def _live(actor: Actor, ctx: Context) -> None:  # noqa: C901 - one loop on purpose, see below
    # One coroutine for all of a run's life: each frame less is memory saved for every idle actor, and time for every wake-up.
    if type(actor).started is not Actor.started:
        await actor.started(ctx)
    ctx.host.run_is_set_up()
    box, task = ctx.mailbox, ctx.task
    handle = actor.handle
    nothing = NOTHING
    special = box.office.around is not None or ctx.beat_at is not None
    budget, limit = BATCH, 0.0
    while True:
        if not box.queue:
            if box.waiters:
                box.admit()
            elif ctx.stopping:
                return
            else:
                if box.reader is not None:
                    box.park()  # raises: another task reads it
                box.reader = task
                await wait_task_rescheduled(box.unpark)
                budget, limit = BATCH, 0.0
        queue = box.queue
        box.peak = max(box.peak, len(queue))
        while queue:
            item = queue.popleft()
            if box.waiters:
                box.admit(item)
            if special:
                await _handle_special(actor, ctx, box, item)
            elif not isinstance(item, Letter):
                box.in_hand = item
                await handle(item)
                box.in_hand = nothing
                box.handled += 1
            elif type(item) is Ask:
                if item.task is None:
                    box.skip(item)
                else:
                    box.in_hand = item
                    result = await handle(item.message)
                    if ctx.deferred is None or not ctx.taken_over(item):
                        item.answer(result)
                    box.in_hand = nothing
                    box.handled += 1
            else:
                await _handle_special(actor, ctx, box, item)
            if ctx.stopping and not (ctx.draining and queue):
                return
            budget -= 1
            if not budget & _LOOK:
                now = trio.current_time()
                if not budget or now > (limit or now + BATCH_SECONDS):
                    await checkpoint()
                    budget, limit = BATCH, 0.0
                    break
                limit = limit or now + BATCH_SECONDS


async def _handle_special(actor: Actor, ctx: Context, box: Mailbox, item: object) -> None:
    """An item that is more than a bare message, or any while somebody traces or watches for heartbeats."""
    message = item
    if isinstance(item, Letter):
        if not box.accept(item):
            return
        message = item.message
    else:
        box.in_hand = item
    if ctx.beat_at is not None:
        ctx.heartbeat()
    around = box.office.around
    if around is None:
        result = await actor.handle(message)
    else:
        with around(box, item):
            result = await actor.handle(message)
    if isinstance(item, Ask) and not ctx.taken_over(item):
        item.answer(result)
    box.in_hand = NOTHING
    box.handled += 1
