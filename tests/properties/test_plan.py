"""The brain, asked everything: plans, decisions and waits are pure, so every input can be tried."""

from __future__ import annotations

from math import inf
from random import Random

import attrs
from hypothesis import assume, given, strategies as st

from actors import Backoff
from supervision import OnFailed, RestartPolicy, RestartType, State, Strategy
from supervision.plan import (
    Ending,
    GiveUp,
    Plan,
    Rest,
    Restart,
    decide,
    group_plan,
    start_plan,
    stop_plan,
)
from supervision.restart import Budget
from tests.properties.looking import looking


@attrs.frozen(eq=False)
class Child:
    """What a plan knows of a child."""

    rank: int
    alive: bool
    wanted: bool


@st.composite
def groups(draw) -> list[Child]:
    """Children in start order; some ranks have several, as the replicas of one worker do."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    flags = st.booleans()
    return [Child(rank, draw(flags), draw(flags)) for rank, n in enumerate(sizes) for _ in range(n)]


def flat(waves) -> list[Child]:
    return [child for wave in waves for child in wave]


def is_waves(waves) -> bool:
    """Each wave is one rank, and no rank has two waves."""
    ranks = [{child.rank for child in wave} for wave in waves]
    return all(len(r) == 1 for r in ranks) and len({min(r) for r in ranks}) == len(ranks)


@given(groups())
@looking(200)
def test_all_that_are_wanted_start_in_order(children) -> None:
    """A start plan holds each wanted child once, in order of rank, one rank a wave."""
    plan = start_plan(children)

    assert flat(plan.start) == [child for child in children if child.wanted]
    assert is_waves(plan.start)
    assert plan.stop == ()


@given(groups(), st.booleans())
@looking(200)
def test_all_that_live_stop_in_reverse(children, at_once) -> None:
    """A stop plan holds each live child once, last first, or all in one wave, and starts nothing."""
    plan = stop_plan(children, at_once=at_once)
    alive = [child for child in children if child.alive]

    assert set(flat(plan.stop)) == set(alive)
    assert len(flat(plan.stop)) == len(alive)
    assert plan.start == ()
    if at_once:
        assert len(plan.stop) == bool(alive)
    else:
        ranks = [child.rank for child in flat(plan.stop)]
        assert ranks == sorted(ranks, reverse=True)
        assert is_waves(plan.stop)


@st.composite
def failures(draw):
    children = draw(groups())
    failed = draw(st.sampled_from(children))
    strategy = draw(st.sampled_from([Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE]))
    under_way = draw(
        st.none()
        | st.builds(
            Plan[Child],
            lowest=st.integers(0, len(children)),
            waits=st.lists(
                st.tuples(st.sampled_from(children), st.integers(0, 80).map(lambda n: n / 8)),
                max_size=3,
                unique_by=lambda wait: id(wait[0]),
            ).map(tuple),
        )
    )
    return children, failed, strategy, under_way, draw(st.integers(0, 80)) / 8


@given(failures())
@looking(300)
def test_a_group_restarts_whole(case) -> None:
    """A group plan stops what lives of the group, starts what is wanted of it, and forgets nothing that was under way."""
    children, failed, strategy, under_way, when = case
    plan = group_plan(strategy, children, failed, not_before=when, under_way=under_way)
    lowest = 0 if strategy is Strategy.ONE_FOR_ALL else failed.rank
    if under_way is not None:
        lowest = min(lowest, under_way.lowest)

    assert flat(plan.start) == [c for c in children if c.wanted and c.rank >= lowest]
    assert is_waves(plan.start)
    assert is_waves(plan.stop)
    assert plan.lowest == lowest
    # Who still waits for its restart is waited for: not who was stopped or started by hand meanwhile, and not who failed again.
    due = [] if under_way is None else under_way.waits
    left = {c: at for c, at in due if c.wanted and not c.alive and c is not failed}
    assert dict(plan.waits) == {**left, failed: when}
    assert plan.not_before == max(when, *left.values(), 0)
    stopped = flat(plan.stop)
    assert [c.rank for c in stopped] == sorted((c.rank for c in stopped), reverse=True)
    assert all(child.alive for child in stopped)
    if strategy is Strategy.ONE_FOR_ALL:
        assert set(stopped) == {child for child in children if child.alive}
    else:
        assert set(stopped) == {c for c in children if c.alive and c.rank > failed.rank}


policies = st.builds(
    RestartPolicy,
    type=st.sampled_from(RestartType),
    max_restarts=st.integers(0, 4),
    initial_backoff=st.sampled_from([0, 0.5, 1]),
    jitter=st.sampled_from([0, 0.1, 0.5]),
    on=st.sampled_from([(Exception,), (OSError,), (OSError, ValueError)]),
)
leaves = st.sampled_from([OSError("o"), ValueError("v"), KeyError("k")])
errors = leaves | st.lists(leaves, min_size=1, max_size=3).map(lambda e: ExceptionGroup("g", e))


@given(
    ending=st.sampled_from([Ending.RETURNED, Ending.FAILED]),
    error=errors,
    policy=policies,
    number=st.integers(1, 8),
    intensity=st.none() | st.integers(0, 2),
    spent=st.integers(0, 2),
    on_failed=st.sampled_from(OnFailed),
    seed=st.integers(0, 10),
)
@looking(400)
def test_every_end_has_one_consequence(
    ending, error, policy, number, intensity, spent, on_failed, seed
) -> None:
    """A decision follows from the policy alone, and takes from the budget exactly when it is for a restart."""
    error = error if ending is Ending.FAILED else None
    budget = Budget(intensity, 5.0)
    for _ in range(spent):
        budget.spend(0.0)
    before = budget.used(1.0)
    decision = decide(
        ending,
        error,
        policy=policy,
        failures=number,
        budget=budget,
        on_failed=on_failed,
        now=1.0,
        random=Random(seed),
    )
    restarts = isinstance(decision, Restart)

    assert budget.used(1.0) == before + (restarts and intensity is not None)
    asks = policy.type is RestartType.PERMANENT or (
        policy.type is RestartType.TRANSIENT and ending is Ending.FAILED
    )
    if not asks:
        assert decision == Rest(State.STOPPED)
    elif (policy.max_restarts and number > policy.max_restarts) or not policy.covers(error):
        if on_failed is OnFailed.HOLD:
            assert isinstance(decision, Rest)
            assert decision.state is State.FAILED
            assert decision.why
        else:
            assert isinstance(decision, GiveUp)
            assert decision.own
    elif intensity is not None and before >= intensity:
        assert isinstance(decision, GiveUp)
        assert not decision.own
    else:
        assert decision == Restart(policy.delay(number, Random(seed)), number)


backoffs = st.builds(
    Backoff,
    initial=st.sampled_from([0, 1e-9, 0.1, 1, 60]) | st.floats(1e-9, 1e6),
    factor=st.sampled_from([1, 1.5, 2, 1e6]) | st.floats(1, 1e9),
    maximum=st.sampled_from([0, 1e-9, 1, 30]) | st.floats(1e-9, 1e9),
    jitter=st.sampled_from([0, 0.1, 0.5, 0.99]) | st.floats(0, 0.99),
)


@given(backoffs, st.integers(1, 10**9), st.integers())
@looking(400)
def test_a_wait_is_never_out_of_bounds(backoff, n, seed) -> None:
    """For any try number a wait is finite, above zero unless no wait is wanted, and never above the maximum."""
    wait = backoff.delay(n, Random(seed))

    assert 0 <= wait <= backoff.maximum < inf
    assert (wait == 0) == (backoff.initial == 0 or backoff.maximum == 0)


@given(backoffs, st.integers(1, 200))
@looking(300)
def test_waits_never_fall_before_jitter(backoff, n) -> None:
    """The base of a wait grows from try to try, or stays at the cap."""
    assert backoff.base(n) <= backoff.base(n + 1)


@given(backoffs, st.integers(1, 50))
@looking(200)
def test_waits_are_spread_at_the_cap_too(backoff, n) -> None:
    """With jitter, two waits of the same try differ, at the cap as before it."""
    assume(backoff.jitter > 0.01)
    assume(backoff.base(n) > 1e-6)
    random = Random(1)

    assert len({backoff.delay(n, random) for _ in range(8)}) > 1
