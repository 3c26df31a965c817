"""What every engine promises about input that is strange, too large, or wrong: refused with the reason, or handled; never in the way."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from random import Random

import pytest

from actors.jobs import (
    Completed,
    Errored,
    Failed,
    Incident,
    Lease,
    NewJob,
    NoSuchJob,
    NotStorable,
    Poisoned,
    PutBack,
    Settlement,
    State,
    Why,
)
from actors.options import OptionError
from tests.jobs.kit import DONE, ask, claim, put, states, take

NUL = "before\0after"
ODD = r'{"name":"odd","half":"\ud800"}'


@pytest.mark.parametrize(
    "variables", [[1], "text", 7, {1: 2}, {"x": b"bytes"}, {"x": inf}, {"x": "\ud800"}]
)
async def test_variables_that_are_no_object(engine, variables):
    """Variables that are no JSON object are refused when they are enqueued."""
    with pytest.raises(NotStorable):
        await engine.enqueue(NewJob("a", variables))

    assert await states(engine) == {}


VALUES = {
    "nothing": "",
    "no character": NUL,
    "quotation marks": "'\"\\{}%s ?",
    "other scripts": "Zürich 東京 🚀 \u202e",
    "a whole number of 300 digits": 10**300,
    "a small number": 5e-324,
    "deep": [[[[[[[[[[{"x": [{}]}]]]]]]]]]],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_values_come_back_as_they_were(engine, value):
    """Whatever JSON can hold is handed out as it was put in, whole or by name."""
    await engine.enqueue(NewJob("a", {"name": value, value if isinstance(value, str) else "k": 1}))
    (whole,) = await engine.activate(claim())
    await engine.settle(whole.lease, PutBack(Why.INTERRUPTED))
    (part,) = await engine.activate(claim(fetch=("name",)))

    assert whole.variables["name"] == value
    assert part.variables == {"name": value}


async def test_names_that_are_strange(engine):
    """Variables with strange names are found by them."""
    names = ("", "a.b", "$", "a b", "ü", "0", "a'b", "[0]", "%s", "null")
    await engine.enqueue(NewJob("a", {name: n for n, name in enumerate(names)}))

    (job,) = await engine.activate(claim(fetch=(*names, "not there")))

    assert job.variables == {name: n for n, name in enumerate(names)}


async def test_strange_values_keep_nobody_up(engine):
    """A job whose values the database cannot take apart is handed out or set aside, and the others of its batch are handed out."""
    await put(engine, "first")
    (odd,) = await put(engine, NUL)
    await put(engine, "last")

    found = await engine.exchange((), claim(fetch=("name",)))
    names = {job.variables["name"] for job in found.jobs}
    aside = {poison.key for poison in found.poisoned}

    assert {"first", "last"} <= names
    assert NUL in names or odd in aside


@pytest.mark.parametrize(
    "outcome",
    [
        Failed(NUL, 1),
        Incident(NUL),
        Poisoned(NUL),
        PutBack(Why.SNOOZED, NUL),
        Errored(NUL, NUL, '{"x":"\\u0000"}'),
        Completed('{"x":"\\u0000","y":"東京"}'),
        Failed("%s ' \" \\ {x} ?", 1),
        Failed("x" * 2000, 1),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
async def test_outcomes_that_are_strange(engine, outcome):
    """Whatever a handler says is stored, and so is what the others of the batch say."""
    odd, good = await put(engine, "odd", "good")
    jobs = await take(engine)
    told = [Settlement(jobs["odd"].lease, outcome), Settlement(jobs["good"].lease, DONE)]

    assert (await engine.exchange(told)).refused == frozenset()
    assert (await engine.find(odd)).state is not State.ACTIVE
    assert (await engine.find(good)).state is State.COMPLETED


@pytest.mark.parametrize("wait", [1e9, 1e12, 1e18, 1e300, inf])
async def test_waits_longer_than_any_calendar(engine, wait):
    """A wait longer than a database can count is as long as it can be, and the rest of the batch is settled."""
    odd, bad, _ = await put(engine, "odd", "bad", "good")
    jobs = await take(engine)
    told = [
        Settlement(jobs["odd"].lease, PutBack(Why.SNOOZED, "later", wait)),
        Settlement(jobs["bad"].lease, Failed("later", 2**70, wait)),
        Settlement(jobs["good"].lease, DONE),
    ]

    found = await engine.exchange(told, claim())

    assert (found.refused, found.jobs) == (frozenset(), ())
    assert (await engine.find(odd)).state is (await engine.find(bad)).state is State.SCHEDULED
    assert (await engine.find(odd)).due_in > 9e8
    assert await engine.cancel(odd)


async def test_waits_that_are_no_number(engine):
    """A wait that is no number is none, and the rest of the batch is settled."""
    odd, _ = await put(engine, "odd", "good")
    jobs = await take(engine)
    told = [
        Settlement(jobs["odd"].lease, PutBack(Why.REFUSED, "later", nan)),
        Settlement(jobs["good"].lease, DONE),
    ]

    assert (await engine.exchange(told)).refused == frozenset()
    assert await states(engine) == {"ready": 1, "completed": 1}
    again = (await take(engine))["odd"]
    assert await engine.settle(again.lease, Failed("later", 1, nan))
    assert (await engine.find(odd)).state is State.READY


@pytest.mark.parametrize("wait", [Decimal("1.5"), Fraction(3, 2), True])
async def test_numbers_of_other_kinds(engine, wait):
    """A wait that is a number of another kind is as good as any, and the rest of the batch is settled."""
    odd, bad, _ = await put(engine, "odd", "bad", "good")
    jobs = await take(engine)
    told = [
        Settlement(jobs["odd"].lease, PutBack(Why.SNOOZED, "later", wait)),
        Settlement(jobs["bad"].lease, Failed("later", 2, wait)),
        Settlement(jobs["good"].lease, DONE),
    ]

    assert (await engine.exchange(told)).refused == frozenset()
    assert {(await engine.find(key)).due_in for key in (odd, bad)} == {float(wait)}
    assert await states(engine) == {"scheduled": 2, "completed": 1}


@pytest.mark.parametrize(
    "options", [{"delay": 1e18}, {"delay": inf}, {"priority": 2**63}, {"retries": 2**31}]
)
async def test_numbers_that_no_database_holds(engine, options):
    """A number that cannot be stored is refused before anything is."""
    with pytest.raises((OptionError, NotStorable)):
        await engine.enqueue_many([NewJob("a"), NewJob("a", **options)])

    assert await states(engine) == {}


TEXTS = {
    "long": "".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000)),
    "with no character": NUL,
    "half a character": "\ud800",
    "strange": "'\"\\%s?:{} ü東",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("what", ["type", "unique", "idempotency_key"])
async def test_texts_that_are_strange(engine, what, text):
    """A type, unique text or idempotency key is kept as it is, or refused with the reason and nothing stored."""
    options = {"type": "a", what: text}
    try:
        done = await engine.enqueue_many([NewJob("b"), NewJob(**options)])
    except (OptionError, NotStorable):
        assert (await engine.statistics()).jobs == {}
    else:
        (job,) = await engine.activate(claim(of=options["type"]))
        assert job.key == done[1].key
        assert await engine.settle(job.lease, Failed("again", 1))
        if what == "unique":
            assert not (await engine.enqueue(NewJob(**options))).created
        if what == "idempotency_key":
            assert job.idempotency_key == text


async def test_ten_megabytes(engine):
    """A payload of 10 MB is refused at the door with what to do."""
    with pytest.raises(NotStorable, match="store it elsewhere"):
        await engine.enqueue(NewJob("a", {"name": "x", "big": "x" * 10_000_000}))

    assert await states(engine) == {}


async def test_two_settlements_of_one_lease(engine):
    """Of two outcomes for one lease in one exchange, one counts and the job has one end."""
    (key,) = await put(engine, "x")
    lease = (await take(engine))["x"].lease

    await engine.exchange([Settlement(lease, DONE), Settlement(lease, Incident("no"))])

    assert (await engine.find(key)).state in (State.COMPLETED, State.INCIDENT)
    assert sum((await states(engine)).values()) == 1


async def test_somebody_else_has_spoilt_it(engine):
    """A stored job whose variables are no object is set aside when its turn comes, and the next one is handed out."""
    bad, good = await put(engine, "bad", "good")
    await ask(engine, "UPDATE {s}jobs SET variables = '[1]' WHERE id = ?", int(bad))

    looks = [await engine.exchange((), claim(1)) for _ in range(2)]

    assert [job.key for look in looks for job in look.jobs] == [good]
    assert [(one.key, one.variables) for look in looks for one in look.poisoned] == [(bad, "[1]")]
    assert [poison.key for poison in await engine.poison()] == [bad]


async def test_half_a_character_that_somebody_else_stored(engine):
    """Variables with half a character in an escape, which we never store, keep nobody from being handed out."""
    odd, _ = await put(engine, "odd", "good")
    await ask(engine, "UPDATE {s}jobs SET variables = ? WHERE id = ?", ODD, int(odd))

    found = await engine.activate(claim(fetch=("name",)))

    assert [job.variables for job in found] == [{"name": "odd"}, {"name": "good"}]


async def test_names_that_json_writes_otherwise(engine):
    """A variable is fetched by its name, whatever that is made of."""
    names = ("a\\b", "a\nb", "a\tb", "a.b", "a[0]", "$", "a b", "'", "é", "😀", "\u2028", "\\u0000")
    await engine.enqueue(NewJob("a", {name: n for n, name in enumerate(names)}))

    (job,) = await engine.activate(claim(fetch=names))

    assert job.variables == {name: n for n, name in enumerate(names)}


@pytest.mark.parametrize("key", ["", "x", str(2**63), str(-(2**70)), "9" * 400])
async def test_keys_that_are_none(engine, key):
    """What cannot be the key of a job is a job that is not there, and its lease is lost."""
    with pytest.raises(NoSuchJob):
        await engine.find(key)
    assert not await engine.cancel(key)
    assert not await engine.settle(Lease(key, key), DONE)
    assert await engine.extend([Lease(key, "1")], 60) == {Lease(key, "1")}


async def test_an_empty_exchange(engine):
    """Nothing to say and nothing wanted is no error."""
    assert (await engine.exchange()).jobs == ()
    assert await engine.enqueue_many([]) == []
    assert await engine.extend([], 60) == frozenset()
