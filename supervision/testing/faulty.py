"""faulty: a user's own worker, which fails as a plan, a machine or a fault point says.

Theory. A fault comes from outside the worker's own code, at its next checkpoint: its scope is cancelled, and what leaves the run is
the fault instead. So the worker's own clean-up runs, as after a real failure. An actor with a message in hand fails with it; one
that waits gets a message at which its handler raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, cast

import attrs
import trio

from actors.actor import Actor
from actors.context import Context
from actors.letters import Tick
from supervision.specs import Kind as RunKind, Spec, Supervisor, Worker
from supervision.testing.errors import InjectedFault
from supervision.testing.life import Kind, Life, Plan

__all__ = ["GRIPS", "Grip", "Grips", "faulty", "idle"]


class _Order:
    """What a grip sends to an actor."""


class Grip:
    """A hold on one live run: what a machine moves it by."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.path = ctx.path
        self._order: Kind | None = None
        self._scope: trio.CancelScope | None = None

    def crash(self) -> None:
        """Let it fail."""
        self._give(Kind.CRASHES)

    def finish(self) -> None:
        """Let it return."""
        self._give(Kind.RETURNS)

    def hang(self) -> None:
        """Let it do nothing any more."""
        self._give(Kind.HANGS)

    def stop(self) -> None:
        """Let it ask for its own stop."""
        self.ctx.stop()

    def _give(self, order: Kind) -> None:
        if self._order is not None or not self.ctx.alive:
            return
        self._order = order
        if self._scope is not None:
            self._scope.cancel()
        else:
            self.ctx.mailbox.put_anyway(Tick(_Order(), lambda: True))

    async def obey(self) -> None:
        """Do as was ordered, if anything was. Called in the run."""
        order, self._order = self._order, None
        if order is Kind.CRASHES:
            raise InjectedFault(f"{self.path}, run {self.ctx.run}")
        if order is Kind.HANGS:
            await trio.sleep_forever()
        if order is Kind.RETURNS and self.ctx.one_at_a_time:
            self.stop()  # the way in which an actor ends by itself

    async def work(self, fn: Callable[..., Awaitable[object]], argument: object) -> object:
        """Run a function under this grip: what is ordered meanwhile befalls it at its next checkpoint."""
        result: object = None
        if self._order is None:
            with trio.CancelScope() as self._scope:
                result = await fn(argument)
        self._scope = None
        await self.obey()
        return result


class Grips(dict[str, Grip]):
    """The live faulty runs of a sim, by path."""

    def __init__(self) -> None:
        super().__init__()
        self._spoilt: dict[int, tuple[object, int]] = {}

    def spoil(self, message: object, times: int = 1) -> None:
        """Let the handler of any faulty actor fail the first `times` times that it is given this very object."""
        self._spoilt[id(message)] = (message, times)

    def bites(self, message: object) -> bool:
        """True if a handler has to fail at `message` now."""
        _, times = self._spoilt.get(id(message), (None, 0))
        if times:
            self._spoilt[id(message)] = (message, times - 1)
        return times > 0


GRIPS: Final[ContextVar[Grips | None]] = ContextVar("supervision.grips", default=None)
"""Those of the sim that the present code runs in."""


async def idle(ctx: Context) -> None:
    """A worker that gets ready and waits for its stop."""
    ctx.started()
    await trio.sleep_forever()


def faulty(target: Any, plan: Plan | Mapping[str, Plan] | None = None) -> Any:
    """A worker, the whole of a tree, or the body of a worker, made to fail as planned.

    Args:
        target: a `Worker`, a `Supervisor`, or an async function of a context; the same kind comes back.
        plan: the lives of its runs; for a `Supervisor` by path of each worker. Without, it only fails as a machine or a
            `Grip` says.
    """
    if isinstance(target, Supervisor):
        plans = cast("Mapping[str, Plan]", {} if plan is None else plan)
        return _tree(target, target.name, plans)
    if isinstance(plan, Mapping):
        raise TypeError("plans by path are for a Supervisor; give this one a Plan")
    lives = Plan() if plan is None else plan
    if isinstance(target, Worker):
        return attrs.evolve(target, run=_wrapped(target, lives))
    return _function(target, lives)


def _tree(tree: Supervisor, path: str, plans: Mapping[str, Plan]) -> Supervisor:
    children: list[Spec] = []
    for child in tree.children:
        below = f"{path}/{child.name}"
        if isinstance(child, Supervisor):
            children.append(_tree(child, below, plans))
        else:
            children.append(cast(Worker, faulty(child, plans.get(below))))
    return attrs.evolve(tree, children=children)


def _wrapped(worker: Worker, plan: Plan) -> Any:
    run = cast("Callable[..., Any]", worker.run)
    if worker.kind is RunKind.FUNCTION:
        return _function(run, plan)

    def make(*args: Any, **services: Any) -> object:
        made = run(*args, **services)
        return _FaultyActor(made, plan) if isinstance(made, Actor) else _function(made, plan)

    # Services are found by the parameters of what is really made.
    make.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]
    make.__module__ = getattr(run, "__module__", make.__module__)
    return make


def _function(
    fn: Callable[[Context], Awaitable[object]], plan: Plan
) -> Callable[[Context], Awaitable[object]]:
    async def run(ctx: Context) -> None:
        life, grip = plan.life(ctx.run), Grip(ctx)
        _hold(grip)
        try:
            if life.kind is Kind.SLOW:
                await trio.sleep(life.seconds)
            _set_timer(grip, life)
            await grip.work(fn, ctx)
        except trio.Cancelled:
            await _resist(life)  # noqa: ASYNC102 - to resist is its purpose; it shields itself
            raise
        finally:
            _let_go(grip)

    run.__wrapped__ = fn  # type: ignore[attr-defined]  # a job worker has to be known as one
    return run


def _hold(grip: Grip) -> None:
    grips = GRIPS.get()
    if grips is not None:
        grips[grip.path] = grip


def _let_go(grip: Grip) -> None:
    grips = GRIPS.get()
    if grips is not None and grips.get(grip.path) is grip:
        del grips[grip.path]


def _set_timer(grip: Grip, life: Life) -> None:
    """See to it that the life ends as it should."""
    orders: dict[Kind, Callable[[], None]] = {
        Kind.CRASHES: grip.crash,
        Kind.RETURNS: grip.finish,
        Kind.HANGS: grip.hang,
        Kind.CANCELS: grip.stop,
    }
    order = orders.get(life.kind)
    if order is None:
        return
    ctx = grip.ctx
    if life.seconds <= 0:
        order()
    else:
        ctx.mailbox.office.timers.call_at(
            trio.current_time() + life.seconds, lambda: order() if ctx.alive else None
        )


async def _resist(life: Life) -> None:
    """What a cancelled run does before it ends."""
    if life.kind in (Kind.STUBBORN, Kind.UNCLEAN):
        with trio.CancelScope(shield=True):
            await trio.sleep(life.seconds)
    if life.kind is Kind.UNCLEAN:
        raise InjectedFault("in clean-up")


class _FaultyActor(Actor):
    """Any actor, with a grip."""

    def __init__(self, inner: Actor, plan: Plan) -> None:
        self._inner = inner
        self._plan = plan
        self._grip: Grip | None = None

    async def started(self, ctx: Context) -> None:
        life = self._plan.life(ctx.run)
        self._inner.ctx = ctx
        grip = self._grip = Grip(ctx)
        _hold(grip)
        if life.kind is Kind.SLOW:
            await trio.sleep(life.seconds)
        await self._inner.started(ctx)
        _set_timer(grip, life)

    async def handle(self, message: object) -> object:
        grip = self._grip
        assert grip is not None
        if isinstance(message, _Order):
            await grip.obey()
            return None
        grips = GRIPS.get()
        if grips is not None and grips.bites(message):
            raise InjectedFault(f"{grip.path}, run {grip.ctx.run}, at {message!r}")
        return await grip.work(self._inner.handle, message)

    async def stopped(self, ctx: Context) -> None:
        life = self._plan.life(ctx.run)
        if self._grip is not None:
            _let_go(self._grip)
        try:
            await self._inner.stopped(ctx)
        finally:
            if life.kind in (Kind.STUBBORN, Kind.UNCLEAN):
                await trio.sleep(life.seconds)  # noqa: ASYNC102 - `stopped` runs shielded
        if life.kind is Kind.UNCLEAN:
            raise InjectedFault("in clean-up")
