"""Looking at a running tree from the command line: over its socket, by its URL, for people and for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from supervision import Supervisor, Worker
from supervision.__main__ import main
from supervision.cli import reading
from supervision.cli.words import Ended
from tests.cli.kit import ask, idle, served, shop


@pytest.fixture
def where(app, monkeypatch) -> str:
    """Where the tree of a test is seen; the commands know it from the environment."""
    monkeypatch.setenv("TREEWARDEN_SOCKET", str(app / "s"))
    return f"unix:{app / 's'}"


async def test_status_shows_the_tree(where, capfd) -> None:
    """A sum, what needs a look, and a line for each replica; exit code 0 while all is ready."""
    async with served(shop(), where) as pool:
        await pool.wait_ready()
        code = await ask("status")
    out = capfd.readouterr().out.splitlines()

    assert code == 0
    assert out[0].startswith("shop  pid ")
    assert out[0].endswith("3 running, 1 disabled  live ok  ready ok")
    assert out[1].split() == [
        "NAME",
        "STATE",
        "MAILBOX",
        "HANDLED",
        "RESTARTS",
        "SINCE",
        "LAST",
        "ERROR",
    ]
    assert [line.split()[0] for line in out[2:]] == [
        "shop",
        "work/0",
        "work/1",
        "mail",
        "smtp/0",
        "spare/0",
    ]
    assert out[4].startswith("  work/1")


async def test_status_tells_trouble_by_its_exit_code(where, capfd) -> None:
    """A replica that has failed for good is named first, and the exit code is 3."""
    async with served(shop(), where) as pool:
        for _ in range(2):
            await pool.ref("shop/work/0").tell("fail")
        await pool.wait_state("shop/work/0", "failed")
        whole, part = await ask("status"), await ask("status", "work")
        well = await ask("status", "mail/smtp")
    out = capfd.readouterr().out

    assert (whole, part, well) == (3, 3, 0)
    assert "! shop/work/0 failed after 2 failures: ValueError: out of paper" in out
    assert "1 (1 of 1 in a row)" in out


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("work", ["shop/work/0", "shop/work/1"]),
        ("work/1", ["shop/work/1"]),
        ("shop/mail", ["shop/mail", "shop/mail/smtp/0", "shop/mail/spare/0"]),
        ("smt*", ["shop/mail/smtp/0"]),
        ("smtp", ["shop/mail/smtp/0"]),
    ],
)
async def test_status_of_a_part(where, capfd, pattern: str, shown: list[str]) -> None:
    """A path, the end of one, a bare name or a glob mean what is there, with all below it."""
    async with served(shop(), where):
        await ask("status", pattern, "--json")
    frame = json.loads(capfd.readouterr().out)

    assert [row[0] for row in frame["rows"]] == shown


async def test_a_part_that_is_not_there(where, capfd) -> None:
    """Exit code 4, and the nearest name."""
    async with served(shop(), where):
        code = await ask("status", "wrk")
    out, err = capfd.readouterr()

    assert (code, out) == (4, "")
    assert "there is no child 'wrk'. Did you mean 'work'?" in err


async def test_events_are_told_with_their_time(where, capfd) -> None:
    """The past events, from a level on, of a part of the tree, as lines or as JSON."""
    async with served(shop(), where) as pool:
        await pool.ref("shop/work/0").tell("fail")
        await pool.wait_state("shop/work/0", "ready")
        await ask("events", "--level", "warning")
        people = capfd.readouterr().out.splitlines()
        await ask("events", "mail", "--json", "--most", "1", "--level", "debug")
        (program,) = map(json.loads, capfd.readouterr().out.splitlines())

    assert "shop/work/0 failed (run 1): ValueError('out of paper')" in "\n".join(people)
    assert all("info" not in line for line in people)
    assert program["path"].startswith("shop/mail")


async def test_following_events_ends_with_the_tree(where, capfd) -> None:
    """With --follow it goes on with what happens until the tree is gone, and then ends well."""
    codes: list[int] = []

    async def follow() -> None:
        codes.append(await ask("events", "--follow", "--every", "0.05"))

    async def told(text: str) -> None:
        while text not in capfd.readouterr().out:
            await trio.sleep(0.02)

    async with trio.open_nursery() as nursery, served(shop(), where) as pool:
        await pool.scale("work", 3)
        nursery.start_soon(follow)
        await told("shop/work was scaled to 3")
        await pool.scale("work", 1)
        await told("shop/work was scaled to 1")

    assert codes == [0]


@pytest.mark.parametrize(
    ("pid", "uptime", "anew"), [(8, 50.0, True), (7, 0.4, True), (7, 31.0, False)]
)
def test_following_events_sees_a_new_process(monkeypatch, capfd, pid, uptime, anew) -> None:
    """When another process answers, or one that has just begun, that is said, and its events are told from their beginning."""

    def answer(pid: int, uptime: float, *numbers: int) -> dict[str, Any]:
        made = [
            {"seq": n, "time": 1.0, "level": "info", "path": "shop", "text": f"{pid} told {n}"}
            for n in numbers
        ]
        now = {"pid": pid, "uptime": uptime, "time": 5.0, "wall": 1e9}
        return {"events": made, "missed": 0, **now}

    second = answer(pid, uptime, 4)
    script = [answer(7, 30.0, 1, 2, 3), second, *([answer(pid, uptime, 1, 4)] if anew else [])]
    asked: list[object] = []

    class Tree:
        def get(self, path: str, **query: object) -> dict[str, Any]:
            asked.append(query["after"])
            if not script:
                raise Ended("nobody listens there", 4)
            return script.pop(0)

    monkeypatch.setattr(reading, "client", lambda _: Tree())
    code = main(["events", "--follow", "--every", "0.001"])
    out, err = capfd.readouterr()

    assert code == 0
    assert asked == ([0, 3, 0, 4] if anew else [0, 3, 4])
    assert ("started anew: pid 7, now" in err) is anew
    told = [line.rpartition("  ")[2] for line in out.splitlines()]
    assert told[3:] == ([f"{pid} told 1", f"{pid} told 4"] if anew else ["7 told 4"])


async def test_a_stack_says_where_a_run_waits(where, capfd) -> None:
    """The line of the code that a worker waits at is shown, for each of its replicas."""
    async with served(shop(), where) as pool:
        await pool.ref("shop/work/0").tell("hang")
        await trio.testing.wait_all_tasks_blocked(0.01)
        code = await ask("stack", "work")
    out = capfd.readouterr().out

    assert code == 0
    assert out.startswith("shop/work/0")
    assert "handle" in out
    assert "shop/work/1" in out


async def test_health_asks_the_probes(where, capfd) -> None:
    """All three, or one; exit code 0 if well."""
    async with served(shop(), where):
        codes = await ask("health"), await ask("health", "live", "--json")
    *people, program = capfd.readouterr().out.splitlines()

    assert codes == (0, 0)
    assert [line for line in people if line[0] != " "] == ["live: ok", "ready: ok", "started: ok"]
    assert json.loads(program)["live"]["ok"] is True


async def test_health_tells_what_is_not_well(where, capfd) -> None:
    """Exit code 3, and the check that fails is named."""
    tree = Supervisor("shop", [Worker("slow", idle, ready="signal")])
    async with served(tree, where, wait_ready=False):
        code = await ask("health", "ready")

    assert code == 3
    assert "[-]shop/slow/0" in capfd.readouterr().out


async def test_lists_that_are_empty_say_so(where, capfd) -> None:
    """Nothing on stdout, a sentence on stderr, exit code 0; JSON is there all the same."""
    async with served(shop(), where):
        codes = [await ask(name) for name in ("jobs", "poison", "letters")]
        out, err = capfd.readouterr()
        await ask("letters", "--json")
        assert json.loads(capfd.readouterr().out) == {"letters": [], "total": 0}

    assert (codes, out) == ([0, 0, 0], "")
    assert len(err.splitlines()) == 3


async def test_dead_letters_are_listed(where, capfd) -> None:
    """Each with its path, its reason and its error, but not with the message."""
    async with served(shop(), where) as pool:
        await pool.ref("shop/work/0").tell("fail")
        await pool.wait_state("shop/work/0", "ready")
        await ask("letters", "list", "--most", "5")
    head, line = capfd.readouterr().out.splitlines()

    assert head.split()[:3] == ["WHEN", "PATH", "KIND"]
    assert "shop/work/0" in line
    assert "ValueError: out of paper" in line


async def test_flags_may_stand_before_the_second_word(where, capfd) -> None:
    """`letters --json list` is `letters list --json`."""
    async with served(shop(), where):
        await ask("letters", "--json", "list")

    assert json.loads(capfd.readouterr().out)["letters"] == []


async def test_by_url(app, capfd) -> None:
    """A tree is asked at its address as well, with or without the http of it."""
    async with served(shop(), "127.0.0.1:0", actions=False) as pool:
        (url,) = pool.seen_at
        assert await ask("status", "--url", url) == 0
        assert await ask("status", "--url", url.removeprefix("http://"), "work") == 0
        assert await ask("restart", "work", "--url", url) == 5
    err = capfd.readouterr().err

    assert "read-only" in err
    assert "--token" not in err  # none would help


async def test_by_url_with_a_token(app, capfd, monkeypatch) -> None:
    """To act at an address the token is needed, as a flag or a variable; a wrong one is refused."""
    async with served(shop(), "127.0.0.1:0", token="a-long-secret") as pool:
        (url,) = pool.seen_at
        assert await ask("restart", "smtp", "--url", url) == 5
        assert "Give --token" in capfd.readouterr().err
        assert await ask("restart", "smtp", "--url", url, "--token", "another-one") == 5
        monkeypatch.setenv("TREEWARDEN_TOKEN", "a-long-secret")
        assert await ask("restart", "smtp", "--url", url) == 0


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["status"], 4, "no running tree was found"),
        (["status", "--socket", "none"], 4, "nobody listens there"),
        (["status", "--url", "http://127.0.0.1:1"], 4, "nobody listens there"),
        (["status", "--url", "ftp://x"], 2, "--url is such as http://"),
        (["status", "--timeout", "soon"], 2, "not a number of seconds"),
    ],
)
async def test_nothing_to_ask(app, capfd, args: list[str], code: int, says: str) -> None:
    """Where no tree is to be reached, one sentence says so, with exit code 4."""
    assert await ask(*args) == code
    assert says in capfd.readouterr().err


async def test_something_else_answers(app, capfd) -> None:
    """A server that is no observer is told as such."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
        )

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer, 0)
        port = listeners[0].socket.getsockname()[1]
        code = await ask("status", "--url", f"127.0.0.1:{port}")
        nursery.cancel_scope.cancel()

    assert code == 4
    assert "is it a treewarden observer?" in capfd.readouterr().err


async def test_a_tree_that_does_not_answer_in_time(app, capfd) -> None:
    """A held up tree is exit code 7, after the time that was given."""

    async def silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, silent, 0)
        port = listeners[0].socket.getsockname()[1]
        code = await ask("status", "--url", f"127.0.0.1:{port}", "--timeout", "0.05")
        nursery.cancel_scope.cancel()

    assert code == 7
    assert "did not answer within 0.05 s" in capfd.readouterr().err
