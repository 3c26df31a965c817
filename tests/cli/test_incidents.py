"""Incidents from the command line: listed, and passed on to what ends them."""

from __future__ import annotations

import io
import json
import sys

import pytest
import trio

from actors.errors import IncidentError
from actors.jobs import Engine, JobWorker, MemoryEngine, NewJob, State
from supervision import Supervisor, Worker
from supervision.cli.keys import Named, few, listed
from supervision.cli.words import Ended
from tests.cli.kit import ask, served


@pytest.fixture
def where(app, monkeypatch) -> str:
    """Where the tree of a test is seen; the commands know it from the environment."""
    monkeypatch.setenv("TREEWARDEN_SOCKET", str(app / "s"))
    return f"unix:{app / 's'}"


async def unlucky(job, ctx):
    """Asks for a person."""
    raise IncidentError(f"card {job.variables['card'][-4:]}\nwas refused")


def till(*engines: Engine) -> Supervisor:
    """A tree that takes jobs of two types from each engine."""
    return Supervisor(
        "shop",
        [
            Worker(f"{kind}s-{n}", JobWorker(kind, unlucky, engine=engine))
            for n, engine in enumerate(engines)
            for kind in ("charge", "mail")
        ],
    )


async def put(engine: Engine, *types: str) -> list[str]:
    """One job of each type, when all of them wait for a person."""
    made = [await engine.enqueue(NewJob(of, {"card": "secret 4111"})) for of in types]
    for job in made:
        while (await engine.find(job.key)).state is not State.INCIDENT:
            await trio.sleep(0.01)
    return [job.key for job in made]


def pipe(monkeypatch, text: str) -> None:
    """Let a text come on stdin."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


async def test_incidents_are_listed(where, capfd) -> None:
    """A line for each with its key, type, engine, retries, how long it waits and why, and nothing of what is in it."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        one, two = await put(engine, "charge", "mail")
        assert await ask("jobs", "incidents") == 0
        out, err = capfd.readouterr()
        head, *lines = [line.split() for line in out.splitlines()]
        assert head == ["KEY", "TYPE", "ENGINE", "RETRIES", "WAITS", "ERROR"]
        assert [line[:4] for line in lines] == [
            [one, "charge", "memory", "3"],
            [two, "mail", "memory", "3"],
        ]
        assert lines[0][5:] == ["card", "4111", "was", "refused"]
        assert ("secret" in out, err) == (False, "")

        assert await ask("jobs", "incidents", "mail", "--engine", "memory") == 0
        assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == ["KEY", two]


async def test_a_list_that_is_empty_or_cut_says_so(where, capfd) -> None:
    """On stderr, so that stdout has the list alone."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        await put(engine, "charge", "charge")
        assert await ask("jobs", "incidents", "mail") == 0
        out, err = capfd.readouterr()
        assert (out, "no job waits for a person" in err) == ("", True)
        assert await ask("jobs", "incidents", "--most", "1") == 0
        out, err = capfd.readouterr()
        assert (len(out.splitlines()), "there are more: --most N" in err) == (2, True)


async def test_as_json(where, capfd) -> None:
    """With --json, before or after the words, it is the answer of the tree."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        (key,) = await put(engine, "charge")
        for args in (["jobs", "incidents", "charge", "--json"], ["jobs", "--json", "incidents"]):
            assert await ask(*args) == 0
            answer = json.loads(capfd.readouterr().out)
            assert [job["key"] for job in answer["jobs"]] == [key]
            assert answer["more"] is False


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--engine", "other"], 4, "known: memory"),
        (["--most", "few"], 2, "not a whole number"),
        (["--most", "0"], 2, "not a whole number"),
        (["charge", "mail"], 2, "unrecognized arguments"),
        (["\udcff"], 0, "no job waits"),
        ([""], 0, ""),
    ],
)
async def test_what_is_asked_wrongly(where, capfd, args, code, says) -> None:
    """One sentence and an exit code, whatever stands on the command line."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        await put(engine, "charge")
        assert await ask("jobs", "incidents", *args) == code
        assert says in capfd.readouterr().err


async def test_what_was_listed_is_tried_again(where, capfd, monkeypatch) -> None:
    """The JSON of the list, piped into `jobs retry -`, has every job of it run once more, and no other."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        made = await put(engine, "charge", "mail", "charge")
        await ask("jobs", "incidents", "charge", "--json")
        pipe(monkeypatch, capfd.readouterr().out)
        assert await ask("jobs", "retry", "-", "--retries", "5") == 0
        said = capfd.readouterr().out
        assert [line.split()[0] for line in said.splitlines()] == [made[0], made[2]]
        for key, retries in zip(made, (5, 3, 5), strict=True):
            assert (await engine.find(key)).retries == retries


async def test_a_job_that_is_named_twice(where, capfd) -> None:
    """It is acted on once."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        (key,) = await put(engine, "charge")
        assert await ask("jobs", "cancel", key, key, "--yes") == 0
        assert len(capfd.readouterr().out.splitlines()) == 1


async def test_what_was_listed_is_cancelled(where, capfd, monkeypatch) -> None:
    """Cancelling what is piped in has to be meant: nothing is done without --yes."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        made = await put(engine, *["charge"] * 7)
        await ask("jobs", "incidents", "--json")
        text = capfd.readouterr().out
        pipe(monkeypatch, text)
        assert await ask("jobs", "cancel", "-") == 2
        err = capfd.readouterr().err
        assert f"{', '.join(made[:5])} and 2 more will be cancelled" in err
        assert "add --yes" in err
        assert len(await engine.jobs("incident")) == 7

        pipe(monkeypatch, text)
        assert await ask("jobs", "cancel", "-", "--yes") == 0
        assert len(await engine.jobs("cancelled")) == 7


async def test_a_key_that_two_engines_have(where, capfd, monkeypatch) -> None:
    """A job goes by the engine that it was listed with; what fails is told with it."""
    one, two = MemoryEngine("one"), MemoryEngine("two")
    async with served(till(one, two), where):
        assert await put(one, "charge") == await put(two, "charge")
        await ask("jobs", "incidents", "--json")
        text = capfd.readouterr().out
        for code, said in ((0, "out"), (1, "err")):
            pipe(monkeypatch, text)
            assert await ask("jobs", "cancel", "-", "--yes") == code
            told = getattr(capfd.readouterr(), said)
            assert len([line for line in told.splitlines() if "cancelled" in line]) == 2
        assert "1 of two: it has ended already" in told
        for engine in (one, two):
            assert [job.key for job in await engine.jobs("cancelled")] == ["1"]


async def test_nothing_comes(where, capfd, monkeypatch) -> None:
    """An empty list piped in is no error: there is nothing to do, and it says so."""
    engine = MemoryEngine()
    async with served(till(engine), where):
        for text in ("", " \n", '{"jobs": [], "more": false}', "[]"):
            for verb in (["retry"], ["cancel", "--yes"], ["cancel"]):
                pipe(monkeypatch, text)
                assert await ask("jobs", *verb, "-") == 0
                assert "there is nothing to do" in capfd.readouterr().err
        pipe(monkeypatch, '{"letters": []}')
        assert await ask("jobs", "retry", "-") == 2
        assert "no list of jobs" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7 8\n9\n", [("7", None), ("8", None), ("9", None)]),
        ('{"jobs": [{"key": "7", "engine": "x"}, {"key": "8"}]}', [("7", "x"), ("8", None)]),
        ('{"poison": [{"key": "7", "engine": "x", "reason": "[1]"}]}', [("7", "x")]),
        ('{"key": "7"}\n\n{"key": "8", "engine": ""}\n', [("7", None), ("8", None)]),
        ('["7", ["8"]]', [("7", None), ("8", None)]),
        ('"7"\n"8"\n', [("7", None), ("8", None)]),
    ],
)
def test_how_jobs_can_be_written(text, found) -> None:
    """As words, as what a list printed, as lines of that, or as the keys of it."""
    assert listed(text) == [Named(*one) for one in found]


@pytest.mark.parametrize("text", ["[7]", "{}", '{"jobs": 7}', '{"jobs": [{"no": 1}]}', "[", '["7", null]', '[""]'])  # fmt: skip
def test_what_is_no_list(text) -> None:
    """Something else is refused as a whole, before anything is done."""
    with pytest.raises(Ended, match="stdin"):
        listed(text)


def test_many_keys_in_a_sentence() -> None:
    """Of many only the first are named."""
    assert few([Named(str(n), None) for n in range(5)]) == "0, 1, 2, 3, 4"
    assert few([Named(str(n), None) for n in range(1000)]) == "0, 1, 2, 3, 4 and 995 more"
