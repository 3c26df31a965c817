"""Frames: what viewers are told, that it is true, and that it gives nothing away."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import pytest
import trio

from actors import MailboxSpec
from supervision import RestartPolicy, Supervisor, Worker
from supervision.events import Started
from supervision.observer.frame import SLICE
from supervision.observer.pieces import one_line
from supervision.observer.recent import Recent
from tests.observer.kit import forever, get, seen, shop

SECRET = "hunter2"


async def fails(ctx):
    password = SECRET  # noqa: F841 - a local variable, as tracebacks hold on to
    raise ValueError("no luck")


async def test_a_row_for_each(autojump_clock):
    """Every supervisor and replica has one row with the columns that are named, parents first."""
    tree = Supervisor(
        "shop", [Supervisor("back", [Worker("a", forever, replicas=2)]), Worker("b", forever)]
    )
    async with seen(tree) as server:
        _, frame = await get(server, "/api/snapshot")

    rows = [dict(zip(frame["columns"], row, strict=True)) for row in frame["rows"]]
    assert [row["path"] for row in rows] == [
        "shop",
        "shop/back",
        "shop/back/a/0",
        "shop/back/a/1",
        "shop/b/0",
    ]
    assert [row["kind"] for row in rows] == [
        "supervisor",
        "supervisor",
        "worker",
        "worker",
        "worker",
    ]
    assert list(frame["supervisors"]) == ["shop", "shop/back"]
    assert frame["counts"]["running"] == 3
    assert frame["health"] == {
        "live": {"ok": True, "why": []},
        "ready": {"ok": True, "why": []},
        "started": {"ok": True, "why": []},
    }


async def test_what_needs_a_look_comes_worst_first(autojump_clock):
    """Failed, restarting and crowded children are listed, the worst first, each with what can be done."""

    async def deaf(ctx):
        await ctx.sleep(1000)

    tree = shop(
        Worker("crowded", deaf, mailbox=MailboxSpec(capacity=10)),
        Worker("again", fails, restart=RestartPolicy(initial_backoff=30)),
        Worker(
            "bad", fails, restart=RestartPolicy(max_restarts=1, initial_backoff=0), on_failed="hold"
        ),
    )
    async with seen(tree) as server:
        await trio.testing.wait_all_tasks_blocked()
        for n in range(8):
            server.site.pool.ref("crowded").tell_nowait(n)
        _, frame = await get(server, "/api/snapshot")

    assert [(look["path"], look["kind"]) for look in frame["look"]] == [
        ("shop/bad/0", "failed"),
        ("shop/crowded/0", "mailbox"),
        ("shop/again/0", "restarting"),
    ]
    assert "no luck" in frame["look"][0]["text"]
    assert frame["look"][0]["actions"] == ["restart", "disable"]


async def test_a_run_that_does_not_end(autojump_clock):
    """A cancelled run that is still there is listed as stuck, with for how long."""

    async def stubborn(ctx):
        with trio.CancelScope(shield=True):
            await trio.sleep(40)

    async with seen(shop(Worker("stubborn", stubborn, shutdown=1))) as server:
        server.nursery.start_soon(server.site.pool.stop, "stubborn")
        await trio.sleep(12)
        _, frame = await get(server, "/api/snapshot")
        (look,) = frame["look"]
        assert (look["kind"], look["path"]) == ("stuck", "shop/stubborn/0")
        assert "11 s" in look["text"]
        _, more = await get(server, "/api/detail?path=stubborn")
        assert any("trio.sleep(40)" in line for line in more["stack"])
        await trio.sleep(40)


async def test_totals_never_go_down(autojump_clock):
    """What a replica counted stays in the totals when it is forgotten, so that rates are never negative."""
    totals = []
    async with seen(
        shop(Worker("bad", fails, restart=RestartPolicy(max_restarts=0, initial_backoff=1)))
    ) as server:
        pool = server.site.pool
        for replicas in (4, 1, 3, 0, 2):
            await pool.scale("fetch", replicas)
            for _ in range(5 * replicas):
                pool.ref("fetch").tell_nowait("x")
            await trio.sleep(5)
            totals.append((await get(server, "/api/snapshot"))[1]["totals"])
        await pool.stop("bad")
        await pool.remove("bad")
        totals.append((await get(server, "/api/snapshot"))[1]["totals"])

    assert all(
        b[key] >= a[key] for a, b in pairwise(totals) for key in ("handled", "restarts", "failures")
    )
    assert totals[-1]["handled"] == 50
    assert totals[-1]["restarts"] >= totals[-1]["failures"] > 3


async def test_busy_is_seen(autojump_clock):
    """A message that is in hand in one frame and the next has been handled at least that long; another one has not."""

    async def slow(ctx):
        async for seconds in ctx.mailbox:
            await trio.sleep(seconds)

    async with seen(shop(Worker("slow", slow))) as server:

        async def busy():
            _, frame = await get(server, "/api/snapshot")
            column = frame["columns"].index("busy")
            return next(row[column] for row in frame["rows"] if row[0] == "shop/slow/0")

        assert await busy() is None
        for seconds in (10, 10, 1):
            server.site.pool.ref("slow").tell_nowait(seconds)
        await trio.sleep(1)
        assert await busy() == 0
        await trio.sleep(5)
        assert await busy() == pytest.approx(5)
        await trio.sleep(5)
        assert await busy() == 0
        await trio.sleep(20)
        assert await busy() is None


async def test_nothing_secret_is_shown(autojump_clock):
    """Messages, arguments and local variables are in no frame, detail, event, list or metric, unless they are asked for."""

    async def picky(ctx):
        async for message in ctx.mailbox:
            if message == SECRET:
                raise ValueError("not that")
            await trio.sleep(50)

    async with seen(shop(Worker("picky", picky), Worker("bad", fails))) as server:
        server.site.pool.ref("picky").tell_nowait(SECRET)
        await trio.sleep(3)
        server.site.pool.ref("picky").tell_nowait(SECRET + "3")
        await trio.sleep(1)
        shown = [
            await get(server, path)
            for path in (
                "/api/snapshot",
                "/api/detail?path=picky",
                "/api/detail?path=bad",
                "/api/events?after=0&most=500",
                "/api/letters",
                "/readyz?verbose",
                "/metrics",
            )
        ]
    assert all(status in (200, 503) for status, _ in shown)
    assert SECRET not in json.dumps(shown).replace("password = SECRET", "")


async def test_a_large_tree_is_built_in_slices(autojump_clock):
    """Between two slices others run, so that no actor waits for a whole frame; and the frame is whole all the same."""
    replicas = 10 * SLICE
    turns = 0

    async with seen(Supervisor("shop", [Worker("w", forever, replicas=replicas)])) as server:

        async def others():
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        server.nursery.start_soon(others)
        await trio.lowlevel.checkpoint()
        turns = 0
        frame = json.loads((await server.site.sight.frame()).text)
        assert 9 <= turns <= 12
        server.nursery.cancel_scope.cancel()

    assert len(frame["rows"]) == replicas + 1
    assert frame["counts"]["running"] == replicas


async def test_events_can_be_fetched_again(autojump_clock):
    """B140, tinyhumansai/opencompany#1011: after a number come the events that follow it, and how many are gone."""
    async with seen() as server:
        for _ in range(1100):
            server.site.pool.reset("fetch")
        last = server.site.tree.events.seq
        _, answer = await get(server, f"/api/events?after={last - 3}")
        assert [event["seq"] for event in answer["events"]] == [last - 2, last - 1, last]
        assert answer["missed"] == 0
        _, answer = await get(server, "/api/events?after=10&most=5")
        assert len(answer["events"]) == 5
        assert answer["missed"] == answer["events"][0]["seq"] - 11 > 0
        _, answer = await get(server, f"/api/events?after={last}")
        assert (answer["events"], answer["missed"]) == ([], 0)
        assert (answer["pid"], answer["uptime"]) == (os.getpid(), 0.0)
        assert (await get(server, "/api/events?after=x"))[0] == 400
        assert (await get(server, "/api/events?after=" + "9" * 30))[0] == 400


async def test_what_is_for_debugging_pushes_nothing_out(autojump_clock):
    """The events of a frame are the newest worth telling, however much is reported for debugging in between."""
    async with seen() as server:
        server.site.pool.reset("fetch")
        last = server.site.tree.events.seq
        for _ in range(1100):
            server.site.tree.emit(Started, "shop/fetch/0")
        _, frame = await get(server, "/api/snapshot")

        assert frame["events"][-1]["seq"] == last
        assert {event["level"] for event in frame["events"]} == {"info"}
        _, answer = await get(server, f"/api/events?after={last}&most=5")
        assert answer["missed"] > 0  # among all, it is long gone


async def test_the_detail_of_a_failure(autojump_clock):
    """The last errors come with run, time of day and traceback; the policy with every option."""
    async with seen(
        shop(Worker("bad", fails, restart=RestartPolicy(initial_backoff=1, jitter=0)))
    ) as server:
        await trio.sleep(2)
        _status, more = await get(server, "/api/detail?path=bad")
        assert [error["run"] for error in more["errors"]] == [1, 2]
        assert "ValueError: no luck" in more["errors"][-1]["traceback"]
        assert more["errors"][1]["when"] - more["errors"][0]["when"] == pytest.approx(1, abs=0.1)
        assert more["policy"]["restart.max_restarts"] == 5
        assert more["budget"] == {"used": 2, "limit": 5}
        assert more["stack"] == []
        _, root = await get(server, "/api/detail?path=shop")
        assert root["budget"]["strategy"] == "one_for_one"
        assert (await get(server, "/api/detail?path=nobody"))[0] == 404
        assert (await get(server, "/api/detail"))[0] == 400


class Weird(Exception):
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (None, None),
        (ValueError("a\n  b"), "ValueError: a b"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 185 + "..."),
        (Weird(), "Weird: <Weird, whose repr raises RuntimeError>"),
    ],
)
def test_an_error_in_one_line(error, line):
    """Any error is one line of bounded length, even one that cannot be shown."""
    assert one_line(error) == line


async def test_no_error_is_kept_alive(autojump_clock):
    """The last events hold on to no exception, and so to nothing that its frames held."""
    async with seen(shop(Worker("bad", fails, restart=RestartPolicy(max_restarts=0)))) as server:
        await trio.sleep(100)
        kept = server.site.recent
        assert isinstance(kept, Recent)
        assert not any(getattr(item, "error", None) for item in kept._kept)
        assert any("no luck" in each["text"] for each in kept.after(0, 1000)[0])
