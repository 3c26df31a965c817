"""Code for trees that the checklist looks at: good and bad habits, none of it is ever run."""

from __future__ import annotations

import subprocess
import time
from functools import partial

import trio

from actors import Actor
from actors.jobs import JobWorker, job_worker
from actors.resilience import non_idempotent
from supervision import RestartPolicy, Supervisor, Worker
from supervision.checklist import examine
from tests.checklist import downstreams as to


def one(run, **options) -> Supervisor:
    """A tree of one worker."""
    return Supervisor("shop", [Worker("work", run, **options)])


def some(*children, **options) -> Supervisor:
    """A tree of these."""
    return Supervisor("shop", children, **options)


def codes(tree: Supervisor, **options) -> list[str]:
    """The codes of what is found in a tree."""
    return [finding.code for finding in examine(tree, **options).findings]


AT_ONCE = RestartPolicy(initial_backoff=0)
ENDLESS = RestartPolicy(max_restarts=0, initial_backoff=0)
SLOW = RestartPolicy(max_restarts=10)
ONCE = RestartPolicy(max_restarts=1)


async def idle(ctx):
    await ctx.sleep(float("inf"))


# -- calls to others -------------------------------------------------------------------------------


async def charge(order, idempotency_key=None):
    pass


async def get_price(order):
    pass


@non_idempotent
async def ship(order, idempotency_key=None):
    pass


def calling(dependency):
    async def run(ctx):
        await dependency.call(charge, 1, idempotency_key="a")

    return run


async def names_it(ctx):
    await to.timeless.call(charge, 1)


class Till(Actor):
    async def handle(self, message):
        await self.pay(message)

    async def pay(self, order):
        await to.timeless.call(charge, order)


class Clerk:
    def __init__(self, bank):
        self.bank = bank

    async def __call__(self, ctx):
        await self.bank.call(charge, 1)

    async def run(self, ctx):
        pass


class NotThere:
    """A stand-in for something that is not there yet, as frameworks have them."""

    def __getattribute__(self, name):
        raise RuntimeError("there is no request now")


current = NotThere()


async def leans_on_nothing(ctx):
    await current.call(charge)
    await to.timeless.call(charge, 1)


@to.timeless
async def decorated(order):
    pass


async def calls_decorated(ctx):
    await decorated(1)


async def without_key(ctx):
    await to.repeating.call(charge, 1)


async def with_key(ctx):
    await to.repeating.call(charge, 1, idempotency_key="order 1")


async def only_reads(ctx):
    await to.repeating.call(get_price, 1)


async def refused(ctx):
    await to.careful.call(get_price, 1)


@to.repeating
async def pay(order, idempotency_key=None):
    pass


async def pays_without_key(ctx):
    await pay(1)


async def pays_with_key(ctx):
    await pay(1, idempotency_key="order 1")


# -- the event loop --------------------------------------------------------------------------------


async def sleeps(ctx):
    time.sleep(1)


async def sleeps_inside(ctx):
    import time as clock

    clock.sleep(1)


def helper():
    subprocess.run(["true"])


async def by_helper(ctx):
    helper()


async def in_a_thread(ctx):
    await trio.to_thread.run_sync(time.sleep, 1)
    await trio.to_thread.run_sync(helper)
    await trio.to_thread.run_sync(lambda: time.sleep(1))


class Sleepy(Actor):
    async def handle(self, message):
        input()


class Saving(Actor):
    async def handle(self, message):
        self.save()
        await trio.to_thread.run_sync(self.later)

    def save(self):
        time.sleep(1)

    def later(self):
        pass


class SavingElsewhere(Saving):
    def save(self):
        pass

    def later(self):
        time.sleep(1)


# -- jobs ------------------------------------------------------------------------------------------


def jobs(**options) -> JobWorker:
    """A job worker that is in order but for `options`."""
    return JobWorker("charge", handler, **{"fetch_variables": ["order"], **options})


async def handler(job, ctx):
    pass


@job_worker("charge", fetch_variables=["order"], renew=False, timeout=8)
async def slow_handler(job, ctx):
    await to.repeating.call(charge, 1, idempotency_key=job.key)


@job_worker("charge", fetch_variables=["order"], renew=False, timeout=30)
async def quick_handler(job, ctx):
    await to.repeating.call(charge, 1, idempotency_key=job.key)


PARTIAL = partial(calling(to.timeless))
