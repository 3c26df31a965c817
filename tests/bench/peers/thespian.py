"""thespian: actors in one process and one thread (`simpleSystemBase`); no supervisor that restarts.

An actor there is an object without a task. Its multi-process bases are another kind of thing and
far slower a message.
"""

from __future__ import annotations

from thespian.actors import Actor, ActorAddress, ActorExitRequest, ActorSystem

from tests.bench.peers.kit import CpuTime, Memory, main

SILENT = {"version": 1, "handlers": {}, "root": {"level": "CRITICAL"}}


class Echo(Actor):
    """Answers a tuple with what is in it, does nothing with anything else."""

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        if isinstance(message, tuple):
            self.send(sender, message[0])


class Teller(Actor):
    """Sends from inside the system, which is cheaper than from outside."""

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        if isinstance(message, tuple):
            self.asked_by, target, n = sender, *message
            for number in range(n):
                self.send(target, number)
            self.send(target, ("done",))
        elif message == "done":
            self.send(self.asked_by, "done")


def system() -> ActorSystem:
    return ActorSystem("simpleSystemBase", logDefs=SILENT, transientUnique=True)


def tell(n: int) -> float:
    actors = system()
    sink, teller = actors.createActor(Echo), actors.createActor(Teller)
    with CpuTime(n) as spent:
        assert actors.ask(teller, (sink, n), 300) == "done"
    return spent.each


def ask(n: int) -> float:
    actors = system()
    echo = actors.createActor(Echo)
    with CpuTime(n) as spent:
        for number in range(n):
            actors.ask(echo, (number,), 5)
    return spent.each


def life(n: int) -> float:
    actors = system()
    with CpuTime(n) as spent:
        addresses = [actors.createActor(Echo) for _ in range(n)]
        for address in addresses:
            actors.tell(address, ActorExitRequest())
    return spent.each


def memory(n: int) -> float:
    actors = system()
    addresses = [actors.createActor(Echo) for _ in range(10)]
    before = Memory(n)
    addresses += [actors.createActor(Echo) for _ in range(n)]
    return before.each()


if __name__ == "__main__":
    main(globals())
