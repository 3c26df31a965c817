"""Engines against the model: whatever several workers and operators do, in whatever order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
import trio
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from actors.jobs import (
    Completed,
    Errored,
    Failed,
    Incident,
    NewJob,
    Poisoned,
    PutBack,
    Settlement,
    State,
    Why,
)
from tests.jobs.kit import ENGINES, ON_POSTGRES, claim, opened
from tests.jobs.model import Model

DELAYS = st.sampled_from([0.0, 0.0, 1.0, 10.0])
WAITS = st.sampled_from([0.0, 0.0, 1.0, 5.0, 60.0])
OUTCOMES = st.one_of(
    st.just(Completed()),
    st.just(Errored("NO")),
    st.just(Incident("look")),
    st.just(Poisoned("bad")),
    st.builds(Failed, st.just("broke"), st.integers(0, 3), DELAYS),
    st.builds(PutBack, st.sampled_from(Why), st.just(""), DELAYS),
)


class Running:
    """An engine in a Trio run on a thread of its own, so that a machine can call it step by step."""

    def __init__(self, kind: str, clock: Callable[[], float]) -> None:
        self._folder = TemporaryDirectory()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main, kind, clock))
        self._thread.start()
        self._ready.wait()

    async def _main(self, kind: str, clock: Any) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._over = trio.Event()
        async with opened(kind, Path(self._folder.name), clock) as self.engine:
            self._ready.set()
            await self._over.wait()

    def call(self, name: str, *args: object, **options: object) -> Any:
        async def ask() -> Any:
            return await getattr(self.engine, name)(*args, **options)

        return trio.from_thread.run(ask, trio_token=self._token)

    def close(self) -> None:
        trio.from_thread.run_sync(self._over.set, trio_token=self._token)
        self._thread.join()
        self._folder.cleanup()


class Machine(RuleBasedStateMachine):
    """Several workers and an operator; every lease that was ever given may be used at any time."""

    kind: ClassVar[str] = "memory"
    keys = Bundle("keys")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.real = Running(self.kind, lambda: self.model.now)

    def teardown(self) -> None:
        self.real.close()

    @rule(
        target=keys,
        count=st.integers(1, 3),
        priority=st.integers(-1, 1),
        delay=DELAYS,
        retries=st.integers(1, 3),
        unique=st.sampled_from([None, None, "u"]),
    )
    def enqueue(self, count, priority, delay, retries, unique):
        job = NewJob("a", priority=priority, delay=delay, retries=retries, unique=unique)
        made = []
        for done in self.real.call("enqueue_many", [job] * count):
            there = None if unique is None else self.model.unique(unique)
            assert done.created == (there is None)
            if there is not None:
                assert done.key == there.key
            else:
                self.model.enqueue(done.key, priority, delay, retries, unique)
                made.append(done.key)
        return multiple(*made)

    @rule(
        target=leases,
        by=st.sampled_from(["w1", "w2", "w3"]),
        most=st.integers(1, 4),
        lease=st.sampled_from([5.0, 60.0]),
        wait=WAITS,
    )
    def claim(self, by, most, lease, wait):
        self.model.now += wait
        return self._exchange([], by, most, lease)

    @rule(
        target=leases,
        told=st.lists(st.tuples(leases, OUTCOMES), min_size=1, max_size=3),
        by=st.sampled_from(["w1", "w2"]),
        most=st.integers(0, 3),
        wait=WAITS,
    )
    def settle_and_claim(self, told, by, most, wait):
        self.model.now += wait
        return self._exchange(told, by, most, 5.0)

    def _exchange(self, told, by, most, lease):
        ok = [self.model.settle(held, outcome) for held, outcome in told]
        out, aside = self.model.claim(most, lease, 3) if most else ([], [])
        found = self.real.call(
            "exchange",
            [Settlement(*one) for one in told],
            claim(most, by=by, lease=lease, max_deliveries=3) if most else None,
        )
        late = {held for (held, _), good in zip(told, ok, strict=True) if not good}
        assert found.refused == late
        assert [job.key for job in found.jobs] == out
        assert sorted(poison.key for poison in found.poisoned) == sorted(aside)
        assert len({job.key for job in found.jobs}) == len(found.jobs)
        return multiple(*[job.lease for job in found.jobs])

    @rule(held=leases, outcome=OUTCOMES)
    def settle(self, held, outcome):
        assert self.real.call("settle", held, outcome) == self.model.settle(held, outcome)

    @rule(held=st.lists(leases, min_size=1, max_size=4, unique=True))
    def extend(self, held):
        assert self.real.call("extend", held, 30.0) == self.model.extend(held, 30.0)

    @rule(key=keys)
    def cancel(self, key):
        assert self.real.call("cancel", key) == self.model.cancel(key)

    @rule(key=keys, retries=st.sampled_from([None, None, 0, 2]))
    def resolve(self, key, retries):
        try:
            self.real.call("resolve", key, retries)
            found = "ok"
        except Exception as error:
            found = type(error).__name__
        assert found == self.model.resolve(key, retries)

    @rule(key=keys)
    def run_now(self, key):
        try:
            self.real.call("run_now", key)
            found = "ok"
        except Exception as error:
            found = type(error).__name__
        assert found == self.model.run_now(key)

    @rule()
    def pause(self):
        self.real.call("pause", "a")
        self.model.paused = True
        self._exchange([], "w1", 4, 5.0)
        self.real.call("resume", "a")
        self.model.paused = False

    @rule(target=leases, most=st.sampled_from([0, 1, 2]), wait=WAITS)
    def limit(self, most, wait):
        self.model.now += wait
        self.real.call("limit", "a", most)
        self.model.most = most
        taken = self._exchange([], "w1", 4, 5.0)
        self.real.call("limit", "a", None)
        self.model.most = None
        return taken

    @rule(state=st.sampled_from(State), most=st.sampled_from([1, 3, 100]))
    def look(self, state, most):
        found = self.real.call("jobs", state, "a", most=most)
        assert [info.key for info in found] == self.model.listed(state)[:most]
        assert all(info == self.real.call("find", info.key) for info in found)

    @invariant()
    def every_job_is_where_it_should_be(self):
        for key, entry in self.model.jobs.items():
            info = self.real.call("find", key)
            state = "waiting" if info.state in ("ready", "scheduled") else str(info.state)
            assert state == entry.state
            assert (info.retries, info.attempt) == (entry.retries, entry.attempt)
            assert (info.deliveries, info.snoozes) == (entry.deliveries, entry.snoozes)
            assert entry.ends == (not entry.unfinished)

    @invariant()
    def nothing_is_lost_or_doubled(self):
        seen = self.real.call("statistics")
        assert sum(seen.jobs.get("a", {}).values()) == len(self.model.jobs)
        aside = {poison.key for poison in self.real.call("poison")}
        assert aside == {e.key for e in self.model.jobs.values() if e.poison}


EXAMPLES = {"memory": 2, "sqlite": 5}


@pytest.mark.parametrize("kind", ENGINES)
def test_any_order_of_calls(request, kind):
    """Whatever is done in whatever order, each job is in one place, ends once, and has the numbers of the model."""
    if kind in ON_POSTGRES:
        request.getfixturevalue("server")
    machine = type("Machine", (Machine,), {"kind": kind})
    # A step costs a round trip or more on PostgreSQL, on a clock of ours all the same.
    examples = max(10, settings.default.max_examples // EXAMPLES.get(kind, 10))

    # Half of what is drawn wants a job or a lease before there is one: that is filtered out, and no fault.
    patient = settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=patient)
