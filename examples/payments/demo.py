"""The demonstration around the payment worker: a tree whose workers are processes, and one that kills them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import islice
from random import Random

import attrs

from actors import Context
from actors.jobs import NewJob
from examples.payments.board import Board
from examples.payments.books import Books
from examples.payments.orders import Line, read
from examples.payments.program import Program
from examples.payments.settings import Settings
from supervision import RestartPolicy, Supervisor, Worker

__all__ = ["Demo"]


@attrs.frozen
class Demo:
    """What runs, and until when."""

    settings: Settings
    books: Books
    board: Board

    def tree(self) -> Supervisor:
        """Processes and what belongs to them. The stop is in reverse: the offices drain while the provider still answers."""
        s = self.settings
        patient = RestartPolicy(
            type="permanent",
            max_restarts=0,
            initial_backoff=s.backoff,
            max_backoff=4 * s.backoff,
            reset_after=3,
        )
        return Supervisor(
            "demo",
            [
                Worker(
                    "provider",
                    Program(s, self.board, "provider"),
                    ready="signal",
                    start_timeout=30,
                    restart=patient,
                    shutdown=3,
                ),
                Worker("intake", self.intake),
                Worker("watch", self.watch),
                Worker(
                    "office",
                    Program(s, self.board, "office"),
                    replicas=s.processes,
                    ready="signal",
                    start_timeout=30,
                    restart=patient,
                    shutdown=14,
                ),
                Worker("chaos", self.chaos, enabled=s.chaos),
                Worker("closing", self.closing, significant=True),
            ],
            auto_shutdown="any_significant",
        )

    async def intake(self, ctx: Context) -> None:
        """Enqueue the file, some hundred lines in a transaction; what an earlier run has enqueued is found to be there."""
        for lines in _batches(read(self.settings.csv), 250):
            await self.books.engine.run(self.books.place, lines)
            self.books.engine.wake("charge")
            if not await ctx.sleep(0.02):
                return

    async def watch(self, ctx: Context) -> None:
        """Look how far it is."""
        while await ctx.sleep(0.25):
            self.board.numbers = await self.books.numbers()

    async def chaos(self, ctx: Context) -> None:
        """Kill, without a warning and at some points of the way, a process that works on payments; once the database."""
        random = Random(f"chaos {self.settings.seed}")
        shares = [(share, self._kill) for share in self.settings.kills]
        if self.board.crash is not None:
            shares.append((sum(self.settings.kills) / len(shares) + 0.1, self._crash))
        before = self._share()  # so far came an earlier run of the program
        for share, strike in sorted(shares, key=lambda pair: pair[0]):
            if share < before:
                continue
            while self._share() < share:
                if not await ctx.sleep(0.05):
                    return
            strike(random)

    def _kill(self, random: Random) -> None:
        offices = sorted(path for path in self.board.pids if "/office/" in path)
        if offices:
            victim = random.choice(offices)
            self.board.counts["kills"] += 1
            self.board.happened(victim, "is killed with SIGKILL, in the middle of its work")
            os.kill(self.board.pids[victim], signal.SIGKILL)

    def _crash(self, _: Random) -> None:
        if self.board.crash is not None:
            self.board.counts["crashes"] += 1
            self.board.happened("database/server/0", "is killed, as by a power cut")
            self.board.crash()

    def _share(self) -> float:
        return self.board.numbers.settled / max(1, self.board.orders)

    async def closing(self, ctx: Context) -> None:
        """Wait until every order is settled, then have the provider's statement read to its end. Its end is that of the tree."""
        while self.board.numbers.settled < self.board.orders:
            if not await ctx.sleep(0.1):
                return
        job = await self.books.engine.enqueue(NewJob("reconcile", retries=25, priority=1))
        while (await self.books.engine.find(job.key)).state not in ("completed", "incident"):
            if not await ctx.sleep(0.1):
                return


def _batches(lines: Iterator[Line], size: int) -> Iterator[list[Line]]:
    while batch := list(islice(lines, size)):
        yield batch
