"""pykka: actors that are threads; no supervisor."""

from __future__ import annotations

import threading
import time

import pykka

from tests.bench.peers.kit import CpuTime, Memory, main


class Idle(pykka.ThreadingActor):
    """Takes messages and does nothing with them."""

    def on_receive(self, message: object) -> object:
        return message


def tell(n: int) -> float:
    ref = Idle.start()
    with CpuTime(n) as spent:
        for number in range(n):
            ref.tell(number)
        ref.ask(None)
    ref.stop()
    return spent.each


def ask(n: int) -> float:
    ref = Idle.start()
    with CpuTime(n) as spent:
        for number in range(n):
            ref.ask(number)
    ref.stop()
    return spent.each


def life(n: int) -> float:
    with CpuTime(n) as spent:
        for _ in range(n):
            Idle.start()
        pykka.ActorRegistry.stop_all()
    return spent.each


def memory(n: int) -> float:
    for _ in range(10):
        Idle.start()
    before = Memory(n)
    for _ in range(n):
        Idle.start()
    while threading.active_count() < n:
        time.sleep(0.01)
    return before.each()


if __name__ == "__main__":
    main(globals())
