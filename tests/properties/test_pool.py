"""The pool as a state machine: whatever operators, failures and time do, in any order and several in one instant."""

from __future__ import annotations

from contextlib import suppress
from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from actors import ActorStopped, MailboxFull, MailboxSpec, Overflow
from supervision import (
    AutoShutdown,
    OnFailed,
    Phase,
    RestartType,
    State,
    Strategy,
    Supervisor,
    Worker,
)
from supervision.testing import schedules
from tests.properties.looking import looking
from tests.properties.world import Declared, World, quick

SECONDS = st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.0, 3.0, 8.0])

policies = st.builds(
    quick,
    type=st.sampled_from(RestartType),
    max_restarts=st.integers(0, 3),
    initial_backoff=st.sampled_from([0, 0.5]),
    reset_after=st.sampled_from([1.0, 3.0]),
)


mailboxes = st.builds(
    MailboxSpec,
    capacity=st.sampled_from([0, 1, 2]),
    overflow=st.sampled_from(Overflow),
    redeliver=st.integers(0, 1),
    drain=st.booleans(),
)


@st.composite
def workers(draw, world: list[World], name: str, *, signal: bool = True) -> Worker:
    async def body(ctx) -> None:
        await world[0].body(ctx)

    return Worker(
        name,
        body,
        replicas=draw(st.sampled_from([1, 1, 2])),
        restart=draw(policies),
        mailbox=draw(mailboxes),
        shutdown=draw(st.sampled_from([0.0, 1.0, 3.0])),
        ready=draw(st.sampled_from(["run", "run", "run", "signal"])) if signal else "run",
        watchdog=draw(st.sampled_from([None, None, None, 2.0])),
        on_failed=draw(st.sampled_from(OnFailed)),
        enabled=draw(st.sampled_from([True, True, True, False])),
    )


@st.composite
def trees(draw, world: list[World]) -> Supervisor:
    def group(name: str, children: list) -> Supervisor:
        intensity = draw(st.sampled_from([None, 1, 2]))
        return Supervisor(
            name,
            children,
            strategy=draw(st.sampled_from(Strategy)),
            intensity=intensity,
            period=draw(st.sampled_from([1.0, 2.0])),
            restart=draw(policies),
            on_failed=draw(st.sampled_from(OnFailed)),
            auto_shutdown=draw(st.sampled_from([AutoShutdown.ALL_DONE, AutoShutdown.NEVER])),
        )

    inner = group("inner", [draw(workers(world, name)) for name in "cd"])
    dynamic = group("pool", [])
    outer = [draw(workers(world, "a")), inner, draw(workers(world, "b")), dynamic]
    return group("root", draw(st.permutations(outer)))


class Operators(RuleBasedStateMachine):
    """Several hands on one tree. A rule puts things in flight; `look` lets the loop run and judges what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.box: list[World] = []
        self.added = 0

    @initialize(data=st.data(), linger=st.sampled_from([0.0, 0.0, 0.5, 1.5]), schedule=schedules())
    def open(self, data, linger, schedule) -> None:
        spec = data.draw(trees(self.box).map(Declared)).spec
        self.world = World(spec, linger=linger, schedule=schedule)
        self.box.append(self.world)
        self.world.sim.settle()
        self.world.judge()

    @property
    def pool(self):
        return self.world.pool

    def open_tree(self) -> bool:
        return not self.world.served.done

    def settle(self, now: bool) -> None:
        if now:
            self.look()

    @rule()
    def look(self) -> None:
        self.world.sim.settle()
        self.world.judge()

    @rule(seconds=SECONDS)
    def time_passes(self, seconds) -> None:
        self.world.sim.advance(seconds)
        self.world.judge()

    @precondition(lambda self: self.world.alive)
    @rule(
        data=st.data(),
        order=st.sampled_from(
            ["crash", "crash", "crash", "return", "ready", "stop", "beat", "receive", "receive"]
        ),
        now=st.booleans(),
    )
    def puppets(self, data, order, now) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.world.alive)), min_size=1))
        for path in sorted(chosen):
            self.world.alive[path].tell(order)
        self.settle(now)

    @precondition(lambda self: self.open_tree())
    @rule(
        data=st.data(),
        verb=st.sampled_from(["start", "stop", "restart", "disable", "enable", "remove"]),
        now=st.booleans(),
    )
    def operate(self, data, verb, now) -> None:
        path = data.draw(st.sampled_from(self.paths()))
        self.world.go(f"{verb} {path}", getattr(self.pool, verb), path)
        self.settle(now)

    def paths(self) -> list[str]:
        infos = self.pool.workers()
        replicas = [worker.path for worker in infos]
        whole = {worker.path.rpartition("/")[0] for worker in infos}
        return sorted({*replicas, *whole, *(s.path for s in self.pool.supervisors())})

    @precondition(lambda self: self.open_tree())
    @rule(data=st.data(), replicas=st.integers(0, 3), now=st.booleans())
    def scale(self, data, replicas, now) -> None:
        path = data.draw(st.sampled_from(["a", "b", "c", "d"]))
        self.world.go(f"scale {path} {replicas}", self.pool.scale, path, replicas)
        self.settle(now)

    @precondition(lambda self: self.open_tree())
    @rule(data=st.data(), parent=st.sampled_from(["root", "inner", "pool"]), now=st.booleans())
    def start_child(self, data, parent, now) -> None:
        self.added += 1
        spec = data.draw(workers(self.box, f"x{self.added % 3}").map(Declared)).spec
        self.world.go(f"start_child {spec.name} in {parent}", self.pool.start_child, parent, spec)
        self.settle(now)

    @precondition(lambda self: self.pool.workers())
    @rule(
        data=st.data(),
        how=st.sampled_from(["tell", "ask", "tell_nowait"]),
        now=st.booleans(),
    )
    def send(self, data, how, now) -> None:
        path = data.draw(st.sampled_from(sorted(w.path for w in self.pool.workers())))
        ref = self.pool.ref(path)
        if how == "tell_nowait":
            with suppress(ActorStopped, MailboxFull):
                ref.tell_nowait("message")
        else:
            # An ask never times out here: only its settlement may end it.
            args = ("message", inf) if how == "ask" else ("message",)
            self.world.go(f"{how} {path}", getattr(ref, how), *args)
        self.settle(now)

    @precondition(lambda self: self.pool.workers())
    @rule(data=st.data(), state=st.sampled_from([*State, *Phase]), now=st.booleans())
    def wait_state(self, data, state, now) -> None:
        path = data.draw(st.sampled_from(sorted(w.path for w in self.pool.workers())))
        self.world.go(f"wait for {path} to be {state}", self.pool.wait_state, path, state)
        self.settle(now)

    @precondition(lambda self: any(not call.done for _, call in self.world.calls))
    @rule(data=st.data(), now=st.booleans())
    def caller_gives_up(self, data, now) -> None:
        waiting = [call for _, call in self.world.calls if not call.done]
        data.draw(st.sampled_from(waiting)).cancel()
        self.settle(now)

    @precondition(lambda self: self.open_tree())
    @rule(how=st.sampled_from(["ask", "ask", "cancel", "outer"]), now=st.booleans())
    def end(self, how, now) -> None:
        if how == "ask":
            self.pool.request_stop("an operator")
        elif how == "cancel":
            self.pool.cancel("an operator")
        else:
            self.world.served.cancel()
        self.settle(now)

    def teardown(self) -> None:
        if not self.box:
            return
        try:
            self.look()
            self.world.finish()
        finally:
            self.world.close()


TestOperators = Operators.TestCase
TestOperators.settings = looking(350, steps=40)
