"""Commons: what all parts of one running tree share.

Floor: below the parts that share it. The rule: it holds things, and knows neither children nor supervisors; what only the whole
tree can do is left to `tree.Tree`, which is the one that is ever made.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress
from functools import partial
from math import inf
from random import Random
from typing import cast

import trio

from actors.context import Context
from actors.office import Office
from actors.ref import Ref
from actors.registry import Registry
from actors.watching import Watches
from supervision.specs import Worker

__all__ = ["Commons"]


class Commons:
    """The shared parts: events, timers, names, time, jitter, and where tasks are started."""

    def __init__(self, *, strict: bool, random: Random) -> None:
        self.strict = strict
        """True if a failing first start anywhere rolls everything back."""
        self.random = random
        self.office = Office()
        self.events = self.office.events
        self.timers = self.office.timers
        self.letters = self.office.letters
        self.registry = Registry()
        self.watches = Watches()
        self.builder: Callable[[Worker, Context], AbstractAsyncContextManager[object]] | None = None
        """Makes what a run executes, if services are injected."""
        self.around_run: Callable[[Context], AbstractContextManager[object]] | None = None
        """Wraps each run, if somebody traces."""
        self.base = contextvars.copy_context()
        self.nursery: trio.Nursery | None = None
        self._token = trio.lowlevel.current_trio_token()
        self.emit: Callable[..., None] = self.events.emit
        self.now: Callable[[], float] = trio.current_time
        self.deadline = inf
        """Until when the whole tree may take to stop."""
        self.final = False
        """True once the whole tree has begun to stop, asked or not: nothing will be started again."""

    def spawn(self, fn: Callable[[], Awaitable[object]], name: str) -> None:
        """Start a task of a run, in the context the tree was started in, not in that of whoever asks."""
        assert self.nursery is not None
        self.base.run(partial(self.nursery.start_soon, fn, name=name))

    def call(self, fn: Callable[..., object], *args: object) -> None:
        """Call `fn` now; from another thread, or another run of Trio, as soon as this one comes to it."""
        try:
            here = trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:
            here = False
        if here:
            fn(*args)
            return
        with suppress(trio.RunFinishedError):  # then the tree has ended
            self._token.run_sync_soon(fn, *args)

    def fresh_context(self) -> contextvars.Context:
        """A copy of the context the tree was started in."""
        return self.base.copy()

    def build(self, spec: Worker, ctx: Context) -> AbstractAsyncContextManager[object]:
        """What a run of `spec` executes: made by its class or factory, with services if there are any."""
        if self.builder is not None:
            return self.builder(spec, ctx)
        make = cast("Callable[[], object]", spec.run)
        return nullcontext(make())

    # -- what the whole tree does ----------------------------------------------------------------

    def find(self, name: str) -> Ref:
        """The address of an actor by path, name or registered name."""
        raise NotImplementedError

    def abort(self, fatal: BaseException) -> None:
        """Stop in order because of an error that is nobody's to handle."""
        raise NotImplementedError

    def tally(self, path: str, *, forced: bool, abandoned: bool, overrun: float) -> None:
        """Note how one replica's stop went."""
        raise NotImplementedError
