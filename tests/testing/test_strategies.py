"""What is drawn: times that matter first, every kind of life and command, and trees of every shape."""

from __future__ import annotations

import pytest
from hypothesis import Phase, find, given, settings, strategies as st

from supervision import RestartPolicy, Strategy, Supervisor, Worker
from supervision.testing import (
    Kind,
    Life,
    Plan,
    Verb,
    commands,
    durations,
    idle,
    lives,
    plans,
    trees,
)
from tests.properties.looking import looking

TREE = Supervisor(
    "t",
    [
        Worker("a", idle, shutdown=7, restart=RestartPolicy(initial_backoff=3, reset_after=20)),
        Supervisor("in", [Worker("b", idle)], period=11),
    ],
)


def seen(strategy, condition) -> bool:
    """True if something like that is drawn before long."""
    find(
        strategy,
        condition,
        settings=settings(looking(2000), database=None, phases=[Phase.generate]),
    )
    return True


@pytest.mark.parametrize("seconds", [0, 3, 6, 7, 11, 20, 2.875, 3.125, 10.875, 11.125])
def test_the_times_of_a_declaration_and_their_edges_are_drawn(seconds) -> None:
    """Waits, deadlines and windows of the tree come up exactly, and so does what is just beside them."""
    assert seen(durations(TREE), lambda drawn: drawn == seconds)


@given(durations(TREE))
@looking(100)
def test_times_are_exact_in_binary(seconds) -> None:
    """Sums of drawn times have no rounding errors."""
    assert seconds >= 0
    assert (seconds * 8).is_integer()


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_life_is_drawn(kind) -> None:
    """No fate is left out, and a choice of kinds is kept to."""
    assert seen(lives(TREE), lambda life: life.kind is kind)
    assert seen(lives(TREE, kinds=[kind]), lambda life: life.kind is kind)


@given(plans(TREE, kinds=["crashes", "hangs"], max_lives=4))
@looking(100)
def test_a_plan_covers_every_worker(drawn) -> None:
    """Plans come by path, nested workers too, with the kinds and the length that were asked for."""
    assert set(drawn) == {"t/a", "t/in/b"}
    for plan in drawn.values():
        assert len(plan.lives) <= 4
        assert {life.kind for life in plan.lives} <= {Kind.CRASHES, Kind.HANGS}


def test_the_same_fate_comes_several_times_in_a_row() -> None:
    """Limits are only crossed by storms."""
    four = Plan((Life("crashes", 0),) * 4)

    assert seen(plans(TREE), lambda drawn: drawn["t/a"].lives[:4] == four.lives)


@pytest.mark.parametrize("verb", Verb)
def test_every_command_is_drawn(verb) -> None:
    """Operators do everything they can, to every worker."""
    assert seen(commands(TREE), lambda acts: any(a.verb is verb for a in acts))
    assert seen(commands(TREE), lambda acts: any(a.target == "t/in/b" for a in acts))


def test_trees_take_every_shape() -> None:
    """All strategies, nesting and limits are drawn."""
    for strategy in Strategy:
        assert seen(trees(), lambda tree, wanted=strategy: tree.strategy is wanted)
    assert seen(trees(), lambda tree: sum(path.count("/") == 3 for path, _ in tree.walk()) > 0)
    assert seen(trees(intensity=st.just(2)), lambda tree: tree.intensity == 2)


def test_a_plan_and_a_life_read_like_what_made_them() -> None:
    """A falsifying example can be copied from the report."""
    assert (
        repr(Plan((Life("crashes", 1.5), Life())))
        == "Plan([Life('crashes', 1.5), Life('runs', 0)])"
    )
