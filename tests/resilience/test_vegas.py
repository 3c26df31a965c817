"""The law of a limit that finds itself, alone: a pure thing that is told of calls."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan
from random import Random

import attrs
import pytest
import trio
from hypothesis import given, strategies as st

from actors.errors import BulkheadFull, DeadlineExceeded, NotEnoughTime, PoisonMessage
from actors.options import OptionError
from actors.resilience import VegasLimit
from actors.resilience.guard import NO_RESULT
from actors.resilience.vegas import Vegas
from tests.resilience.kit import known


def made(seed: int = 0, **options) -> Vegas:
    return Vegas(VegasLimit(**options), Random(seed))


def a_round(law: Vegas, rtt: float, *, running: int | None = None, dropped: int = 0) -> int:
    """Tell of calls until the round is over, the first `dropped` of which were too much; how many that took."""
    number, this = 0, law.round
    while law.round == this:
        law.told(this, rtt, law.limit if running is None else running, dropped=number < dropped)
        number += 1
    return number


def served(law: Vegas, slots: int, rounds: int, *, alone: float = 0.1) -> list[int]:
    """A service that does so many things at once, in turn, and callers without end; the limits after each round."""
    seen = []
    for _ in range(rounds):
        a_round(law, alone * max(1.0, law.limit / slots))
        seen.append(law.limit)
    return seen


@given(
    bounds=st.tuples(st.integers(1, 50), st.integers(0, 50), st.integers(0, 1000)),
    samples=st.integers(1, 12),
    probe_after=st.integers(1, 6),
    calls=st.lists(
        st.tuples(
            st.integers(-1, 0),
            st.floats(-1, 1e6) | st.sampled_from([0.0, 5e-324, 1e300, inf, nan]),
            st.integers(1, 2000),
            st.booleans(),
        ),
        max_size=300,
    ),
)
def test_the_limit_stays_within_its_bounds(bounds, samples, probe_after, calls):
    """Whatever it is told, the limit is a whole number from minimum to maximum, and changes only as a round ends."""
    low, first, last = bounds[0], sum(bounds[:2]), sum(bounds)
    law = made(initial=first, minimum=low, maximum=last, samples=samples, probe_after=probe_after)
    for age, rtt, running, dropped in calls:
        before, limit, number = known(law), law.limit, law.round
        over = law.told(number + age, rtt, running, dropped=dropped)
        assert low <= law.limit <= last
        assert low <= law.settled <= last
        assert law.round == number + over
        assert over or law.limit == limit
        if age or not (dropped or rtt > 0):
            # A call of an older round, and one that took no time, change nothing at all.
            assert not over
            assert known(law) == before


@given(
    rtt=st.floats(1e-6, 1e3),
    limit=st.integers(3, 1000),
    use=st.floats(0, 1),
    calls=st.integers(1, 400),
    seed=st.integers(0, 9),
)
def test_with_constant_times_and_low_use_nothing_moves(rtt, limit, use, calls, seed):
    """While less than half of the limit is in use and calls take what they took, it does not drift, nor measure anything."""
    law = made(seed, initial=limit, samples=1, probe_after=1)
    running = max(1, int(use * ((limit - 1) // 2)))
    for _ in range(calls):
        law.told(law.round, rtt, running)
        assert law.limit == law.settled == limit
    assert law.alone is None or law.alone == pytest.approx(rtt)


def test_a_round_is_several_calls():
    """A round has `samples` calls, or as many as were in flight if that is more; calls that began before it do not count."""
    law = made(initial=4)
    assert a_round(law, 0.1) == 10
    law = made(initial=40)
    assert a_round(law, 0.1) == 40
    old = law.round
    a_round(law, 0.1)
    limit = law.limit
    for _ in range(1000):
        assert not law.told(old, 9.0, limit, dropped=True)
    assert law.limit == limit


@pytest.mark.parametrize("slots", [2, 3, 10, 33, 100, 500])
@pytest.mark.parametrize("initial", [1, 10, 1000])
@pytest.mark.parametrize("seed", [1, 2])
def test_it_finds_what_the_other_side_can_do(slots, initial, seed):
    """From any beginning it comes to let in what keeps the service busy, and not twice as much and a few."""
    law = made(seed, initial=initial)
    served(law, slots, 300)
    busy = 0
    for limit in served(law, slots, 300):
        busy += min(limit, slots) / slots
        assert law.settled <= slots * 1.4 + 8
    assert busy / 300 > 0.97
    assert law.alone == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_measuring_anew_does_not_follow_an_overload(seed):
    """Begun in an overload, and through a thousand rounds of it, it finds out what a call takes alone, and keeps to that."""
    law = made(seed, initial=200)
    seen = served(law, 10, 1000)
    assert max(seen[200:]) <= 22
    assert law.alone == pytest.approx(0.1, rel=0.01)


def test_as_others_do_it_would_follow():
    """The model of a service can tell: taking what calls take just now for what they take alone, the limit runs away."""
    law = made(initial=10, probe_after=10_000)
    for _ in range(40):
        served(law, 10, 20)
        law.alone = 0.1 * max(1.0, law.settled / 10)
    assert law.settled > 100


def test_a_service_that_became_slower_for_good_is_found_out():
    """When calls take three times as long for good, the limit sinks, and comes back when that has been measured."""
    law = made(1, initial=10)
    served(law, 50, 100)
    assert min(served(law, 50, 100, alone=0.3)) < 50
    assert law.alone == pytest.approx(0.3, rel=0.1)
    assert law.settled >= 50


def test_a_service_that_became_faster_is_found_out():
    """When calls take a third of the time, as many of them are let in as before."""
    law = made(1, initial=10)
    served(law, 50, 100)
    served(law, 50, 100, alone=0.03)
    assert law.alone == pytest.approx(0.03, rel=0.2)
    assert 50 <= law.settled < 80


def test_it_measures_at_a_low_limit():
    """A measurement is one round with half of what the service has room for, and then the limit is what it was."""
    law = made(2, initial=10)
    served(law, 20, 60)
    seen = []
    while not seen or seen[-1] >= law.settled:
        settled = law.settled
        seen += served(law, 20, 1)
    assert seen[-1] == 10
    assert law.settled == settled > 20
    served(law, 20, 1)
    assert law.limit == law.settled == settled


@given(seed=st.integers(0, 1000), every=st.integers(10, 60))
def test_measurements_are_spread(seed, every):
    """Between two measurements are `probe_after` rounds, or down to half as many: many processes do not measure at once."""
    law = made(seed, probe_after=every)
    served(law, 10, 60)
    at = [number for number in range(6 * every) if served(law, 10, 1)[0] < law.settled]
    gaps = [after - before for before, after in pairwise(at)]
    assert gaps
    # One round is the measurement, and one lets the queue form again.
    assert all(every / 2 + 0.5 <= gap <= every + 2.5 for gap in gaps)


def test_what_was_too_much_lowers_it():
    """All calls of a round too late halve the limit, half of them take a quarter, also while use is low."""
    law = made(initial=100)
    a_round(law, 1.0, dropped=100)
    assert law.limit == 50
    a_round(law, 1.0, dropped=25)
    assert law.limit == 37
    a_round(law, 1.0, running=1, dropped=10)
    assert law.limit == 18
    law = made(initial=4)
    a_round(law, 1.0, dropped=1)
    assert law.limit == 3
    for _ in range(9):
        a_round(law, 0.0, dropped=10)  # however little time it took
    assert law.limit == 1


def test_a_stray_late_call_lowers_nothing():
    """One late call in fifty and more is an accident; more are a sign."""
    law = made(initial=100)
    a_round(law, 0.1, dropped=2)
    assert law.limit > 100
    law = made(initial=100)
    a_round(law, 0.1, dropped=3)
    assert law.limit < 100


def test_a_measurement_that_fails_is_none():
    """Too much in the round that measures: what is known stays, the limit goes down, and it is tried again soon."""
    law = made(3, initial=20)
    served(law, 20, 60)
    while law.limit == law.settled:
        served(law, 20, 1)
    known, settled = law.alone, law.settled
    a_round(law, 5.0, dropped=5)
    assert law.alone == known
    assert law.settled < settled
    assert min(served(law, 20, 10)) <= 10


def test_the_same_seed_does_the_same():
    """Told the same with the same seed, it does the same; with another, it measures at other times."""
    assert served(made(1), 10, 500) == served(made(1), 10, 500) != served(made(2), 10, 500)


def test_at_the_minimum_it_learns():
    """At the minimum, which cannot be the overload, calls that take long are taken at their word, and it grows again."""
    law = made(initial=5, minimum=5, probe_after=1000)
    served(law, 50, 20)
    for _ in range(30):
        a_round(law, 0.1, dropped=9)
    assert law.limit == 5
    served(law, 50, 10, alone=0.4)
    assert law.limit > 5


class Late(Exception):
    """One of the user's own."""


LATE = DeadlineExceeded(1.0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LATE, True),
        (trio.TooSlowError(), True),
        (ExceptionGroup("both", [OSError(), ExceptionGroup("inner", [LATE])]), True),
        (OSError(), False),
        (ExceptionGroup("both", [OSError(), ValueError()]), False),
        # Not made, so it says nothing, although it is a TooSlowError.
        (NotEnoughTime("x", left=1, needed=2), False),
        (BulkheadFull("y", limit=1, waiting=0, waited=None, retry_after=1), False),
    ],
)
def test_which_errors_say_that_it_was_too_much(error, expected):
    """A timeout says it, also inside a group; another failure does not, nor a call that was not made."""
    assert VegasLimit().too_much(error, None) is expected


def test_what_says_so_can_be_chosen():
    """`on` names other errors or judges them, and `fails` judges results; a block has none."""
    assert VegasLimit(on=Late).too_much(Late(), None)
    assert not VegasLimit(on=Late).too_much(LATE, None)
    assert VegasLimit(on=lambda error: str(error) == "busy").too_much(OSError("busy"), None)
    assert not VegasLimit(on=()).too_much(LATE, None)
    assert not VegasLimit(on=Exception).too_much(PoisonMessage("x"), None)
    busy = VegasLimit(fails=lambda status: status == 503)
    assert busy.too_much(None, 503)
    assert not busy.too_much(None, 200)
    assert not VegasLimit(fails=lambda _: True).too_much(None, NO_RESULT)
    assert not VegasLimit().too_much(None, 503)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"initial": 0}, "VegasLimit: initial must be a whole number, 1 or more, not 0"),
        ({"minimum": True}, "minimum must be a whole number, 1 or more, not True"),
        ({"maximum": 1.5}, "maximum must be a whole number, 1 or more, not 1.5"),
        ({"maximum": inf}, "maximum must be a whole number"),
        ({"samples": 0}, "samples must be a whole number"),
        ({"probe_after": None}, "probe_after must be a whole number"),
        ({"initial": 5, "minimum": 6}, r"initial \(5\) must lie between minimum \(6\) and maximum"),
        ({"maximum": 5}, r"initial \(10\) must lie between minimum \(1\) and maximum \(5\)"),
        ({"on": (BaseException,)}, "on lists classes of Exception"),
        ({"on": "late"}, "on lists classes of Exception"),
        ({"fails": 3}, "fails is a function or None, not 3"),
        ({"fails": trio.sleep}, "fails has to answer at once"),
        ({"max": 3}, "there is no option 'max'"),
    ],
)
def test_wrong_options_are_refused(options, text):
    """A wrong option is refused where it is written, by its name."""
    with pytest.raises(OptionError, match=text):
        VegasLimit(**options)


def test_it_is_a_value():
    """Two that say the same are equal, so that declarations can agree; it shows its options, and a law what it has found."""
    assert VegasLimit(maximum=50) == VegasLimit(maximum=50) != VegasLimit(maximum=60)
    assert attrs.evolve(VegasLimit(), maximum=50).maximum == 50
    law = made()
    assert repr(law) == "<Vegas 10, a call alone takes unknown>"
    a_round(law, 0.25)
    assert "a call alone takes 0.25 s" in repr(law)
