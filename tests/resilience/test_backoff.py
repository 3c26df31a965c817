"""Waits: the formula, its bounds, and how well a herd is spread. R2 to R4 and R13 are numbers of test_retry_properties."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from random import Random

import pytest
from hypothesis import given, strategies as st

from actors import Backoff

schedules = st.builds(
    Backoff,
    initial=st.floats(0.001, 100),
    factor=st.floats(1, 10),
    maximum=st.floats(0.001, 1000),
    jitter=st.floats(0, 0.99),
)


@given(schedule=schedules, n=st.integers(1, 10**6), seed=st.integers())
def test_r2_each_wait_is_within_its_spread(schedule, n, seed):
    """R2: a wait is its base, spread by the jitter to both sides; without jitter it is exact."""
    base, wait = schedule.base(n), schedule.delay(n, Random(seed))
    spread = schedule.jitter * base

    assert base - spread <= wait * (1 + 1e-9)
    assert wait <= min((base + spread) * (1 + 1e-9), schedule.maximum)
    if schedule.jitter == 0:
        assert wait == base == min(schedule.maximum, base)


@given(schedule=schedules, n=st.integers(1, 10**6))
def test_r3_waits_never_fall_nor_overflow(schedule, n):
    """R3: the base never falls as n grows, stays within the maximum, and is finite for every n."""
    assert 0 < schedule.base(n) <= schedule.base(n + 1) <= schedule.maximum
    assert isfinite(schedule.base(10**18))


@pytest.mark.parametrize("n", [1, 3, 5, 50, 1100])
def test_r4_a_herd_is_spread(n):
    """R4: of 1,000 clients no 10 ms hold more than a few, at the cap as well as below it: no wait is likelier than others."""
    schedule = Backoff(initial=0.5, factor=2, maximum=5, jitter=0.5)
    random = Random(4)
    waits = [schedule.delay(n, random) for _ in range(1000)]
    bins = Counter(int(wait / 0.01) for wait in waits)

    width = 2 * 0.5 * schedule.base(n)
    assert max(bins.values()) <= 4 * max(1, 1000 * 0.01 / width)
    assert len(set(waits)) == 1000
    assert max(waits) <= 5


@given(schedule=schedules, seed=st.integers())
def test_r13_the_same_seed_waits_the_same(schedule, seed):
    """R13: randomness is an argument, so the same seed gives the same waits."""
    one, other = Random(seed), Random(seed)

    assert [schedule.delay(n, one) for n in range(1, 9)] == [
        schedule.delay(n, other) for n in range(1, 9)
    ]


@pytest.mark.parametrize("n", [0, -1])
def test_tries_are_counted_from_one(n):
    """There is no wait number 0: who counts from 0 is told."""
    with pytest.raises(ValueError, match="counted from 1"):
        Backoff().base(n)


def test_no_wait_at_all_can_be_had():
    """`initial=0` means no wait, whatever the rest says."""
    assert Backoff(initial=0, jitter=0.5).delay(7, Random()) == 0
