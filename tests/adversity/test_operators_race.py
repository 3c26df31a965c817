"""Many operators at once on a tree that crashes: every call comes to an end, and the tree to a clean one."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
import trio

from actors import Actor, ActorError, MailboxSpec
from supervision import RestartPolicy, Strategy, SupervisionError, Supervisor, Worker
from tests.adversity.helpers import running

VERBS = ["start", "stop", "restart", "disable", "enable", "remove", "scale", "add", "ask", "tell"]
PLACES = ["a", "f", "in", "b", "t/b/0", "dyn", "x", "y", "t/in/a/1"]
ENDED = {"stopped", "disabled", "failed", "pending"}


class Chaos:
    """A tree of workers that fail at random, and operators who do anything anywhere."""

    def __init__(self, seed: int, strategy: Strategy) -> None:
        self.random = Random(seed)
        keep = RestartPolicy(max_restarts=0, initial_backoff=self.pick(0, 0.3))
        self.keep = keep
        box = MailboxSpec(capacity=self.pick(0, 1, inf), redeliver=1)
        inner = [
            Worker("a", self.actor, restart=keep, mailbox=box, replicas=2),
            Worker("f", self.flaky, restart=keep),
        ]
        children = [
            Supervisor("in", inner, strategy=strategy, restart=keep),
            Worker("b", self.actor, restart=keep, replicas=2),
            Supervisor("dyn", max_children=1),
        ]
        self.tree = Supervisor("t", children, strategy=strategy)

    def pick(self, *choices):
        """One of them."""
        return self.random.choice(choices)

    async def flaky(self, ctx) -> None:
        await ctx.sleep(self.pick(0, 0.1, 0.5, 2))
        if self.pick(True, False):
            with ctx.busy():
                await trio.sleep(self.pick(0, 0.3))
        if self.pick(True, True, False):
            raise OSError
        await trio.sleep_forever()

    def actor(self) -> Actor:
        chaos = self

        class Flaky(Actor):
            async def started(self, ctx) -> None:
                await trio.sleep(chaos.pick(0, 0.2))
                if chaos.random.random() < 0.1:
                    raise OSError

            async def handle(self, message) -> object:
                await trio.sleep(chaos.pick(0, 0.2))
                if chaos.random.random() < 0.2:
                    raise OSError
                return message

        return Flaky()

    async def operate(self, pool) -> None:
        """Do something somewhere; what cannot be done is refused, and some calls are given up."""
        verb, path = self.pick(*VERBS), self.pick(*PLACES)
        with trio.move_on_after(self.pick(0, 0.1, inf)):
            try:
                if verb == "scale":
                    await pool.scale(path, self.random.randrange(4))
                elif verb == "add":
                    run = self.pick(self.flaky, self.actor)
                    spec = Worker(self.pick("x", "y"), run, restart=self.keep)
                    await pool.start_child(self.pick("dyn", "in", "t"), spec)
                elif verb == "ask":
                    await pool.ref(path).ask(1, timeout=3)
                elif verb == "tell":
                    pool.ref(path).tell_nowait(1)
                else:
                    await getattr(pool, verb)(path)
            except (SupervisionError, ActorError):
                pass


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("strategy", list(Strategy))
async def test_operators_race_on_a_crashing_tree(strategy, seed, autojump_clock) -> None:
    """Whatever operators do at once, every call ends, looking never fails, and the stop leaves nothing unaccounted."""
    chaos = Chaos(seed, strategy)

    async def shift(pool) -> None:
        for _ in range(30):
            await trio.sleep(chaos.pick(0, 0, 0.1, 0.3))
            await chaos.operate(pool)
            pool.snapshot()
            pool.health()

    async with running(chaos.tree, random=chaos.random) as pool:
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(shift, pool)
        report = await pool.shutdown()

    assert report.seconds < 2
    for worker in pool.workers():
        box = worker.mailbox
        assert worker.state in ENDED
        assert box.queued == box.in_hand == box.waiting == 0
        assert box.sent == box.handled + box.rejected + box.dropped + box.dead_lettered
