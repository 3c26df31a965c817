"""Step 5: three replicas of one worker share the load behind one address."""

from __future__ import annotations

import trio

from actors import Actor, Context, Routing
from supervision import Supervisor, Worker, supervisor


class Packer(Actor):
    async def started(self, ctx: Context) -> None:
        self.replica = ctx.replica

    async def handle(self, message: object) -> object:
        await trio.sleep(1)
        return f"{message} packed by replica {self.replica}"


tree = Supervisor("shop", [Worker("packers", Packer, replicas=3)])


async def main() -> None:
    async with supervisor.running(tree, log=False) as pool:
        answers: list[object] = []

        async def pack(parcel: str) -> None:
            answers.append(await packers.ask(parcel))

        begin = trio.current_time()
        packers = pool.ref("packers")
        async with trio.open_nursery() as nursery:
            for number in range(1, 4):
                nursery.start_soon(pack, f"parcel {number}")
        print(f"{len(answers)} parcels in {trio.current_time() - begin:.0f} s")

        # The same customer is always served by the same replica.
        by_customer = pool.router("packers", Routing.BY_KEY, key=str)
        first, second = [await by_customer.ask("anna") for _ in range(2)]
        print("same replica:", first == second)


if __name__ == "__main__":
    trio.run(main)
