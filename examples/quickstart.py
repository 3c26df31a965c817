"""A worker that crashes twice, and an actor that answers."""

import logging

import trio

from actors import Actor
from supervision import RestartPolicy, Supervisor, Worker, supervisor


async def feed(ctx):
    await ctx.sleep(0.3)
    if ctx.run < 3:
        raise ConnectionError("the feed hung up")


class Greeter(Actor):
    async def handle(self, message):
        return f"hello, {message}"


tree = Supervisor("app", [
    Worker("feed", feed, restart=RestartPolicy(max_restarts=5, initial_backoff=0.2)),
    Worker("greeter", Greeter, replicas=2),
])  # fmt: skip


async def main():
    async with supervisor.running(tree) as pool:
        print(await pool.ref("greeter").ask("world"))
        await pool.wait_state("feed", "stopped")  # its third run comes to its end
        print(pool.info("feed").restarts, "restarts;", pool.health())


logging.basicConfig(level="INFO", format="%(levelname)-7s %(message)s")
trio.run(main)
