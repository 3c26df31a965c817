"""Step 4: an actor takes messages, answers questions, and starts afresh after a crash."""

from __future__ import annotations

import trio
from attrs import frozen

from actors import Actor, Context, HandlerFailed
from supervision import RestartPolicy, Supervisor, Worker, supervisor


@frozen
class Add:
    sku: str
    pieces: int


@frozen
class Count:
    sku: str


class Stock(Actor):
    async def started(self, ctx: Context) -> None:
        self.pieces: dict[str, int] = {}
        print(f"stock is open (run {ctx.run})")

    async def handle(self, message: object) -> object:
        match message:
            case Add(sku, pieces):
                self.pieces[sku] = self.pieces.get(sku, 0) + pieces
                return None
            case Count(sku):
                return self.pieces.get(sku, 0)
        raise TypeError(f"stock does not know {message!r}")


again_soon = RestartPolicy(initial_backoff=0.5, jitter=0)
tree = Supervisor("shop", [Worker("stock", Stock, restart=again_soon)])


async def main() -> None:
    async with supervisor.running(tree, log=False) as pool:
        stock = pool.ref("stock")
        await stock.tell(Add("teapot", 3))
        await stock.tell(Add("teapot", 2))
        print("teapots:", await stock.ask(Count("teapot")))

        try:
            await stock.ask("what is this?")
        except HandlerFailed as error:
            print("failed:", error.__cause__)

        # The address is the same, and a question waits for the next run.
        print("teapots:", await stock.ask(Count("teapot")))


if __name__ == "__main__":
    trio.run(main)
