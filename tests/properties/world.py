"""A tree of puppets that a test moves by hand, and what must hold of it whenever every task waits.

The oracle judges the tree's own records and the puppets' lives against each other; it has no second implementation of restarts
in it. What is promised for ever, such as one run of a replica at a time, is checked where it would break.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress
from random import Random

import trio
from hypothesis import note

from supervision import Pool, RestartPolicy, Supervisor, TreeFailed, Worker, supervisor
from supervision.events import (
    Ended,
    Failed,
    RestartScheduled,
    Started,
    StopRequested,
    TreeStopped,
)
from supervision.testing import Pending, Schedule, Sim
from tests.properties.watched import watched_states

STOP_TIMEOUT = 4.0


class Boom(Exception):
    """How puppets fail."""


class Puppet:
    """One run of one replica: does what it is told, and dies as slowly as it is told."""

    def __init__(self, ctx) -> None:
        self.ctx = ctx
        self.path: str = ctx.path
        self.order: str | None = None
        self.news = trio.Event()

    def tell(self, order: str) -> None:
        self.order = order
        self.news.set()

    async def live(self) -> None:
        while True:
            await self.news.wait()
            self.news = trio.Event()
            if self.order == "crash":
                raise Boom(self.path)
            if self.order == "return":
                return
            if self.order == "ready":
                self.ctx.started()
            if self.order == "stop":
                self.ctx.stop()
            if self.order == "beat":
                self.ctx.heartbeat()
            if self.order == "receive":
                with suppress(trio.WouldBlock):
                    self.ctx.mailbox.receive_nowait()


class World:
    """A running tree, its puppets, and its records."""

    def __init__(
        self,
        tree: Supervisor,
        *,
        linger: float = 0.0,
        start: str | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self.tree = tree
        self.linger = linger
        """Seconds for which each puppet shields itself when it is cancelled."""
        self.sim = Sim(schedule=schedule)
        self.tasks = trio.lowlevel.current_statistics().tasks_living
        """Tasks of the run while nothing of the test's is in it."""
        self.alive: dict[str, Puppet] = {}
        self.events: list = []
        self.calls: list[tuple[str, Pending]] = []
        self.pool: Pool | None = None
        self.start = start
        self.faults: list[str] = []
        """What broke a promise inside a run, where an exception would only be one more failure of a child."""
        self._judged = 0
        self._stack = ExitStack()
        self._illegal = self._stack.enter_context(watched_states())
        self.served = self.sim.start(self._serve)

    async def _serve(self) -> None:
        def keep(pool: Pool) -> None:
            self.pool = pool
            pool._tree.events.tap(self.events.append)

        class Status:
            started = staticmethod(keep)

        try:
            await supervisor.serve(
                self.tree,
                stop_timeout=STOP_TIMEOUT,
                wait_ready=False,
                log=False,
                telemetry=False,
                signals=False,
                random=Random(0),
                start=self.start,
                task_status=Status(),
            )
        except TreeFailed:
            pass

    async def body(self, ctx) -> None:
        """What every worker of the tree runs."""
        if ctx.path in self.alive:
            self.faults.append(f"two runs of {ctx.path} at once")
        me = self.alive[ctx.path] = Puppet(ctx)
        try:
            await me.live()
        except trio.Cancelled:
            if self.linger:
                with trio.CancelScope(shield=True):
                    await trio.sleep(self.linger)
            raise
        finally:
            del self.alive[ctx.path]

    # -- moving it -------------------------------------------------------------------------------

    def go(self, what: str, fn, *args) -> Pending:
        """Put an operator's call in flight; whatever happens, it must end with the tree."""
        call = self.sim.start(fn, *args)
        self.calls.append((what, call))
        return call

    def finish(self) -> None:
        """Stop the tree, wait as long as that may take, and check that nothing is left."""
        assert self.pool is not None
        self.pool.request_stop("the test has ended")
        self.sim.settle()
        self.judge()
        self.sim.advance(STOP_TIMEOUT + 2 * self.linger + 1.0)
        self.judge()
        assert self.served.done, f"serve has not ended: {self.pool!r}, alive: {list(self.alive)}"
        self.served.value()
        assert not self.alive
        assert trio.lowlevel.current_statistics().tasks_living == self.tasks + len(
            [call for _, call in self.calls if not call.done]
        )
        waiting = [what for what, call in self.calls if not call.done]
        assert not waiting, f"still waiting after the tree has ended: {waiting}"
        assert trio.lowlevel.current_statistics().tasks_living == self.tasks
        assert all(w.state not in ("running", "restarting", "pending") for w in self.pool.workers())

    def close(self) -> None:
        self.linger = 0.0
        try:
            self.sim.close()
        finally:
            self._stack.close()

    # -- judging it ------------------------------------------------------------------------------

    def judge(self) -> None:
        """Everything that must hold while every task waits."""
        if self.pool is None:
            return
        try:
            self._judge()
        except AssertionError:
            for event in self.events:
                note(f"{event.time:7.3f} {event.sentence()}")
            for info in (*self.pool.supervisors(), *self.pool.workers()):
                note(f"{info.path} {info.state} {info.phase} run {info.run}")
            raise

    def _judge(self) -> None:
        if self.served.done:
            self.served.value()
        assert self.faults == []
        assert self._illegal == []
        for event in self.events[self._judged :]:
            self._judge_event(event)
        self._judged = len(self.events)
        self._judge_states()
        self._judge_calls()
        self.sim.judge()

    def _judge_event(self, event) -> None:
        if isinstance(event, Started):
            stop = next(
                (e for e in self.events if type(e) is StopRequested and e.path == self.tree.name),
                None,
            )
            assert stop is None or event.seq < stop.seq, f"{event} after the tree was asked to stop"
        if isinstance(event, RestartScheduled) and event.limit:
            assert 1 <= event.attempt <= event.limit, event
        if isinstance(event, Ended | Failed) and self._is_replica(event.path):
            asked = next(
                (
                    e
                    for e in reversed(self.events[: self.events.index(event)])
                    if e.path == event.path and isinstance(e, StopRequested | Started)
                ),
                None,
            )
            if isinstance(asked, StopRequested) and asked.deadline is not None:
                assert event.time <= asked.deadline + self.linger, (asked, event)
        if isinstance(event, TreeStopped):
            assert event is self.events[-1], f"{self.events[-1]} after the tree has stopped"

    def _is_replica(self, path: str) -> bool:
        return path.rpartition("/")[2].isdigit()

    def _judge_states(self) -> None:
        assert self.pool is not None
        shown = {worker.path: worker for worker in self.pool.workers()}
        running = {path for path, worker in shown.items() if worker.state == "running"}
        assert running == set(self.alive), f"shown as running {running}, alive {set(self.alive)}"
        now = self.sim.now
        busy = {e.path for e in self.pool.supervisors() if e.phase in ("starting", "stopping")}
        up = {e.path for e in self.pool.supervisors() if e.state == "running"}
        for worker in shown.values():
            parent = worker.path.rpartition("/")[0].rpartition("/")[0]
            if worker.state in ("running", "restarting"):
                assert parent in up, f"{worker.path} is {worker.state}, its supervisor is not up"
            if worker.state == "restarting":
                assert worker.next_restart is not None, f"{worker.path} waits for nothing"
                if worker.next_restart <= now:
                    assert self._changing(parent, shown) or parent in busy, (
                        f"lost restart: {worker}"
                    )
            if worker.state == "pending" and parent in up:
                assert self._changing(parent, shown) or parent in busy, f"lost start: {worker}"

    def _changing(self, parent: str, shown: dict) -> bool:
        """True if something below `parent` is on its way up or down, for which others wait."""
        assert self.pool is not None
        everybody = [*shown.values(), *self.pool.supervisors()]
        return any(
            one.path.startswith(f"{parent}/") and one.phase in ("starting", "stopping", "draining")
            for one in everybody
        ) or any(
            one.path.startswith(f"{parent}/")
            and one.state == "restarting"
            and one.next_restart
            and one.next_restart > self.sim.now
            for one in everybody
        )

    def _judge_calls(self) -> None:
        for what, call in self.calls:
            error = call.error
            assert error is None or not isinstance(error, UNEXPECTED), f"{what}: {error!r}"


UNEXPECTED = (AssertionError, AttributeError, KeyError, IndexError, TypeError)
"""What no operator's call may ever raise."""


class Declared:
    """A spec that shows itself in a few lines, which hypothesis prints for each failure."""

    def __init__(self, spec) -> None:
        self.spec = spec

    def __repr__(self) -> str:
        return "\n" + outline(self.spec)


def outline(spec, depth: int = 0) -> str:
    """What matters of a tree, a line each."""
    policy, pad = spec.restart, "  " * depth
    own = f"{spec.name} {policy.type} max={policy.max_restarts} backoff={policy.initial_backoff}"
    if isinstance(spec, Worker):
        return (
            f"{pad}{own} x{spec.replicas} {spec.on_failed} shutdown={spec.shutdown}"
            f" ready={spec.ready} watchdog={spec.watchdog} enabled={spec.enabled}"
        )
    head = f"{pad}{own} {spec.strategy} {spec.intensity}/{spec.period} {spec.auto_shutdown}"
    return "\n".join([f"{head} {spec.on_failed}", *(outline(c, depth + 1) for c in spec.children)])


def check_account(mail) -> None:
    """Every message that was ever offered is somewhere."""
    parts = Counter(
        handled=mail.handled,
        rejected=mail.rejected,
        dropped=mail.dropped,
        dead_lettered=mail.dead_lettered,
        queued=mail.queued,
        in_hand=mail.in_hand,
    )
    assert mail.sent == parts.total(), f"sent {mail.sent}, but {dict(parts)}"


def quick(**options) -> RestartPolicy:
    """A restart policy with exact waits on a grid that floats can hold."""
    return RestartPolicy(**{"jitter": 0, "initial_backoff": 0.5, "max_backoff": 2.0, **options})
