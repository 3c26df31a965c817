"""The stream: order, numbers without holes, bounded readers that know what they missed, nothing left behind."""

from __future__ import annotations

import gc

import attrs
import pytest
import trio
from hypothesis import given, strategies as st

from actors import Event, Gap, Stream


@attrs.frozen(kw_only=True)
class Noted(Event):
    """Something that happened."""

    n: int = 0


def stream() -> Stream:
    """A stream whose clock is the number of its events."""
    made = Stream(clock=lambda: float(made.seq))
    return made


def drain(sub):
    """Everything that can be read now."""
    out = []
    while (event := sub.receive_nowait()) is not None:
        out.append(event)
    return out


def test_numbers_have_no_holes():
    """Every event has the number after that of the one before, from 1, and the time at which it was reported."""
    events = stream()
    sub = events.subscribe()
    for n in range(5):
        events.emit(Noted, "app/a/0", 3, n=n)

    got = drain(sub)
    assert [e.seq for e in got] == [1, 2, 3, 4, 5]
    assert [e.time for e in got] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [e.n for e in got] == [0, 1, 2, 3, 4]
    assert {(e.path, e.run, e.kind) for e in got} == {("app/a/0", 3, "Noted")}


def test_what_nobody_listens_to_still_counts():
    """Numbers go on while nobody listens, so that a later reader can tell how much there was."""
    events = stream()
    events.emit(Noted, "a")
    assert not events.on
    sub = events.subscribe()
    events.emit(Noted, "a")

    assert [e.seq for e in drain(sub)] == [2]
    assert events.statistics().emitted == 2


def test_a_late_subscriber_gets_what_comes_after():
    """A reader gets all events from its subscription on and none from before it."""
    events = stream()
    first = events.subscribe()
    events.emit(Noted, "a", n=1)
    second = events.subscribe()
    events.emit(Noted, "a", n=2)

    assert [e.n for e in drain(first)] == [1, 2]
    assert [e.n for e in drain(second)] == [2]


def test_a_slow_reader_is_told_what_it_missed():
    """Of more events than fit the newest stay, and a Gap before them says how many are gone."""
    events = stream()
    sub = events.subscribe(size=3)
    for n in range(10):
        events.emit(Noted, "a", n=n)

    gap, *rest = drain(sub)
    assert isinstance(gap, Gap)
    assert gap.missed == 7
    assert gap.seq == 7
    assert "7 events" in gap.sentence()
    assert [e.n for e in rest] == [7, 8, 9]
    assert events.statistics().dropped == 7


def test_a_gap_is_exact_even_if_more_is_lost_after_it():
    """Between a Gap and the event it stands before nothing can be lost."""
    events = stream()
    sub = events.subscribe(size=1)
    for n in range(3):
        events.emit(Noted, "a", n=n)
    first = sub.receive_nowait()
    events.emit(Noted, "a", n=3)
    events.emit(Noted, "a", n=4)

    assert isinstance(first, Gap)
    shown = [(e.missed if isinstance(e, Gap) else f"n={e.n}") for e in [first, *drain(sub)]]
    assert shown == [2, "n=2", 1, "n=4"]


def test_one_reader_does_not_slow_another():
    """What one reader loses another one still gets."""
    events = stream()
    slow, quick = events.subscribe(size=1), events.subscribe(size=10)
    for n in range(5):
        events.emit(Noted, "a", n=n)

    assert [e.n for e in drain(quick)] == [0, 1, 2, 3, 4]
    assert [e.kind for e in drain(slow)] == ["Gap", "Noted"]


@given(st.integers(1, 5), st.lists(st.booleans(), max_size=60))
def test_missed_and_received_add_up(size, steps):
    """Whatever the pace, missed + received = published, in order, and never two Gaps in a row."""
    events = stream()
    sub = events.subscribe(size)
    got = []
    for publish in steps:
        if publish:
            events.emit(Noted, "a")
        elif (event := sub.receive_nowait()) is not None:
            got.append(event)
    sub.close()
    got += drain(sub)

    missed, last = 0, 0
    for before, event in zip([None, *got], got, strict=False):
        if isinstance(event, Gap):
            assert not isinstance(before, Gap)
            assert event.missed > 0
            assert event.seq == last + event.missed
            missed += event.missed
        else:
            assert event.seq == last + 1
        last = event.seq
    received = sum(not isinstance(event, Gap) for event in got)
    assert missed + received == sum(steps)
    assert not got or not isinstance(got[-1], Gap)


def test_leaving_the_loop_leaves_nothing():
    """A reader that is forgotten without being closed is gone, and nothing is built for it any more."""
    events = stream()
    sub = events.subscribe()
    events.emit(Noted, "a")
    assert events.statistics().subscriptions == 1
    del sub
    gc.collect()

    assert events.statistics().subscriptions == 0
    events.emit(Noted, "a")
    assert not events.on


async def test_breaking_out_of_the_loop_early(autojump_clock):
    """`async for` over a subscription can be left at any time without closing anything."""
    events = Stream()

    async def first_one():
        async for event in events.subscribe():
            return event
        return None

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first_one)
        await trio.sleep(1)
        events.emit(Noted, "a")
    gc.collect()
    assert events.statistics().subscriptions == 0


async def test_a_closed_subscription_ends_after_what_it_has(autojump_clock):
    """After its end a reader still gets what is queued, then the loop ends."""
    events = Stream()
    with events.subscribe() as sub:
        events.emit(Noted, "a", n=1)
    events.emit(Noted, "a", n=2)

    assert [event.n async for event in sub] == [1]
    assert events.statistics().subscriptions == 0
    assert "closed" in repr(sub)


async def test_the_end_of_the_stream_ends_every_loop(autojump_clock):
    """Readers that wait when the stream is closed are woken and end; so does one that comes later."""
    events = Stream()
    ended = []

    async def read():
        sub = events.subscribe()
        ended.append([event.n async for event in sub])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(read)
        await trio.sleep(1)
        events.emit(Noted, "a", n=1)
        events.close()

    assert ended == [[1], [1]]
    assert [event async for event in events.subscribe()] == []
    assert not events.on


async def test_a_cancelled_reader_takes_nothing(autojump_clock):
    """Cancelling a wait for the next event loses none."""
    events = Stream()
    sub = events.subscribe()
    with trio.move_on_after(1):
        await anext(sub)
    events.emit(Noted, "a", n=1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(sub)

    assert (await anext(sub)).n == 1


def test_taps_are_called_in_the_step():
    """A tap sees each event in the step in which it is reported, in order, until it is taken off."""
    events, seen = stream(), []
    untap = events.tap(lambda event: seen.append(event.seq))
    events.emit(Noted, "a")
    assert seen == [1]
    untap()
    untap()
    events.emit(Noted, "a")

    assert seen == [1]
    assert not events.on


def test_a_tap_that_ends_itself_hides_nothing_from_the_next():
    """A tap may take itself off while it is called; those after it still get that event."""
    events, seen = stream(), []

    def once(event):
        untap()

    untap = events.tap(once)
    events.tap(lambda event: seen.append(event.seq))
    events.emit(Noted, "a")

    assert seen == [1]


def test_a_raising_tap_disturbs_nobody(caplog):
    """The error of a tap is counted and logged with its traceback; the reporter and all others go on."""
    events, seen = stream(), []

    def bad(event):
        raise ValueError("bad tap")

    events.tap(bad)
    events.tap(lambda event: seen.append(event.seq))
    events.emit(Noted, "a")
    events.emit(Noted, "a")

    assert seen == [1, 2]
    assert events.statistics().tap_errors == 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert all("bad tap" in str(record.exc_info[1]) for record in caplog.records)


@pytest.mark.parametrize("size", [0, -1])
def test_a_subscription_holds_something(size):
    """A size below 1 is refused."""
    with pytest.raises(ValueError, match="at least 1 event"):
        stream().subscribe(size)
