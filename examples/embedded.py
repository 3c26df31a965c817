"""A tree inside an existing Trio service: the service starts it, asks it, and takes it along when it stops.

The service is a TCP server that answers lines: a name with a ticket number, `health` with what the tree says. Here it also
has a client of its own, so that there is something to see. `--fast` asks less.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import cycle, islice

import trio

from actors import Actor, ActorError, Context
from supervision import Pool, RestartPolicy, Supervisor, Worker, supervisor


class Tickets(Actor):
    """Hands out numbers, and fails on every fourth: its next run goes on with the one after."""

    taken = 0  # on the class, so that it outlives a run; a real one would ask its database

    async def handle(self, message: object) -> str:
        Tickets.taken += 1
        if Tickets.taken % 4 == 0:
            raise RuntimeError(f"ticket {Tickets.taken} is stuck in the printer")
        return f"{message}, your number is {Tickets.taken}"


async def cleaner(ctx: Context) -> None:
    """Work beside: the sleep ends at once when the tree is to stop."""
    try:
        while await ctx.sleep(0.2):
            pass
    finally:
        print("cleaner: stopped in order")


tree = Supervisor(
    "desk",
    [
        Worker("tickets", Tickets, restart=RestartPolicy(max_restarts=0, initial_backoff=0.05)),
        Worker("cleaner", cleaner),
    ],
)


async def answer(pool: Pool, stream: trio.SocketStream) -> None:
    """The service's own code: one connection."""
    async for line in stream:
        name = line.decode().strip()
        if name == "health":
            text = str(pool.health())
        else:
            try:
                text = str(await pool.ref("tickets").ask(name, timeout=2))
            except ActorError as error:
                text = f"sorry, {name}: {error.__cause__ or error}"
        await stream.send_all(f"{text}\n".encode())


async def client(port: int, lines: int) -> None:
    """What the example shows: a few questions."""
    names = cycle(["Ines", "Oskar", "health", "Yuki"])
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for name in islice(names, lines):
            await stream.send_all(f"{name}\n".encode())
            print(f"{name} -> {(await stream.receive_some()).decode().strip()}")
            await trio.sleep(0.1)


async def service(lines: int) -> None:
    async with trio.open_nursery() as nursery:
        # Comes back when every worker is ready. The nursery is the service's own; the signals stay its own as well.
        pool: Pool = await nursery.start(partial(supervisor.serve, tree, log=False))
        listeners: list[trio.SocketListener] = await nursery.start(
            partial(trio.serve_tcp, partial(answer, pool), 0, host="127.0.0.1")
        )
        await client(listeners[0].socket.getsockname()[1], lines)
        # As the service does when it is told to stop. For the tree this is an ordered stop, too.
        nursery.cancel_scope.cancel()
    report = pool.stop_report
    assert report is not None
    print(f"the tree stopped in {report.seconds:.2f} s: {', '.join(report.orderly)}")


if __name__ == "__main__":
    trio.run(service, 7 if "--fast" in sys.argv else 20)
