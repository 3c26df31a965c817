"""What every engine promises about the list of jobs in a state: which are in it, in which order, and what it says of each."""

from __future__ import annotations

import pytest

from actors.jobs import (
    Engine,
    Errored,
    Incident,
    MemoryEngine,
    NewJob,
    Poisoned,
    Settlement,
    State,
)
from actors.jobs.errors import NotSupported
from actors.options import OptionError
from tests.jobs.kit import DONE, Clock, ask, claim, failed, put, take


async def keys(engine, state, *args, **more):
    """The keys of what is listed."""
    return [info.key for info in await engine.jobs(state, *args, **more)]


async def one_of_each(engine, clock: Clock) -> dict[State, str]:
    """A job in each state, by state."""
    names = ["completed", "errored", "incident", "cancelled", "active"]
    made = dict(zip(names, await put(engine, *names), strict=True))
    jobs = await take(engine)
    told = {"completed": DONE, "errored": Errored("no"), "incident": Incident("look")}
    await engine.exchange([Settlement(jobs[name].lease, told[name]) for name in told])
    await engine.cancel(made["cancelled"])
    (made["scheduled"],) = await put(engine, "scheduled", delay=60)
    (made["ready"],) = await put(engine, "ready")
    clock.pass_(1)
    return {State(name): key for name, key in made.items()}


async def test_each_state_has_its_list(engine, clock):
    """A job is listed under the state that it has, as `find` tells it, and under no other."""
    made = await one_of_each(engine, clock)

    for state in State:
        assert await engine.jobs(state) == (await engine.find(made[state]),)
        assert await keys(engine, str(state), "a") == [made[state]]
        assert await keys(engine, state, "b") == []


async def test_whatever_needs_a_person(engine, clock):
    """Incidents are listed whatever made them: a handler's word, retries that are used up, poison, a lost worker."""
    made = await put(engine, "says so", "tired", "poison", "killer")
    jobs = await take(engine)
    told = {"says so": Incident("look"), "tired": failed(0), "poison": Poisoned("bad")}
    await engine.exchange([Settlement(jobs[name].lease, told[name]) for name in told])
    clock.pass_(61)
    assert (await engine.exchange((), claim(max_deliveries=1))).jobs == ()

    found = await engine.jobs(State.INCIDENT)

    assert [info.key for info in found] == made
    assert [info.error for info in found][:3] == ["look", "it broke", "bad"]
    assert "worker lost" in found[3].error
    assert {info.state for info in found} == {State.INCIDENT}


async def test_oldest_first_and_no_more_than_asked_for(engine):
    """A list is in the order in which the jobs were put in, whatever their priority, and ends where it was told to."""
    made = [(await put(engine, "x", of=kind, priority=n))[0] for n, kind in enumerate("abab")]

    assert await keys(engine, "ready") == made
    assert await keys(engine, "ready", most=3) == made[:3]
    assert await keys(engine, "ready", "b") == [made[1], made[3]]
    assert await keys(engine, "ready", "b", most=1) == [made[1]]
    assert await keys(engine, "ready", most=0) == []
    assert await keys(engine, "ready", most=10**30) == made


async def test_what_is_due_is_ready(engine, clock):
    """A scheduled job that is due is listed as ready although nobody has claimed since, in its place among the others."""
    first, later, last = [(await put(engine, "x", delay=delay))[0] for delay in (0.0, 5.0, 0.0)]
    clock.pass_(4.9)
    assert await keys(engine, "ready") == [first, last]
    assert await keys(engine, "scheduled") == [later]

    clock.pass_(0.2)
    assert await keys(engine, "ready") == [first, later, last]
    assert await keys(engine, "ready", most=2) == [first, later]
    assert await keys(engine, "scheduled") == []


async def test_since_when(engine, clock):
    """A job says how old it is, and an incident since when it has been one; another time it is one anew."""
    (key,) = await put(engine, "x")
    clock.pass_(10)
    await engine.settle((await take(engine))["x"].lease, Incident("look"))
    clock.pass_(3)

    (info,) = await engine.jobs("incident")
    assert (info.age, info.incident_for) == (13, 3)

    await engine.resolve(key)
    assert (await engine.find(key)).incident_for is None
    clock.pass_(100)
    await engine.settle((await take(engine))["x"].lease, failed(0))
    clock.pass_(2)
    assert (await engine.find(key)).incident_for == 2
    await engine.cancel(key)
    assert (await engine.find(key)).incident_for is None


async def test_poison_is_an_incident_since_it_was_set_aside(engine, clock):
    """A job that was set aside without a word of its own says since when, too."""
    await put(engine, "x")
    await take(engine)
    clock.pass_(61)
    await engine.exchange((), claim(max_deliveries=1))
    clock.pass_(4)

    (info,) = await engine.jobs("incident")

    assert info.incident_for == 4


async def test_what_is_listed_can_be_acted_on(engine):
    """What a list of incidents shows can be resolved and dropped by its keys, and then the list is empty."""
    made = await put(engine, "one", "two")
    jobs = await take(engine)
    await engine.exchange([Settlement(job.lease, Incident("look")) for job in jobs.values()])

    first, second = await keys(engine, "incident", "a")
    await engine.resolve(first)
    await engine.drop(second)

    assert [first, second] == made
    assert await keys(engine, "incident") == []
    assert await keys(engine, "ready") == [first]
    assert await keys(engine, "cancelled") == [second]


async def test_a_list_leaves_everything_as_it_is(engine, clock):
    """Looking claims nothing and renews nothing: what is listed as ready is handed out, and a lease runs out in its time."""
    await put(engine, "x", "y")
    await take(engine, 1)
    for state in State:
        await engine.jobs(state)

    assert list(await take(engine)) == ["y"]
    clock.pass_(61)
    for state in State:
        await engine.jobs(state)
    assert sorted(await take(engine)) == ["x", "y"]


WRONG = {
    "another word": ("incidents", "Did you mean 'incident'"),
    "nothing": ("", "state must be one of"),
    "none": (None, "not None"),
    "a number": (7, "not 7"),
    "half a character": ("\ud800", "state must be one of"),
    "no words": (["incident"], "state must be one of"),
    "another case": ("INCIDENT", "state must be one of"),
}


@pytest.mark.parametrize(("state", "says"), WRONG.values(), ids=WRONG)
async def test_no_such_state(engine, state, says):
    """A state that there is not is refused with those that there are, and is not taken for an empty list."""
    with pytest.raises(OptionError, match=says) as info:
        await engine.jobs(state)

    assert info.value.option == "state"


@pytest.mark.parametrize("of", ["", 7, b"a", ["a"], "\ud800", "x" + "\udfff" * 1000], ids=ascii)
async def test_no_such_type(engine, of):
    """A type that no job can have is refused, by both lists."""
    for listed in (engine.jobs("incident", of), engine.poison(of)):
        with pytest.raises(OptionError, match="job_type"):
            await listed


@pytest.mark.parametrize("most", [-1, 1.5, True, None, "10"])
async def test_no_such_number(engine, most):
    """A length that is none is refused, by both lists."""
    for listed in (engine.jobs("incident", most=most), engine.poison(most=most)):
        with pytest.raises(OptionError, match="most must be a whole number"):
            await listed


STRANGE = ["before\0after", "'\"\\%s?:{} ü東", "x" * 100_000, "' OR 1=1 --", "%(type)s", "{s}"]


@pytest.mark.parametrize("of", STRANGE, ids=lambda text: ascii(text[:20]))
async def test_types_that_are_strange(engine, of):
    """A type is taken as it is, whatever is in it: it finds its own jobs and no others."""
    await engine.enqueue(NewJob("a"))
    assert await engine.jobs("ready", of) == ()
    assert await engine.poison(of, most=10**30) == ()


async def test_time_that_passes_is_told_of_those_that_wait_for_it(engine, clock):
    """A job says how long it has been due while it waits for a worker, and nothing of it while it waits for none."""
    (key,) = await put(engine, "x")
    clock.pass_(5)
    assert (await engine.find(key)).due_in == -5

    lease = (await take(engine))["x"].lease
    assert (await engine.find(key)).due_in == 0
    await engine.settle(lease, failed(0))
    clock.pass_(5)
    (info,) = await engine.jobs("incident")
    assert (info.due_in, info.incident_for) == (0, 5)


@pytest.mark.parametrize(
    ("verb", "args", "option"),
    [
        ("set_retries", (2.5,), "retries"),
        ("set_retries", (-1,), "retries"),
        ("set_retries", (True,), "retries"),
        ("set_retries", (10**12,), "retries"),
        ("resolve", ("2",), "retries"),
        ("limit", (float("nan"),), "most"),
        ("limit", (-1,), "most"),
        ("prune", (), "older_than"),
    ],
    ids=repr,
)
async def test_odd_wishes_change_nothing(engine, verb, args, option):
    """Numbers that mean nothing are refused by every engine with the option's name, before anything is changed."""
    (key,) = await put(engine, "x")
    before = await engine.find(key)
    asked = {"limit": ("a", *args), "prune": (float("nan"),)}.get(verb, (key, *args))
    with pytest.raises(OptionError) as caught:
        await getattr(engine, verb)(*asked)

    assert caught.value.option == option
    assert (await engine.find(key)).retries == before.retries
    assert (await engine.statistics()).limits == {}


async def test_a_job_of_a_strange_type_is_listed(engine):
    """A type with quotation marks and other scripts in it is found by its list."""
    of = "'\"\\%s?:{} ü東"
    done = await engine.enqueue(NewJob(of))

    assert await keys(engine, "ready", of) == [done.key]


async def test_spoilt_variables_are_shown_as_they_are(engine):
    """A job whose stored variables are no object any more is listed with what is there."""
    (bad,) = await put(engine, "bad")
    await ask(engine, "UPDATE {s}jobs SET variables = '[1]' WHERE id = ?", int(bad))
    await engine.exchange((), claim())

    (info,) = await engine.jobs("incident")

    assert (info.key, info.variables) == (bad, "[1]")


async def test_an_engine_without_lists():
    """An engine that cannot list says so, and a list is nothing that every engine has to have."""
    with pytest.raises(NotSupported, match="listing jobs"):
        await Engine.jobs(MemoryEngine(), "incident")
