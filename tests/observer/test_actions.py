"""Actions: what can be done by state, what a command means, what is done, and that it is told with its author's name."""

from __future__ import annotations

import gc
from contextlib import suppress

import hypothesis.strategies as st
import pytest
import trio
from hypothesis import given

from actors import MailboxSpec
from actors.jobs import JobWorker, MemoryEngine, NewJob
from actors.resilience import (
    BreakerChanged,
    BreakerOpen,
    BreakerPolicy,
    Bulkhead,
    BulkheadFull,
    CircuitBreaker,
    Dependency,
    PoisonMessage,
    VegasLimit,
)
from supervision import RestartPolicy, State, Supervisor, Worker
from supervision.events import Asked
from supervision.observer import Observer, verbs
from supervision.observer.messages import Trouble
from supervision.states import TRANSITIONS
from tests.observer.kit import do, forever, get, seen, shop

OPTIONS = Observer("unix:/x", actions=True)


async def fails(ctx):
    raise ValueError("no luck")


def held():
    """A worker that fails for good and stays so."""
    return Worker(
        "bad", fails, restart=RestartPolicy(max_restarts=1, initial_backoff=0), on_failed="hold"
    )


def states(server):
    return {info.path: str(info.state) for info in server.site.pool.workers()}


@pytest.mark.parametrize("state", list(State))
async def test_what_is_offered_works(autojump_clock, state):
    """Whatever is offered for a child in a state can be done to it then."""

    async def put(server):
        pool = server.site.pool
        if state is State.STOPPED:
            await pool.stop("shop/fetch/0")
        elif state is State.DISABLED:
            await pool.disable("shop/fetch/0")

    for verb in verbs.ACTIONS[state]:
        path = "shop/fetch/0"
        extra = []
        options = {}
        if state is State.FAILED:
            extra, path = [held()], "shop/bad/0"
        elif state is State.RESTARTING:
            extra, path = (
                [Worker("bad", fails, restart=RestartPolicy(max_restarts=0, initial_backoff=50))],
                "shop/bad/0",
            )
        elif state is State.PENDING:

            async def slow(ctx):
                await trio.sleep(5)
                ctx.started()
                await ctx.sleep(1000)

            extra, options = [Worker("last", forever)], {"wait_ready": False}
            path = "shop/last/0"
        tree = shop(*extra)
        if state is State.PENDING:
            tree = Supervisor("shop", [Worker("slow", slow, ready="signal"), *tree.children])
        async with seen(tree, OPTIONS, **options) as server:
            await trio.testing.wait_all_tasks_blocked()
            await put(server)
            assert states(server)[path] == state
            status, answer = await do(server, verb, path=path)
            # What fails again fails again; that it was started is what was asked for.
            assert status == 200
            assert answer["done"] == [path] or "no luck" in str(answer["failed"]), answer


def test_every_state_has_its_actions():
    """The table speaks of every state, and of verbs that exist."""
    assert set(verbs.ACTIONS) == set(TRANSITIONS)
    assert {verb for row in verbs.ACTIONS.values() for verb in row} <= set(verbs.VERBS)


async def test_an_action_is_an_event_with_a_name(autojump_clock):
    """Who asked, for what and of whom is told to all listeners before it is done."""
    async with seen(options=OPTIONS) as server:
        events = server.site.pool.events()
        status, answer = await do(server, "stop", path="shop/fetch/1", who="ann\n\x1b[2J")
        first = events.receive_nowait()

    assert (status, answer["said"]) == (200, "shop/fetch/1 is stopped")
    assert isinstance(first, Asked)
    assert (first.path, first.verb, first.who) == ("shop/fetch/1", "stop", "ann[2J (alice)")
    assert first.sentence() == "ann[2J (alice) asked for stop of shop/fetch/1"


async def test_some_of_many_fail(autojump_clock):
    """Each target of a glob succeeds or fails by itself, and the answer tells which."""
    async with seen(shop(held()), OPTIONS) as server:
        await trio.testing.wait_all_tasks_blocked()
        status, answer = await do(server, "enable", path="*/0")
        assert (status, answer["done"]) == (200, [])
        assert set(answer["failed"]) == {"shop/fetch/0", "shop/bad/0"}

        status, answer = await do(server, "start", path="all")
        assert set(answer["done"]) | set(answer["failed"]) == {"shop/fetch", "shop/bad"}
        assert "cannot become running" in answer["failed"]["shop/fetch"]


async def test_scaling(autojump_clock):
    """A new number, or a change of it."""
    async with seen(options=OPTIONS) as server:
        for n, replicas in ((5, 5), ("+2", 7), ("-3", 4), (0, 0), ("+1", 1)):
            status, answer = await do(server, "scale", path="shop/fetch", n=n)
            assert (status, answer["failed"]) == (200, {})
            assert len(states(server)) == replicas


async def test_draining_handles_what_is_queued(autojump_clock):
    """A drained actor takes nothing more, handles what it has, and then stops; the next stop is an ordinary one."""
    seen_by = []

    async def slow(ctx):
        async for message in ctx.mailbox:
            await trio.sleep(1)
            seen_by.append(message)

    async with seen(
        Supervisor("shop", [Worker("slow", slow), Worker("on", forever)]), OPTIONS
    ) as server:
        ref = server.site.pool.ref("slow")
        for n in range(4):
            ref.tell_nowait(n)
        await trio.sleep(0.5)
        status, answer = await do(server, "drain", path="slow")
        assert (status, answer["done"]) == (200, ["slow"])
        assert seen_by == [0, 1, 2, 3]

        await do(server, "start", path="slow")
        for n in range(4, 8):
            ref.tell_nowait(n)
        await trio.sleep(0.5)
        await do(server, "stop", path="slow")
        assert seen_by == [0, 1, 2, 3, 4]


async def test_forgiving(autojump_clock):
    """After `reset` the limit counts from none again."""

    async def now_and_then(ctx):
        await trio.sleep(1)
        raise ValueError

    worker = Worker("shaky", now_and_then, restart=RestartPolicy(max_restarts=4, initial_backoff=0))
    async with seen(shop(worker), OPTIONS) as server:
        for _ in range(5):
            await trio.sleep(3)
            assert (await do(server, "reset", path="shaky"))[0] == 200
        assert server.site.pool.info("shaky").restarts >= 14
        assert server.site.pool.health().live


async def test_breakers(autojump_clock):
    """A breaker can be opened and closed by its name, with its author's name as the reason."""
    stripe = Dependency("stripe", timeout=1, breaker=BreakerPolicy(failures=3))

    async def pays(ctx):
        stripe.guards()
        await ctx.sleep(1000)

    async with seen(shop(Worker("pays", pays)), OPTIONS) as server:
        await trio.testing.wait_all_tasks_blocked()
        assert (await do(server, "breaker_open", path="stripe"))[1]["said"] == "stripe is open"
        breaker = server.site.pool.dependencies()["stripe"].breaker
        assert not breaker.admits
        _status, frame = await get(server, "/api/snapshot")
        assert frame["breakers"][0]["state"] == "open"
        assert [look["kind"] for look in frame["look"]] == ["breaker"]
        assert (await do(server, "breaker_close", path="stripe"))[0] == 200
        assert breaker.admits
        assert (await do(server, "breaker_open", path="paypal"))[0] == 404


async def test_guards_of_ones_own(autojump_clock):
    """A breaker or bulkhead made by itself is seen once it has said something in the tree, and acted on by its name."""
    breaker = CircuitBreaker("bank", BreakerPolicy(failures=1))
    places = Bulkhead("desk", VegasLimit(initial=1, maximum=1))
    heard = []

    async def down():
        raise OSError("down")

    async def pays(ctx):
        async with places:
            for _ in range(2):
                with suppress(OSError, BreakerOpen):
                    await breaker.call(down)
                await ctx.sleep(10)
        await ctx.sleep(1000)

    async def too_many(ctx):
        await ctx.sleep(15)
        with suppress(BulkheadFull):
            await places.call(down)
        await ctx.sleep(1000)

    tree = shop(Worker("pays", pays), Worker("more", too_many))
    async with seen(tree, OPTIONS, listeners=[heard.append]) as server:
        await trio.sleep(5)
        _, frame = await get(server, "/api/snapshot")
        assert [(one["name"], one["state"]) for one in frame["breakers"]] == [("bank", "open")]
        assert frame["bulkheads"] == []
        await trio.sleep(12)
        _, frame = await get(server, "/api/snapshot")
        assert frame["breakers"][0]["rejected"] == 1
        (desk,) = frame["bulkheads"]
        assert (desk["name"], desk["busy"], desk["rejected"]) == ("desk", 1, 1)
        assert (desk["limit"], desk["adaptive"]) == (1, True)
        assert (await do(server, "breaker_close", path="ba*"))[1]["said"] == "bank is closed"
        assert breaker.admits
        await trio.sleep(1)
        (closed,) = [
            event for event in heard if isinstance(event, BreakerChanged) and event.new == "closed"
        ]
        assert closed.why == "closed by alice"


async def test_guards_of_ones_own_are_not_kept(autojump_clock):
    """A bulkhead for each tenant is shown while it is of use; the tree keeps none of them, and shows a hundred at most."""

    async def refused(ctx):
        busy = [Bulkhead(f"tenant {n}", 0) for n in range(150)]
        for one in busy:
            with suppress(BulkheadFull):
                await one.call(trio.sleep, 0)
        await ctx.sleep(10)
        one = busy = None
        await ctx.sleep(1000)

    async with seen(shop(Worker("refused", refused)), OPTIONS) as server:
        await trio.sleep(5)
        assert len((await get(server, "/api/snapshot"))[1]["bulkheads"]) == 100
        await trio.sleep(10)
        gc.collect()
        assert (await get(server, "/api/snapshot"))[1]["bulkheads"] == []


async def test_queues_and_poison(autojump_clock):
    """Types of jobs can be paused, resumed and limited; a poison job requeued or dropped."""
    engine = MemoryEngine()

    async def handler(job, ctx):
        raise PoisonMessage("bad cheque")

    worker = Worker("charges", JobWorker("charge", handler, engine=engine))
    async with seen(shop(worker), OPTIONS) as server:
        keys = [(await engine.enqueue(NewJob("charge", {"card": "4111"}))).key for _ in range(2)]
        await trio.sleep(5)
        _, answer = await get(server, "/api/poison")
        assert [job["key"] for job in answer["poison"]] == keys
        assert "4111" not in str(answer)
        _, frame = await get(server, "/api/snapshot")
        (queue,) = frame["queues"]
        assert (queue["type"], queue["incident"], queue["paused"]) == ("charge", 2, False)
        assert frame["totals"]["poison"] == 2
        assert "queue" in [look["kind"] for look in frame["look"]]

        assert (await do(server, "pause", type="charge"))[1]["said"] == "charge is paused"
        assert (await do(server, "limit", type="charge", n=3))[1][
            "said"
        ] == "charge has a limit of 3"
        assert (await engine.statistics()).paused == {"charge"}
        # Counts are looked up every few seconds only, but what somebody has just done is seen within one.
        await trio.sleep(1)
        _, frame = await get(server, "/api/snapshot")
        assert (frame["queues"][0]["paused"], frame["queues"][0]["limit"]) == (True, 3)
        assert (await do(server, "requeue", key=keys[0]))[1]["failed"] == {}
        assert (await do(server, "drop", key=keys[1]))[0] == 409
        assert (await do(server, "drop", key=keys[1], confirm=True))[1]["failed"] == {}
        status, answer = await get(server, f"/api/jobs?key={keys[0]}")
        assert (status, answer["jobs"][0]["state"]) == (200, "ready")
        assert "4111" not in str(answer)
        assert (await do(server, "resume", type="charge"))[0] == 200
        assert (await get(server, "/api/jobs?key=nothing"))[0] == 404
        assert (await do(server, "pause", type="charge", engine="other"))[0] == 404


async def test_a_new_engine_is_asked_at_once(autojump_clock):
    """Jobs whose engine a worker has just met are counted with the next look, not some seconds later."""
    engine = MemoryEngine()

    async def handler(job, ctx):
        await trio.sleep(60)

    async with seen(shop(), OPTIONS) as server:
        server.site.queues.wish()
        await trio.sleep(0.1)
        await engine.enqueue(NewJob("charge"))
        worker = Worker("charges", JobWorker("charge", handler, engine=engine))
        await server.site.pool.start_child("shop", worker)
        await trio.sleep(0.1)
        server.site.queues.wish()
        await trio.sleep(0.1)

        assert [line["active"] for line in server.site.queues.lines()] == [1]


async def test_dead_letters(autojump_clock):
    """Dead letters are listed without what they say, sent again, or dropped."""
    tries = []

    async def picky(ctx):
        async for message in ctx.mailbox:
            tries.append(message)
            if len(tries) == 1:
                raise ValueError("not now")

    tree = shop(
        Worker("picky", picky, restart=RestartPolicy(initial_backoff=0), mailbox=MailboxSpec())
    )
    async with seen(tree, OPTIONS) as server:
        server.site.pool.ref("picky").tell_nowait("my password")
        await trio.sleep(1)
        _, answer = await get(server, "/api/letters")
        assert [(each["path"], each["kind"], each["reason"]) for each in answer["letters"]] == [
            ("shop/picky/0", "str", "failed")
        ]
        assert "password" not in str(answer)
        _status, answer = await do(server, "requeue", path="shop/picky")
        assert answer["said"] == "shop/picky/0 was sent 1 dead letter again"
        await trio.sleep(1)
        assert tries == ["my password"] * 2
        assert (await do(server, "drop", path="shop/picky", confirm=True))[0] == 404


async def test_stopping_the_tree(autojump_clock):
    """It has to be confirmed, and then the tree stops in order, with its author's name as the reason."""
    async with seen(options=OPTIONS) as server:
        assert (await do(server, "stop_tree"))[0] == 409
        assert not server.site.tree.final
        assert (await do(server, "stop_tree", confirm=True))[1]["said"] == "shop is stopping"
        await server.site.pool.wait_stopped()
        assert server.site.tree.why == "alice asked for it"
        _status, answer = await do(server, "restart", path="fetch")
        assert "fetch" in answer["failed"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([], "JSON object"),
        ({}, "the verb is one of"),
        ({"verb": "explode"}, "the verb is one of start, stop"),
        ({"verb": ["stop"]}, "the verb is one of"),
        ({"verb": "stop"}, "stop needs a path"),
        ({"verb": "stop", "path": 3}, "path is a text"),
        ({"verb": "stop", "paht": "x"}, "no field 'paht'. Did you mean 'path'?"),
        ({"verb": "scale", "path": "x"}, "needs the number of replicas"),
        ({"verb": "scale", "path": "x", "n": -1}, "0 or more"),
        ({"verb": "scale", "path": "x", "n": True}, "whole number"),
        ({"verb": "scale", "path": "x", "n": 10**9}, "whole number"),
        ({"verb": "pause"}, "type of jobs"),
        ({"verb": "requeue"}, "a job's 'key'"),
        ({"verb": "retry", "path": "x"}, "the 'key' of a job"),
        ({"verb": "retry", "key": "1", "n": 0}, "from 1"),
        ({"verb": "retry", "key": "1", "n": "+1"}, "no change"),
        ({"verb": "cancel", "key": "1"}, "loses work"),
        ({"verb": "stop_tree", "confirm": "yes"}, "true or false"),
        ({"verb": "breaker_open"}, "name of a breaker"),
    ],
)
def test_what_is_no_command(body, text):
    """What cannot be meant is refused before anything is done, with what is missing."""
    with pytest.raises(Trouble, match=text.replace("?", r"\?")):
        verbs.understand(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "verb": st.sampled_from(list(verbs.VERBS)) | json_values,
            **dict.fromkeys(("path", "n", "key", "type", "confirm", "who", "engine"), json_values),
        },
    )
    | json_values
)
def test_any_json_is_a_command_or_refused(body):
    """No JSON breaks the reading of commands: it is one with all that its verb needs, or it is refused."""
    try:
        meant = verbs.understand(body).verb
    except Trouble as trouble:
        meant = trouble.code
    assert meant in {"bad_request", "conflict", *verbs.VERBS}


@pytest.mark.parametrize(
    ("pattern", "hits"),
    [
        ("all", ["a/b", "a/c"]),
        ("*", ["a/b", "a/c"]),
        ("a/b/*", ["a/b/0", "a/b/1"]),
        ("b/*", ["a/b/0", "a/b/1"]),
        ("a/[bc]", ["a/b", "a/c"]),
        ("?/1", ["a/b/1"]),
        ("x*", []),
    ],
)
def test_globs(pattern, hits):
    """A glob may begin at any name, and a whole that it means stands for its parts."""
    assert verbs.which(pattern, ["a/b", "a/b/0", "a/b/1", "a/c", "a/c/0"]) == hits
