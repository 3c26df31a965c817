"""Working a running tree from the command line: what is done, what is said, and the exit code."""

from __future__ import annotations

import json

import pytest
import trio

from actors.jobs import Engine, JobWorker, MemoryEngine, NewJob
from actors.resilience import BreakerPolicy, Dependency
from supervision import Supervisor, Worker
from tests.cli.kit import ask, served, shop


@pytest.fixture
def where(app, monkeypatch) -> str:
    """Where the tree of a test is seen; the commands know it from the environment."""
    monkeypatch.setenv("TREEWARDEN_SOCKET", str(app / "s"))
    return f"unix:{app / 's'}"


async def test_a_life_of_verbs(where, capfd) -> None:
    """Each verb does what it says, says what it did, and exits with 0."""
    async with served(shop(), where) as pool:
        for verb, state, said in (
            ("restart", "running", "is running again"),
            ("stop", "stopped", "is stopped"),
            ("start", "running", "is running"),
            ("drain", "stopped", "has handled what was queued"),
            ("disable", "disabled", "is disabled"),
            ("enable", "running", "is enabled and running"),
            ("reset", "running", "has its failures forgotten"),
        ):
            assert await ask(verb, "shop/mail/smtp") == 0
            assert pool.info("smtp").state == state
            assert f"shop/mail/smtp {said}" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["work/1", "shop/work/1", "*/1", "w*/1", "work"])
async def test_names_for_what_is_meant(where, capfd, name: str) -> None:
    """A path, the end of one, a bare name or a glob will do."""
    async with served(shop(), where) as pool:
        assert await ask("restart", name) == 0
        assert pool.info("shop/work/1").run == 2
        assert pool.info("shop/work/0").run == (2 if name == "work" else 1)


async def test_all_is_everything(where) -> None:
    """`all` means the whole tree below its root."""
    async with served(shop(), where) as pool:
        await ask("stop", "all")
        assert {info.state for info in pool.workers()} <= {"stopped", "disabled"}
        await pool.start("work")  # or nothing would be left to wait for


@pytest.mark.parametrize(("n", "left"), [("4", 4), ("+1", 3), ("-1", 1), ("0", 0)])
async def test_scale(where, capfd, n: str, left: int) -> None:
    """To a number, or by a change."""
    async with served(shop(), where) as pool:
        assert await ask("scale", "work", n) == 0
        assert sum(info.name == "work" for info in pool.workers()) == left


async def test_what_is_not_there(where, capfd) -> None:
    """Exit code 4, and the nearest name."""
    async with served(shop(), where):
        code = await ask("restart", "shop/wrok")

    out, err = capfd.readouterr()
    assert (code, out) == (4, "")
    assert "wrok" in err
    assert "Did you mean shop/work?" in err


async def test_what_cannot_be_done(where, capfd) -> None:
    """Exit code 1, with the reason; JSON has it too."""
    async with served(shop(), where):
        code = await ask("enable", "smtp")
        assert "not disabled" in capfd.readouterr().err
        await ask("enable", "smtp", "--json")
    told = json.loads(capfd.readouterr().out)

    assert code == 1
    assert told["done"] == []
    assert "not disabled" in told["failed"]["smtp"]


async def test_some_done_and_some_not(where, capfd) -> None:
    """Exit code 6; stdout has what was done, stderr what was not."""
    async with served(shop(), where):
        code = await ask("restart", "smtp", "spare", "nobody")
    out, err = capfd.readouterr()

    assert code == 6
    assert "smtp is running again" in out
    assert "spare" in err
    assert "nobody" in err


async def test_the_whole_tree_is_stopped_only_on_purpose(where, capfd) -> None:
    """Without --yes, and nobody to ask, nothing is stopped; with it, the tree ends."""
    async with served(shop(), where) as pool:
        assert await ask("stop") == 2
        assert "add --yes" in capfd.readouterr().err
        assert pool.health().ready
        assert await ask("stop", "--yes") == 0
        await pool.wait_stopped()


async def test_dead_letters_are_sent_again_or_dropped(where, capfd) -> None:
    """By the path of their worker; dropping has to be confirmed."""
    async with served(shop(), where) as pool:
        for _ in range(2):
            await pool.ref("shop/work/0").tell("fail")
            await pool.wait_state("shop/work/0", "ready")
            await trio.testing.wait_all_tasks_blocked(0.01)
            await ask("reset", "work")
        count = len(pool.dead_letters)
        assert count >= 1
        assert await ask("letters", "drop", "shop/work/0") == 2
        assert len(pool.dead_letters) == count
        assert await ask("letters", "drop", "shop/work/0", "--yes") == 0
        assert len(pool.dead_letters) == 0
        assert await ask("letters", "requeue", "shop/work/0") == 4


flaky = Dependency("bank", timeout=5, breaker=BreakerPolicy(failures=1))


async def opens_its_breaker(ctx):
    async def call():
        raise ConnectionError

    try:
        await flaky.call(call)
    except ConnectionError:
        pass
    await ctx.sleep(float("inf"))


async def test_a_breaker_is_reset_by_its_name(where, capfd) -> None:
    """`reset` closes the breaker of a dependency of that name; a name that means nothing gets a list of them."""
    async with served(Supervisor("shop", [Worker("till", opens_its_breaker)]), where) as pool:
        while not pool.dependencies() or pool.dependencies()["bank"].breaker.admits:
            await trio.sleep(0.01)
        assert await ask("reset", "bank") == 0
        assert pool.dependencies()["bank"].breaker.admits
        capfd.readouterr()
        assert await ask("reset", "banc") == 4
    assert capfd.readouterr().err.endswith("Breakers that are known now: bank.\n")


def jobs(engine: Engine) -> Supervisor:
    async def poisonous(job, ctx):
        from actors.errors import PoisonMessage

        raise PoisonMessage("it can never work")

    return Supervisor("shop", [Worker("charges", JobWorker("charge", poisonous, engine=engine))])


async def test_jobs_are_listed_paused_and_limited(where, capfd) -> None:
    """A queue is a line; pausing, resuming and limiting go by the type of its jobs."""
    engine = MemoryEngine()
    async with served(jobs(engine), where):
        while await ask("jobs", "pause", "charge"):
            await trio.sleep(0.01)
        assert "charge" in (await engine.statistics()).paused
        assert await ask("jobs", "resume", "charge") == 0
        assert await ask("jobs", "limit", "charge", "3") == 0
        assert (await engine.statistics()).limits == {"charge": 3}
        assert await ask("jobs", "limit", "charge", "none") == 0
        assert await ask("jobs", "limit", "charge", "few") == 2
        assert (await engine.statistics()).limits == {}


async def test_one_job_is_shown_retried_and_cancelled(where, capfd) -> None:
    """By its key; `show` has a line for each field, and cancelling has to be confirmed."""
    engine = MemoryEngine()
    async with served(jobs(engine), where):
        key = (await engine.enqueue(NewJob("charge", {"card": "4111"}, delay=900.0))).key
        while await ask("jobs", "show", key):
            await trio.sleep(0.01)
        out = capfd.readouterr().out
        fields = dict(line.split(maxsplit=1) for line in out.splitlines())
        assert (fields["engine"], fields["key"], fields["state"]) == ("memory", key, "scheduled")
        assert "4111" not in out
        assert await ask("jobs", "retry", key, "--retries", "5", "--engine", "memory") == 0
        assert f"{key} is due now" in capfd.readouterr().out
        while not await engine.poison("charge", most=1):
            await trio.sleep(0.01)
        assert (await engine.find(key)).retries == 5

        assert await ask("jobs", "cancel", key) == 2
        assert await ask("jobs", "cancel", key, "--yes") == 0
        assert (await engine.find(key)).state == "cancelled"
        assert await ask("jobs", "retry", key) == 1
        assert "it is cancelled" in capfd.readouterr().err
        assert await ask("jobs", "retry", key, "--engine", "other") == 4
        assert await ask("jobs", "retry", key, "--retries", "0") == 2
        assert await ask("jobs", "show", "nothing") == 4


async def test_poison_is_listed_requeued_and_dropped(where, capfd) -> None:
    """By the key of the job, which the list shows."""
    engine = MemoryEngine()
    async with served(jobs(engine), where):
        job = await engine.enqueue(NewJob("charge", {}))
        key = getattr(job, "key", job)
        while not await engine.poison("charge", most=1):
            await trio.sleep(0.01)
        capfd.readouterr()
        assert await ask("poison") == 0
        assert str(key) in capfd.readouterr().out
        assert await ask("jobs", "show", str(key)) == 0
        assert "incident" in capfd.readouterr().out
        assert await ask("poison", "requeue", str(key)) == 0
        while not await engine.poison("charge", most=1):
            await trio.sleep(0.01)
        assert await ask("poison", "drop", str(key), "-y") == 0
        assert not await engine.poison("charge", most=1)
        assert await ask("poison", "drop", "999999", "-y") in (1, 4)
