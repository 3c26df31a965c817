"""Watching: who is told, wherever the watched one is."""

from __future__ import annotations

import trio

from actors import Down
from supervision import Supervisor, Worker, supervisor


async def test_a_watch_reaches_into_another_tree(autojump_clock) -> None:
    """The end of a run is told to whoever watches it, also from another tree of the process."""
    seen: list[Down] = []

    async def brief(ctx) -> None:
        await trio.sleep(1)

    async def idle(ctx) -> None:
        await trio.sleep_forever()

    async def look(ctx) -> None:
        for ref in watched:
            ctx.watch(ref)
        async for message in ctx.mailbox:
            seen.append(message)

    one = Supervisor("one", [Worker("brief", brief), Worker("idle", idle)])
    two = Supervisor("two", [Worker("look", look), Worker("idle", idle)])
    async with supervisor.running(one, log=False) as pool:
        watched = [pool.ref("brief"), pool.ref("idle")]
        async with supervisor.running(two, log=False):
            await trio.sleep(2)
            assert [(down.ref.path, down.reason) for down in seen] == [("one/brief/0", "returned")]
            await pool.shutdown()
            await trio.sleep(1)

    assert [(down.ref.path, down.reason) for down in seen[1:]] == [("one/idle/0", "stopped")]
