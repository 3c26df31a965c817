"""One replica against a model: states, waits and counts, to the instant."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from supervision import (
    AutoShutdown,
    IllegalTransition,
    OnFailed,
    RestartType,
    StartFailed,
    State,
    Supervisor,
    Worker,
)
from supervision.states import TRANSITIONS
from supervision.testing import Pending
from tests.properties.looking import looking
from tests.properties.world import World, quick

PATH = "root/w/0"
DOWN = (State.STOPPED, State.FAILED)


class Model:
    """What a replica is: a state, a clock, and a count of failures. Every change goes along the table."""

    def __init__(self, spec: Worker) -> None:
        self.spec = spec
        self.policy = spec.restart
        self.now = 0.0
        self.state = State.PENDING
        self.run = self.failures = self.restarts = 0
        self.begun = 0.0
        self.ready_at: float | None = None
        self.next: float | None = None
        self.trial = self.trial_failed = False
        self.begin()

    def go(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"the model: {self.state} to {state}"
        self.state = state
        self.next = None

    def begin(self) -> None:
        self.go(State.RUNNING)
        self.run += 1
        self.begun = self.now
        self.ready_at = None
        if self.spec.ready == "run":
            self.ready()

    def ready(self) -> None:
        if self.state is State.RUNNING and self.ready_at is None:
            self.ready_at = self.now
            self.trial = False

    def ended(self, *, failed: bool) -> None:
        """A run has ended by itself."""
        kind, limit = self.policy.type, self.policy.max_restarts
        self.trial_failed = self.trial and failed
        if self.trial_failed:
            self.trial = False
            self.go(State.FAILED)
            return
        self.trial = False
        well = self.ready_at is not None and self.now - self.ready_at >= self.policy.reset_after
        before = 0 if well else self.failures
        if kind == "temporary" or (kind == "transient" and not failed):
            self.failures = before
            self.go(State.STOPPED)
            return
        self.failures = before + 1
        if limit and self.failures > limit:
            self.go(State.FAILED)
            return
        first = self.policy.initial_backoff
        wait = min(first * 2 ** (self.failures - 1), self.policy.max_backoff)
        self.restarts += 1
        self.go(State.RESTARTING)
        self.next = self.now + wait
        if not wait:
            self.begin()

    def stop(self) -> None:
        self.trial = False
        if self.state is not State.STOPPED:
            self.go(State.STOPPED)

    def start(self) -> None:
        self.failures = 0
        self.trial = True
        self.trial_failed = False
        self.begin()

    def restart(self) -> None:
        """By hand: a live run is replaced and keeps its count, anything else begins anew."""
        if self.state is State.RUNNING:
            self.go(State.RESTARTING)
        else:
            self.failures = 0
            if self.state is State.RESTARTING:
                self.go(State.STOPPED)
        self.trial = False
        self.begin()

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            late = self.spec.start_timeout
            if self.next is not None and self.next <= end:
                self.now = self.next
                self.begin()
            elif late and self.state is State.RUNNING and self.ready_at is None:
                if self.begun + late > end:
                    break
                self.now = self.begun + late
                self.ended(failed=True)
            else:
                break
        self.now = end


@st.composite
def workers(draw) -> dict:
    signal = draw(st.booleans())
    return {
        "ready": "signal" if signal else "run",
        "start_timeout": draw(st.sampled_from([None, 1.0, 2.0])) if signal else None,
        "on_failed": OnFailed.HOLD,
        "shutdown": 1.0,
        "restart": quick(
            type=draw(st.sampled_from(RestartType)),
            # Without a wait and without a limit, time stands still while runs never become ready.
            max_restarts=draw(st.integers(1, 3)),
            initial_backoff=draw(st.sampled_from([0, 0.5, 1])),
            reset_after=draw(st.sampled_from([0.0, 1.0, 4.0])),
        ),
    }


class Replicas(RuleBasedStateMachine):
    """One worker, its operator, and time."""

    @initialize(options=workers())
    def open(self, options) -> None:
        async def body(ctx) -> None:
            await self.world.body(ctx)

        spec = Worker("w", body, **options)
        self.world = World(Supervisor("root", [spec], auto_shutdown=AutoShutdown.NEVER))
        self.model = Model(spec)
        self.trial: Pending | None = None
        self.check()

    def check(self) -> None:
        self.world.sim.settle()
        self.world.judge()
        info, model = self.world.pool.info("w"), self.model
        if self.trial is not None and not model.trial:
            assert self.trial.done
            assert isinstance(self.trial.error, StartFailed) == model.trial_failed
            self.trial = None
        assert (info.state, info.run) == (model.state, model.run)
        assert info.failures == model.failures
        assert info.restarts == model.restarts
        assert info.next_restart == model.next
        if model.state is State.RUNNING:
            assert info.phase == ("starting" if model.ready_at is None else "ready")
        else:
            assert info.phase is None

    @precondition(lambda self: self.model.state is State.RUNNING)
    @rule(order=st.sampled_from(["crash", "crash", "return", "ready"]))
    def puppet(self, order) -> None:
        self.world.alive[PATH].tell(order)
        if order == "ready":
            self.model.ready()
        else:
            self.model.ended(failed=order == "crash")
        self.check()

    @rule(seconds=st.sampled_from([0.0, 0.125, 0.5, 0.875, 1.0, 2.0, 4.0, 9.0]))
    def time_passes(self, seconds) -> None:
        self.world.sim.advance(seconds)
        self.model.advance(seconds)
        self.check()

    @precondition(lambda self: self.model.next is not None)
    @rule(past=st.sampled_from([-0.125, 0.0]))
    def time_passes_to_the_restart(self, past) -> None:
        self.time_passes(max(0.0, self.model.next - self.model.now + past))

    @rule()
    def stop(self) -> None:
        call = self.world.go("stop", self.world.pool.stop, "w")
        self.model.stop()
        self.check()
        call.value()

    @rule()
    def start(self) -> None:
        call = self.world.go("start", self.world.pool.start, "w")
        if self.model.state in DOWN:
            self.model.start()
            self.trial = call
            self.check()
        else:
            self.check()
            assert isinstance(call.error, IllegalTransition)

    @precondition(lambda self: not self.model.trial)
    @rule()
    def restart(self) -> None:
        self.world.go("restart", self.world.pool.restart, "w")
        self.model.restart()
        self.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.world.finish()
            finally:
                self.world.close()


TestReplicas = Replicas.TestCase
TestReplicas.settings = looking(120, steps=30)
