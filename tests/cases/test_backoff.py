"""BACKOFF: the schedule of waits, by itself and as restarts use it. Retries of calls have their own cases."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
import trio
from hypothesis import given, strategies as st

from actors import Backoff
from supervision import RestartPolicy, Supervisor, Worker
from tests.cases.kit import at, fails_after, policy, under_test


class Pinned(Random):
    """A random source at one end of every interval."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.share


def waits(initial: float, factor: float, cap: float, *ns: int) -> list[float]:
    """The exact waits number `ns`."""
    schedule = Backoff(initial, factor, cap, jitter=0)
    return [schedule.delay(n, Random(0)) for n in ns]


def test_b012_first_wait_is_the_base():
    """B012, sgl-project/rbg#394: the first wait equals the base, and the wait never falls as n grows."""
    assert waits(30, 2, 600, *range(1, 8)) == [30, 60, 120, 240, 480, 600, 600]
    assert waits(30, 2, 600, 59, 60, 61, 62, 64, 1000) == [600] * 6


async def test_b012_first_restart_waits_the_base(autojump_clock):
    """B012, sgl-project/rbg#394: the wait before the first restart is the initial one, not the next."""
    worker = Worker("w", fails_after(0), restart=policy(30, 2, 600))
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(1000)

    assert trial.starts("app/w/0") == [0, 30, 90, 210, 450, 930]


def test_b013_cap_protects_the_computation():
    """B013, hynek/stamina#137 and twisted/twisted#9476: the cap protects the computation, not only its result."""
    assert waits(0.1, 2.0, 5, *range(1, 8)) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5])
    assert waits(0.1, 2.0, 5, 1025, 2000, 10_000, 10**9) == [5, 5, 5, 5]


async def test_b013_restarts_survive_a_long_outage(autojump_clock):
    """B013, hynek/stamina#137: the thousandth restart comes after the same capped wait as the tenth."""

    async def reconnect(ctx):
        if ctx.run <= 1100:
            raise OSError("down")
        await trio.sleep_forever()

    worker = Worker("w", reconnect, restart=policy(0.1, 2.0, 5))
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(5476.2)
        assert trial.pool.info("w").state == "restarting"
        await at(5477)
        assert trial.pool.info("w").run == 1101

    assert trial.starts("app/w/0")[-1] == pytest.approx(6.3 + 1094 * 5, abs=1e-6)


def test_b014_jitter_stays_below_the_cap():
    """B014, riverqueue/river#1023: the cap is a hard bound on the wait that is really slept."""
    schedule = Backoff(60, 2, 60, jitter=0.1)

    # The base is capped at 60 / 1.1, so that waits at the cap are spread to both sides too.
    assert schedule.delay(3, Pinned(1.0)) == pytest.approx(60)
    assert schedule.delay(3, Pinned(1.0)) <= 60
    assert schedule.delay(3, Pinned(0.0)) == pytest.approx(60 / 1.1 * 0.9)


async def test_b014_restart_waits_within_the_cap(autojump_clock):
    """B014, riverqueue/river#1023: no restart is scheduled later than the cap says, whatever the jitter draws."""
    restart = RestartPolicy(
        type="permanent",
        initial_backoff=60,
        factor=2,
        max_backoff=60,
        jitter=0.1,
        max_restarts=0,
    )
    tree = Supervisor("app", [Worker("w", fails_after(0), restart=restart)])
    async with under_test(tree, random=Pinned(1.0)) as trial:
        await at(200)

    delays = [e.delay for e in trial.seen if e.kind == "RestartScheduled"]
    assert len(delays) == 4
    assert max(delays) <= 60
    assert trial.starts("app/w/0") == pytest.approx([0, 60, 120, 180])


@pytest.mark.parametrize("jitter", [-0.1, 1.0, 2.5, float("nan"), float("inf")])
def test_b016_absolute_jitter_is_refused(jitter):
    """B016, career-ops-hq/career-ops#2520: jitter is a share below 1; what could make a wait negative is refused by name."""
    with pytest.raises(ValueError, match="jitter"):
        Backoff(0.1, 2, 0.1, jitter=jitter)
    with pytest.raises(ValueError, match="jitter"):
        RestartPolicy(jitter=jitter)


amounts = st.floats(min_value=0, max_value=1e9, allow_subnormal=False)


@given(
    initial=amounts,
    factor=st.floats(min_value=1, max_value=1e6),
    maximum=amounts,
    jitter=st.floats(min_value=0, max_value=1, exclude_max=True),
    n=st.integers(min_value=1, max_value=10**12),
    seed=st.integers(),
)
def test_b016_no_mix_of_settings_gives_a_negative_wait(initial, factor, maximum, jitter, n, seed):
    """B016, career-ops-hq/career-ops#2520: no mix of legal settings gives a wait below zero or above the cap."""
    schedule = Backoff(initial, factor, maximum, jitter)

    assert 0 <= schedule.delay(n, Random(seed)) <= maximum
    assert schedule.base(n) <= schedule.base(n + 1) <= maximum
    if initial >= 1e-6 and maximum >= 1e-6:
        assert schedule.delay(n, Random(seed)) > 0


def test_b018_a_wait_never_wraps():
    """B018, qdrant/go-client#153: for every n, 0 < wait(n) <= cap, and wait(n+1) >= wait(n)."""
    series = waits(0.5, 2, 30, *range(1, 3000))

    assert all(0 < wait <= 30 for wait in series)
    assert all(one <= other for one, other in pairwise(series))


async def test_b018_an_outage_is_no_hot_loop(autojump_clock):
    """B018, qdrant/go-client#153: a child that fails at once is started 125 times in an hour, not more."""
    worker = Worker("w", fails_after(0), restart=policy(0.5, 2, 30))
    async with under_test(Supervisor("app", [worker])) as trial:
        await at(3600)

    starts = trial.starts("app/w/0")
    assert starts[:8] == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5]
    assert (len(starts), starts[-1]) == (125, 3571.5)
