"""The order of tasks: drawn, shrunk, exhausted, printed and replayed."""

from __future__ import annotations

import pytest
import trio
from hypothesis import find, given, settings, strategies as st

from supervision import Supervisor, Worker
from supervision.testing import (
    Bundle,
    InvariantViolation,
    KitWarning,
    Schedule,
    Sim,
    TooLong,
    TrioStateMachine,
    idle,
    initialize,
    invariant,
    precondition,
    replay,
    rule,
    schedules,
    simulate,
)
from supervision.testing.internals import can_order
from tests.properties.looking import looking


async def race(names: str = "abc") -> str:
    """The order in which tasks that are ready together run."""
    seen = []

    async def note(name) -> None:
        seen.append(name)

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(note, name)
    return "".join(seen)


def test_the_plain_order_is_first_in_first_out() -> None:
    """Without a schedule nothing depends on chance."""
    assert {simulate(race) for _ in range(5)} == {"abc"}


def test_a_small_program_is_exhausted() -> None:
    """Every order of three tasks is tried, and then Hypothesis stops by itself."""
    seen = []

    @settings(looking(500), database=None)
    @given(schedule=schedules())
    def explore(schedule) -> None:
        seen.append(simulate(race, schedule=schedule))

    explore()
    assert len(set(seen)) == 6
    assert len(seen) < 50


@pytest.mark.parametrize("kind", ["uniform", "pct"])
def test_an_order_is_found_and_replayed(kind) -> None:
    """What was drawn can be printed, and its text gives the same order again."""
    found = {}

    def odd(schedule) -> bool:
        order = simulate(race, schedule=schedule)
        found[order] = str(schedule)
        return order == "cab"

    find(schedules(kind=kind), odd, settings=settings(looking(2000), database=None))
    assert simulate(race, schedule=replay(found["cab"])) == "cab"


def test_a_schedule_shrinks_to_few_exceptions() -> None:
    """A long race with one wrong order is reported as that one."""
    smallest = []

    async def long() -> bool:
        return any([(await race("ab")) == "ba" for _ in range(10)])

    def wrong(schedule) -> bool:
        if not simulate(long, schedule=schedule):
            return False
        smallest.append(len(schedule.exceptions))
        return True

    find(schedules(), wrong, settings=settings(looking(500), database=None))
    assert smallest[-1] == 1


@pytest.mark.parametrize("text", ["", "lifo", "fifo except", "fifo except 1", "fifo except 1:2,"])
def test_a_text_that_is_no_schedule_is_refused(text) -> None:
    """A typing mistake does not silently mean the plain order."""
    with pytest.raises(ValueError, match="fifo except 12:1"):
        replay(text)


def test_a_draw_that_ends_the_example_ends_the_run_in_order() -> None:
    """What Hypothesis raises in a draw never reaches a task: the run is cancelled, then it is raised."""

    class Over(BaseException):
        pass

    class Short(Schedule):
        def _choose(self, rest) -> int:
            if self.stopped is None and self.on_stop is not None:
                self.stopped = Over()
                self.on_stop()
            return 0

    caught = []

    async def task() -> None:
        try:
            await trio.sleep_forever()
        except BaseException as error:
            caught.append(type(error))
            raise

    async def several() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(task)

    with pytest.raises(Over):
        simulate(several, schedule=Short())
    assert set(caught) <= {trio.Cancelled}
    assert simulate(race) == "abc"


def test_a_trio_without_the_hooks_works_in_its_own_order(monkeypatch) -> None:
    """One warning says what is missing; everything else goes on."""
    monkeypatch.setattr("supervision.testing.internals._FOR_ORDER", ("_no_such_name",))
    assert not can_order()
    with pytest.warns(KitWarning, match="neither explored nor replayed"):
        sim = Sim()
    with sim:
        pool = sim.supervise(Supervisor("t", [Worker("w", idle)]))
        assert pool.health().ready


def test_a_trio_that_cannot_be_stepped_is_run_as_a_guest(monkeypatch) -> None:
    """The public way is taken by itself."""
    monkeypatch.setattr("supervision.testing.internals._FOR_STEPS", ("_no_such_name",))
    with Sim() as sim:
        assert type(sim._loop).__name__ == "GuestLoop"
        assert sim.run(race) == "abc"


class Draws(TrioStateMachine):
    """An async rule, an async invariant and a drawn order work together."""

    def setup(self) -> None:
        self.orders = set()

    @rule(names=st.sampled_from(["ab", "abc"]))
    async def runs(self, names) -> None:
        order = await race(names)
        self.orders.add(order)
        assert sorted(order) == list(names)


TestDraws = Draws.TestCase
TestDraws.settings = looking(30, steps=10)


def test_a_machine_explores_orders() -> None:
    """A rule whose outcome depends on the order of tasks meets more than one."""
    from hypothesis.stateful import run_state_machine_as_test

    class Picky(Draws):
        @rule()
        async def always_in_order(self) -> None:
            if await race() != "abc":
                raise InvariantViolation("order", "not in order")

    with pytest.raises(InvariantViolation) as caught:
        run_state_machine_as_test(Picky, settings=settings(looking(200), database=None))
    assert any("--supervision-schedule='fifo except" in note for note in caught.value.__notes__)


class Later(TrioStateMachine):
    """Async in every place in which Hypothesis has a plain function."""

    rule_timeout = 5.0

    @initialize(first=st.integers(1, 3))
    async def begins(self, first) -> None:
        await trio.sleep(1)
        self.value = first

    async def is_small(self) -> bool:
        return self.value < 6

    @precondition(is_small)
    @rule(more=st.integers(1, 2))
    async def grows(self, more) -> None:
        await trio.sleep(more)
        self.value += more

    @rule(target=Bundle("values"))
    async def gives(self) -> int:
        await trio.lowlevel.checkpoint()
        return self.value

    @rule(value=Bundle("values"))
    async def takes(self, value) -> None:
        assert value <= self.value

    @invariant()
    async def stays_small(self) -> None:
        await trio.lowlevel.checkpoint()
        assert self.value <= 7


TestLater = Later.TestCase
TestLater.settings = looking(30, steps=10)


def test_what_was_wrong_first_is_told() -> None:
    """A run that cannot be closed after a failure does not hide that failure, and is told of beside it."""
    from hypothesis.stateful import run_state_machine_as_test

    async def undead() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

    class Stubborn(Draws):
        @rule()
        def fails(self) -> None:
            self.sim.start(undead)
            self.sim.settle()
            raise InvariantViolation("mine", "it is wrong")

    with pytest.raises(InvariantViolation, match="it is wrong") as caught:
        run_state_machine_as_test(Stubborn, settings=settings(looking(5), database=None))
    assert any("could not be closed: Survivors(" in note for note in caught.value.__notes__)


def test_an_async_rule_has_to_end_in_its_time() -> None:
    """A rule that takes longer than the machine allows fails the example."""
    from hypothesis.stateful import run_state_machine_as_test

    class Slow(Later):
        @rule()
        async def sleeps(self) -> None:
            await trio.sleep(6)

    with pytest.raises(TooLong, match="within 5 virtual seconds"):
        run_state_machine_as_test(Slow, settings=settings(looking(100), database=None))
