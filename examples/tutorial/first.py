"""Step 1: a tree of one worker, which does its work and ends."""

from __future__ import annotations

import trio

from actors import Context
from supervision import Supervisor, Worker, supervisor


async def import_orders(ctx: Context) -> None:
    print(f"{ctx.path} is working (run {ctx.run})")
    await trio.sleep(1)
    print("all orders imported")


tree = Supervisor("shop", [Worker("import", import_orders)])


async def main() -> None:
    await supervisor.serve(tree)
    print("the tree is done")


if __name__ == "__main__":
    trio.run(main)
