"""Step 3: a worker that never recovers uses up its limit, and the tree fails with the evidence."""

from __future__ import annotations

import trio

from actors import Context
from supervision import RestartPolicy, Supervisor, TreeFailed, Worker, supervisor


async def poll_prices(ctx: Context) -> None:
    raise ConnectionError(f"{ctx.path} found no route to the price feed")


briefly = RestartPolicy(max_restarts=2, initial_backoff=1, jitter=0)
tree = Supervisor("shop", [Worker("prices", poll_prices, restart=briefly)])


async def main() -> None:
    try:
        await supervisor.serve(tree, log=False)
    except TreeFailed as error:
        print(error)
        for failure in error.failures:
            print(f"  {failure!r} in {', '.join(failure.__notes__)}")


if __name__ == "__main__":
    trio.run(main)
