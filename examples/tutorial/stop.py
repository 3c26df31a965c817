"""Step 6: a stop waits for work in hand, and ends idle waits at once."""

from __future__ import annotations

import trio

from actors import Actor, Context
from supervision import Supervisor, Worker, supervisor


class Printer(Actor):
    async def handle(self, message: object) -> object:
        print(f"printing {message}")
        await trio.sleep(3)
        print(f"printed {message}")
        return None

    async def stopped(self, ctx: Context) -> None:
        print(f"the printer is off (run {ctx.run})")


async def clean_up(ctx: Context) -> None:
    while await ctx.sleep(3600):
        print("an hour has passed")
    print("no cleaning today")


tree = Supervisor("office", [Worker("printer", Printer), Worker("cleaner", clean_up)])


async def main() -> None:
    async with supervisor.running(tree, log=False) as pool:
        await pool.ref("printer").tell("the annual report")
        await trio.sleep(1)
        report = await pool.shutdown()
        print(f"stopped in {report.seconds:.0f} s, forced: {list(report.forced)}")


if __name__ == "__main__":
    trio.run(main)
