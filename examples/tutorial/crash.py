"""Step 2: a worker that fails twice is started again, each time after a longer wait."""

from __future__ import annotations

import trio

from actors import Context, Event
from supervision import RestartPolicy, Supervisor, Worker, supervisor


async def poll_prices(ctx: Context) -> None:
    await trio.sleep(2)
    if ctx.run < 3:
        raise ConnectionError("the price feed hung up")
    print("prices are in")


def show(event: Event) -> None:
    if event.level in ("warning", "error"):
        print(event.sentence())


patient = RestartPolicy(max_restarts=5, initial_backoff=1, max_backoff=30, jitter=0)
tree = Supervisor("shop", [Worker("prices", poll_prices, restart=patient)])


async def main() -> None:
    begin = trio.current_time()
    await supervisor.serve(tree, listeners=[show], log=False)
    print(f"done after {trio.current_time() - begin:.0f} s")


if __name__ == "__main__":
    trio.run(main)
