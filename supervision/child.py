"""One replica, and one run of it at a time: scopes, readiness, watchdog, deadline, outcome.

Floor: above member. Theory:

* A replica in backoff has no task. A run has exactly one, in the tree's one shielded nursery, so that nothing but the stop
  order below ever cancels it. A restart without a wait goes on in the same task, in a fresh copy of the tree's context.
* Stopping has three steps. *Ask*: `ctx.stopping`, idle waits end, a run without work in hand is cancelled. *Force*: at the
  deadline it is cancelled whatever it does. *Report*: what is still there then is named with its stack, again and again.
* Whatever ends the run, what belongs to it (timers, names, the message in hand) is settled before anybody is told.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from math import inf
from typing import Final, cast

import trio
from trio.lowlevel import cancel_shielded_checkpoint, current_task

from actors.actor import Actor, run_actor
from actors.clock import Timer
from actors.context import Context
from actors.errors import ActorStopped, HandlerFailed
from actors.letters import NOTHING
from actors.mailbox import Mailbox
from actors.ref import ActorRef, Ref, running
from actors.registry import Registry
from actors.watching import Down, Watches
from supervision.commons import Commons
from supervision.errors import SpecError, StartTimeout, WatchdogExpired
from supervision.events import (
    Abandoned,
    Ended,
    Failed,
    Forced,
    Ready,
    Started,
    StopRequested,
    Stuck,
)
from supervision.member import BY_ITSELF, Member, Parent
from supervision.plan import Ending
from supervision.specs import Kind, Ready as ReadyBy, Worker
from supervision.stacks import await_stack, waits_for_thread
from supervision.states import Phase, State

__all__ = ["Replica"]

REPORT_EVERY: Final = 5.0
"""Seconds between two reports about a run that will not end."""
_SETTLING: Final = 2
"""Turns of the loop that a run gets before it is cancelled as late, and again before it is reported."""


class Replica(Member):
    """One of the replicas of a worker; the host of its runs."""

    __slots__ = (
        "_again",
        "_ending_now",
        "_forced_at",
        "_guard",
        "_in_thread",
        "_killed_by",
        "_reported",
        "ctx",
        "deadline",
        "drains",
        "mailbox",
        "number",
        "scope",
        "task",
    )

    spec: Worker

    def __init__(
        self, tree: Commons, parent: Parent, spec: Worker, path: str, rank: int, number: int
    ) -> None:
        super().__init__(tree, parent, spec, path, rank)
        self.number = number
        self.mailbox = Mailbox(path, spec.mailbox, tree.office)
        if self.switched_off:
            self.mailbox.closed = "disabled"
        self.ctx: Context | None = None
        self.scope: trio.CancelScope | None = None
        self.task: trio.lowlevel.Task | None = None
        self.deadline = inf
        """Until when the run may go on after a stop was asked for."""
        self._again = False
        self._ending_now = False
        self._guard: Timer | None = (
            None  # the one deadline that matters now: start, watchdog, stop or report
        )
        self._killed_by: Exception | None = None
        self._forced_at: float | None = None
        self._in_thread = False
        self._reported = False
        self.drains = False
        """True if this stop shall handle what is queued, whatever its spec says."""

    # -- starting --------------------------------------------------------------------------------

    def start(self, now: float | None = None) -> None:
        spec = self.spec
        self.alive = True
        self.run += 1
        self.cause = None
        self.next_restart = None
        self.ready_at = None
        self.deadline = inf
        self._killed_by = None
        self._forced_at = None
        self._in_thread = self._reported = self.drains = False
        self.become(State.RUNNING, Phase.STARTING, now=now)
        box = self.mailbox
        box.closed = None
        self.ctx = box.run = Context(
            self, box, path=self.path, name=self.name, replica=self.number, run=self.run
        )
        if spec.watchdog is not None:
            # Says that somebody looks for signs of life; before it is ready nobody does.
            self.ctx.beat_at = self.since
        if not self._ending_now or self.scope is None or self.scope.cancel_called:
            self.scope = trio.CancelScope()
        if spec.start_timeout is not None:
            self._watch(self.since + spec.start_timeout, self._start_timed_out)
        self.tree.emit(Started, self.path, self.run)
        if self._ending_now:
            self._again = True  # the task that is just ending the last run goes on with this one
        else:
            self.tree.spawn(self._live, self.path)

    async def _live(self) -> None:
        self.task = task = current_task()
        self._again = True
        while self._again:
            error: Exception | None = None
            scope = self.scope
            assert scope is not None
            try:
                with scope:
                    # One scope serves run after run, for as long as nobody cancels it: a scope for each would be a quarter
                    # of the price of a restart without a wait.
                    while self._again and not scope.cancel_called:
                        ctx = self.ctx
                        assert ctx is not None
                        ctx.task = task
                        running.set(ctx)
                        try:
                            await self._work(ctx)
                            self.mailbox.done()  # it has returned: what it still had in hand is handled
                        except Exception as exc:
                            error = exc
                        if not scope.cancel_called:
                            self._run_is_over(error, scope)
                            error = None
                            if self._again:
                                task.context = self.tree.fresh_context()
                                await cancel_shielded_checkpoint()
            except Exception as exc:
                if self._ending_now:
                    raise  # the library itself has failed: better the tree ends than a replica without a task
                error = exc
            except BaseException as exc:  # noqa: ASYNC103 - a Cancelled that is ours ended in the scope
                if trio.current_effective_deadline() == -inf:
                    raise  # the nursery itself is being torn down
                error = self._sort_out(exc)
            if self._again:
                # The run that was cancelled, or raised what only the scope could sort out.
                self.scope = None  # closed: the next run needs another
                self._run_is_over(error, scope)
                if self._again:
                    task.context = self.tree.fresh_context()
                    await cancel_shielded_checkpoint()
        self.task = self.scope = None

    def _run_is_over(self, error: Exception | None, scope: trio.CancelScope) -> None:
        self._again = False
        self._ending_now = True
        self._ended(Ending.RETURNED if error is None else Ending.FAILED, error, scope)
        self._ending_now = False

    def _work(self, ctx: Context) -> Awaitable[object]:
        """What a run executes, to be awaited. No coroutine of its own, see `actors.actor`."""
        spec = self.spec
        around = self.tree.around_run
        if around is not None:
            return self._run_within(around(ctx), ctx)
        if spec.kind is Kind.FUNCTION:
            self.run_is_set_up()
            return cast("Callable[[Context], Awaitable[object]]", spec.run)(ctx)
        if spec.kind is Kind.ACTOR and self.tree.builder is None:
            return run_actor(cast("Callable[[], Actor]", spec.run)(), ctx)
        return self._build_and_run(ctx)

    async def _run_within(self, around: AbstractContextManager[object], ctx: Context) -> None:
        with around:
            await self._build_and_run(ctx)

    async def _build_and_run(self, ctx: Context) -> None:
        spec = self.spec
        if spec.kind is Kind.FUNCTION:
            self.run_is_set_up()
            await cast("Callable[[Context], Awaitable[object]]", spec.run)(ctx)
            return
        async with self.tree.build(spec, ctx) as made:
            if isinstance(made, Actor):
                await run_actor(made, ctx)
            elif callable(made):
                self.run_is_set_up()
                await cast("Callable[[Context], Awaitable[object]]", made)(ctx)
            else:
                if inspect.iscoroutine(made):
                    made.close()  # it will not run: no warning that it was never awaited
                raise SpecError(
                    f"its factory returned {made!r}, which is neither an Actor nor an async function",
                    where=f"worker {self.name!r}",
                    option="run",
                )

    def _sort_out(self, exc: BaseException) -> Exception | None:
        """What a run's BaseException means: a failure, nothing (a stray Cancelled), or the end of the tree."""
        rest: BaseException | None = exc
        if isinstance(exc, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", exc)
            rest = group.split(trio.Cancelled)[1]
        elif isinstance(exc, trio.Cancelled):
            rest = None
        if rest is None or isinstance(rest, Exception):
            return rest
        self.tree.abort(_first_fatal(rest))
        return None

    # -- the host of a run -----------------------------------------------------------------------

    def run_is_set_up(self) -> None:
        if self.spec.ready is ReadyBy.RUN:
            self.run_is_ready()

    def run_is_ready(self) -> None:
        if self.ready_at is not None or not self.alive:
            return
        now = self.ready_at = self.tree.now()
        if self.cause is not None or self._killed_by is not None:
            return
        self._unwatch()
        self.become(State.RUNNING, Phase.READY)
        self.tree.emit(Ready, self.path, self.run, after=now - self.since)
        if self.spec.watchdog is not None and self.ctx is not None:
            self.ctx.beat_at = now
            self._watch(now + self.spec.watchdog, self._look_for_a_beat)
        self.parent.member_ready(self)

    def run_is_idle(self) -> None:
        if self.cause is not None and self.ctx is not None and not self.ctx.in_work():
            self._cancel("asked to stop, and no work in hand")

    def stop_self(self, run: int) -> None:
        self.tree.call(self._stop_run, run)

    def _stop_run(self, run: int) -> None:
        if run == self.run and self.alive and (self.cause is None or self.comes_again()):
            self.wanted = False
            self.ask(BY_ITSELF)

    def find(self, name: str) -> Ref:
        return self.tree.find(name)

    def stop_deadline(self) -> float:
        return self.tree.now() + self.spec.shutdown if self.cause is None else self.deadline

    @property
    def registry(self) -> Registry:
        return self.tree.registry

    @property
    def watches(self) -> Watches:
        return self.tree.watches

    # -- start timeout and watchdog --------------------------------------------------------------

    def _watch(self, when: float, callback: Callable[[], object]) -> None:
        # A time, not a duration: now + (when - now) may fall short of `when`, and a watcher that then looks again would spin.
        self._unwatch()
        self._guard = self.tree.timers.call_at(when, callback)

    def _unwatch(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

    def _after_turns(self, turns: int, then: Callable[[], object]) -> None:
        self._watch(
            self.tree.now(), (lambda: self._after_turns(turns - 1, then)) if turns else then
        )

    def _last_chance(self, due: float, limit: float, then: Callable[[], object]) -> None:
        """Do `then` unless the run shows up. While somebody held up the loop time went on, and nobody else could do anything."""
        now = self.tree.now()
        self._watch(now + min(now - due, limit), lambda: self._after_turns(_SETTLING, then))

    def _start_timed_out(self) -> None:
        limit = self.spec.start_timeout or 0.0
        late = StartTimeout(self.path, limit)
        self._last_chance(self.since + limit, limit, lambda: self._kill(late))

    def _look_for_a_beat(self, *, last: bool = False) -> None:
        limit, ctx = self.spec.watchdog, self.ctx
        if limit is None or ctx is None or ctx.beat_at is None:
            return
        now = self.tree.now()
        if ctx.one_at_a_time and self.mailbox.in_hand is NOTHING:
            ctx.beat_at = now  # an actor that waits for messages owes no sign of life
        due = ctx.beat_at + limit
        if now < due:
            self._watch(due, self._look_for_a_beat)
        elif last:
            self._kill(WatchdogExpired(self.path, limit, await_stack(self.task)))
        else:
            self._last_chance(due, limit, lambda: self._look_for_a_beat(last=True))

    def _kill(self, error: Exception) -> None:
        """Cancel the run and count it as failed with `error`."""
        if self.ctx is not None and self.ctx.cleaning is not None:
            # How it ended is known, and its clean-up has a limit of its own: only one that outlasts that is worth a word.
            limit = self.ctx.cleaning.deadline + REPORT_EVERY
            if self.tree.now() < limit:
                self._watch(limit, lambda: self._kill(error))
                return
        if self._killed_by is None and self.cause is None:
            self._killed_by = error
            if self.phase is Phase.READY:  # however long it takes to end, it works no more
                self.become(State.RUNNING, Phase.STOPPING)
            self._cancel(str(error))
            self._watch(self.tree.now() + min(self.spec.shutdown, REPORT_EVERY), self._report)

    # -- stopping --------------------------------------------------------------------------------

    def ask(self, why: str) -> None:
        if self.cause is not None or not self.alive or self.ctx is None:
            self.cause = why if self.alive else None
            return
        self.cause = why
        ctx, box = self.ctx, self.mailbox
        now = self.tree.now()
        self.deadline = min(now + self.spec.shutdown, self.tree.deadline)
        ctx.stopping = True
        if ctx.cleaning is not None:
            ctx.cleaning.deadline = inf  # from now on the stop deadline counts
        if (self.spec.mailbox.drain or self.drains) and not self.comes_again() and box.queue:
            ctx.draining = True
            box.refuse("draining")
        self.become(State.RUNNING, Phase.DRAINING if ctx.draining else Phase.STOPPING)
        self.tree.emit(
            StopRequested,
            self.path,
            self.run,
            why=why,
            deadline=self.deadline if self.deadline < inf else None,
        )
        ctx.wake_idle()
        if ctx.one_at_a_time and box.reader is not None and box.reader is self.task:
            box.wake()  # an idle actor: its loop sees that it is stopping; much cheaper than a cancellation
        elif not ctx.in_work():
            self._cancel("asked to stop, and no work in hand")
        if self.deadline < inf:
            self._watch(self.deadline, self._deadline_passed)
        else:
            self._unwatch()

    def _deadline_passed(self) -> None:
        why = f"still there {self.spec.shutdown:g} s after it was asked to stop"
        self._after_turns(_SETTLING, lambda: self.force(why))

    def force(self, why: str) -> None:
        if not self.alive or self._forced_at is not None:
            return
        if self.cause is None:
            self.ask(why)
        if self._killed_by is not None and self.ctx is not None:
            self.ctx.stopping = True
        self._forced_at = self.tree.now()
        self.deadline = min(self.deadline, self._forced_at)
        self.tree.emit(Forced, self.path, self.run, why=why)
        self._cancel(why)
        if self.ctx is not None and self.ctx.cleaning is not None:
            self.ctx.cleaning.cancel(reason=why)
        self._after_turns(_SETTLING, self._report)

    def _cancel(self, why: str) -> None:
        if self.scope is not None:
            if trio.to_thread.current_default_thread_limiter().borrowed_tokens:
                self._in_thread = self._in_thread or waits_for_thread(self.task)
            self.scope.cancel(reason=why)

    @property
    def stuck_on(self) -> Exception | None:
        """Why its run was cancelled as failed, if it has been reported since and still has not ended."""
        return self._killed_by if self.alive and self._reported else None

    def overrun(self, now: float) -> float | None:
        """Seconds since its run was cancelled, if it has been reported since and still has not ended."""
        if not self.alive or not self._reported:
            return None
        return now - (self.since if self._forced_at is None else self._forced_at)

    def _report(self) -> None:
        self._reported = True
        since = (
            self._forced_at if self._forced_at is not None else self.tree.now() - self.spec.shutdown
        )
        self.tree.emit(
            Stuck,
            self.path,
            self.run,
            overrun=self.tree.now() - since,
            stack=await_stack(self.task),
            thread=waits_for_thread(self.task),
        )
        self._watch(self.tree.now() + REPORT_EVERY, self._report)

    def expect(self) -> None:
        if not self.switched_off:
            self.mailbox.closed = None

    def retire(self, why: str) -> None:
        self.mailbox.close(why)
        self.wake()

    # -- the end of a run ------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection  # Ctrl-C comes between two steps of the tree, never into one
    def _ended(self, how: Ending, error: Exception | None, scope: trio.CancelScope) -> None:
        ctx, box, tree = self.ctx, self.mailbox, self.tree
        assert ctx is not None
        self._unwatch()
        if self.cause is not None:
            how = Ending.STOPPED
        elif self._killed_by is not None:
            if error is not None:
                self._killed_by.__context__ = error
            how, error = Ending.FAILED, self._killed_by
        now = tree.now()
        self.alive = False
        self.ctx = box.run = None
        ctx.end()
        failure = error if how is Ending.FAILED else None
        box.run_ended(self.run, error)  # what a handler raises is its answer, during a stop too
        for ask in ctx.deferred or ():
            ask.returned(
                ActorStopped(self.path, ask.message, why="interrupted")
                if failure is None
                else HandlerFailed(self.path, ask.message, error=failure)
            )
        if tree.registry:
            tree.registry.release(ActorRef(box))
        if error is not None:
            self.error = error
        if how is Ending.FAILED:
            tree.emit(Failed, self.path, self.run, error=error, lasted=self.lasted(now))
        else:
            tree.emit(Ended, self.path, self.run, how=how, lasted=self.lasted(now), error=error)
        if self.cause is not None:
            self._report_stop(scope, now)
        if tree.watches:
            tree.watches.announce(
                Down(ref=ActorRef(box), run=self.run, reason=str(how), error=failure)
            )
        self.parent.member_ended(self, how, error, now)

    def _report_stop(self, scope: trio.CancelScope, now: float) -> None:
        abandoned = self._in_thread and not self._reported and scope.cancelled_caught
        if abandoned:
            self.tree.emit(Abandoned, self.path, self.run)
        if self.tree.final:
            overrun = now - self.deadline if self.deadline < inf else 0.0
            self.tree.tally(
                self.path, forced=self._forced_at is not None, abandoned=abandoned, overrun=overrun
            )


def _first_fatal(exc: BaseException) -> BaseException:
    """The KeyboardInterrupt, SystemExit or other fatal error inside a group, itself and not a copy."""
    return next(leaf for leaf in _leaves(exc) if not isinstance(leaf, Exception))


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    if isinstance(exc, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", exc).exceptions:
            yield from _leaves(inner)
    else:
        yield exc
