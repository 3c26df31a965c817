"""A worker that crashes twice, and an actor that answers."""

import logging

import trio

from actors import Actor
from supervision import Supervisor, Worker, supervisor


async def feed(ctx):
    await ctx.sleep(0.3)
    if ctx.run < 3:
        raise ConnectionError("the feed hung up")


class Greeter(Actor):
    async def handle(self, message):
        return f"hello, {message}"


tree = Supervisor("app", [Worker("feed", feed), Worker("greeter", Greeter, replicas=2)])


async def main():
    async with supervisor.running(tree) as pool:
        print(await pool.ref("greeter").ask("world"))
        await pool.wait_state("feed", "stopped")  # its third run comes to its end


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(levelname)-7s %(message)s")
    trio.run(main)
