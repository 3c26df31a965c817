"""Actor: the handler class, and its receive loop.

Floor: the highest of this package's core. Theory of the loop: it drains what is queued, one message at a time, and lets
other tasks run after a bounded batch (count and time), instead of one scheduler pass a message. A stop is seen between
messages; a cancellation only by a handler that waits, or between batches.
"""

from __future__ import annotations

from typing import Final

import trio
from trio.lowlevel import checkpoint

from actors.context import Context
from actors.mailbox import NOTHING, Letter, Mailbox
from actors.ref import Ask

__all__ = ["Actor", "run_actor"]

BATCH: Final = 128
"""Messages handled before other tasks get a turn."""
BATCH_SECONDS: Final = 0.005
"""Time after which they get it anyway, looked at every `_LOOK` messages."""
_LOOK: Final = 16


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

    async def handle(self, message: object) -> object:
        """Work on one message. What it returns answers an ask."""
        raise NotImplementedError(f"{type(self).__name__} has no 'async def handle(self, message)'")

    async def stopped(self, ctx: Context) -> None:
        """Clean up, however the run ended, also after a failed `started`.

        It runs shielded from cancellation until the stop deadline. An exception here never replaces the run's own.
        """


async def run_actor(actor: Actor, ctx: Context) -> None:
    """One run of `actor`: `started`, messages until a stop, `stopped`."""
    ctx.one_at_a_time = True
    actor.ctx = ctx
    kind = type(actor)
    if kind.stopped is Actor.stopped:
        await _live(actor, kind, ctx)
        return
    try:
        await _live(actor, kind, ctx)
    except BaseException as error:
        await _clean_up(actor, ctx, error)
        raise
    await _clean_up(actor, ctx, None)


async def _live(actor: Actor, kind: type[Actor], ctx: Context) -> None:
    if kind.started is not Actor.started:
        await actor.started(ctx)
    ctx.host.run_is_set_up()
    await _receive(actor, ctx, ctx.mailbox)


async def _clean_up(actor: Actor, ctx: Context, error: BaseException | None) -> None:
    with trio.CancelScope(shield=True, deadline=ctx.host.stop_deadline()):
        try:
            await actor.stopped(ctx)
        except Exception as second:
            if not isinstance(error, Exception):
                raise
            error.add_note(f"its stopped() then raised {second!r}")


async def _receive(actor: Actor, ctx: Context, box: Mailbox) -> None:
    handle = actor.handle
    queue = box.queue
    around = box.office.around
    while True:
        if not queue and not box.waiters:
            if ctx.stopping:
                return
            await box.wait()
        budget = BATCH
        limit = trio.current_time() + BATCH_SECONDS
        if len(queue) > box.peak:
            box.peak = len(queue)
        while queue or box.waiters:
            item = queue.popleft() if queue and not box.waiters else box.take()
            if item.__class__ is Ask or isinstance(item, Letter) or around is not None:
                await _handle_letter(actor, ctx, box, item)
            elif item is not NOTHING:
                box.in_hand = item
                if ctx.beat_at is not None:
                    ctx.heartbeat()
                await handle(item)
                box.in_hand = NOTHING
                box.handled += 1
            if ctx.stopping and not (ctx.draining and queue):
                return
            budget -= 1
            if not budget or (not budget % _LOOK and trio.current_time() > limit):
                await checkpoint()
                break


async def _handle_letter(actor: Actor, ctx: Context, box: Mailbox, item: object) -> None:
    """An item that is more than a bare message, or a bare one while somebody traces."""
    if isinstance(item, Letter):
        if box.in_hand is not item:
            if not box.accept(item):
                return
        message = item.message
    else:
        if item is NOTHING:
            return
        box.in_hand = item
        message = item
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
    box.done()
