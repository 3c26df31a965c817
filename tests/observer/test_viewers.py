"""Viewers: each sees the newest frame, none costs more than one, and none can hold anything up."""

from __future__ import annotations

import gc
import json
import logging
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf

import hypothesis.strategies as st
import pytest
import trio
import trio_websocket
from hypothesis import given, settings

from supervision import Supervisor, Worker
from supervision.observer import hub, viewer
from supervision.observer.hub import Hub, pause_of
from supervision.observer.viewer import Gone, show
from tests.observer.kit import answers, connect, forever, raw, seen, shop

HELLO = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Eye:
    """A viewer that notes what it sees; `delay` is how long it takes to take a frame."""

    def __init__(self, delay=0.0):
        self.delay = delay
        self.frames = []
        self.closed = None
        self.says, self.heard = trio.open_memory_channel(50)

    async def send(self, text):
        await trio.sleep(self.delay)
        self.frames.append(json.loads(text))

    async def receive(self):
        try:
            return await self.heard.receive()
        except trio.EndOfChannel:
            raise Gone from None

    async def close(self, code):
        self.closed = code
        await trio.sleep(0)

    @property
    def numbers(self):
        return [frame["seq"] for frame in self.frames]


@asynccontextmanager
async def socket(server):
    """A WebSocket to the server, by somebody else's client."""
    async with trio.open_nursery() as nursery:
        ws = await trio_websocket.wrap_client_stream(nursery, connect(server), "localhost", "/ws")
        yield ws
        with trio.move_on_after(5):
            await ws.aclose()
        nursery.cancel_scope.cancel()


async def test_the_truth_within_a_second(autojump_clock):
    """A frame comes at once, then one each second, and each shows the tree as it is."""
    async with seen() as server, socket(server) as ws:
        first = json.loads(await ws.get_message())
        assert trio.current_time() < 1
        assert first["counts"]["running"] == 2

        await server.site.pool.stop("fetch")
        begun = trio.current_time()
        second = json.loads(await ws.get_message())
        assert second["counts"] == {**first["counts"], "running": 0, "stopped": 2}
        assert trio.current_time() - begun <= 1.01
        assert second["seq"] == first["seq"] + 1


async def test_nobody_looks_nothing_is_built(autojump_clock):
    """Without viewers no frame is built, and when the last has left it stops."""
    async with seen() as server:
        await trio.sleep(100)
        assert server.site.sight.seq == 0
        async with socket(server) as ws:
            await ws.get_message()
            await trio.sleep(3)
        built = server.site.sight.seq
        await trio.sleep(100)
        assert server.site.sight.seq <= built + 1


async def test_a_late_viewer_sees_now(autojump_clock):
    """Who comes when nobody has looked for long is not shown an old frame."""
    async with seen() as server:
        async with socket(server) as ws:
            await ws.get_message()
        await trio.sleep(60)
        async with socket(server) as ws:
            frame = json.loads(await ws.get_message())
            assert frame["time"] == pytest.approx(trio.current_time(), abs=0.1)


async def test_one_frame_serves_all(autojump_clock):
    """Ten viewers do not make it build more than one does."""
    async with seen() as server:
        eyes = [Eye() for _ in range(10)]
        for eye in eyes:
            server.nursery.start_soon(show, server.site.hub, eye)
        await trio.sleep(10.5)
        assert server.site.sight.seq <= 12
        assert all(len(eye.frames) >= 10 for eye in eyes)


@pytest.mark.parametrize("delay", [2.5, 7.0])
async def test_a_slow_viewer_gets_the_newest(autojump_clock, delay):
    """B139, auntiepickle/totalmix-osc-bridge#32: a slow one skips frames, never goes back, and delays nobody."""
    async with seen() as server:
        quick, slow = Eye(), Eye(delay)
        server.nursery.start_soon(show, server.site.hub, quick)
        server.nursery.start_soon(show, server.site.hub, slow)
        await trio.sleep(60)

    assert len(quick.frames) >= 59
    assert 60 / delay - 2 <= len(slow.frames) <= 60 / delay + 1
    assert all(a < b for a, b in pairwise(slow.numbers))
    assert all(b - a == 1 for a, b in pairwise(quick.numbers))


async def test_one_that_never_reads_is_let_go(autojump_clock):
    """B138, opanel-mc/opanel#429: a viewer that takes no frame for long is dropped; the others notice nothing."""
    async with seen() as server:
        stalled, quick = Eye(10_000), Eye()
        server.nursery.start_soon(show, server.site.hub, stalled)
        server.nursery.start_soon(show, server.site.hub, quick)
        await trio.sleep(viewer.PATIENCE + 2)
        assert len(server.site.hub.viewers) == 1
        assert len(quick.frames) >= viewer.PATIENCE


async def test_viewers_have_a_bound(autojump_clock, monkeypatch):
    """When the most look already, another one is told so, and probes are answered."""
    monkeypatch.setattr("supervision.observer.site.MOST_VIEWERS", 2)
    async with seen() as server, socket(server) as one, socket(server) as two:
        await one.get_message()
        await two.get_message()
        ((status, text),) = answers(await raw(server, HELLO))
        assert (status, b"2 viewers look already" in text) == (503, True)


async def test_a_hidden_viewer_is_spared(autojump_clock):
    """After {"pause": true} nothing is sent and, if it is alone, nothing built; then it goes on with the newest."""
    async with seen() as server, socket(server) as ws:
        await ws.get_message()
        await ws.send_message('{"pause": true}')
        await trio.sleep(2)
        built = server.site.sight.seq
        await trio.sleep(50)
        assert server.site.sight.seq == built
        await ws.send_message('{"pause": false}')
        seq = [json.loads(await ws.get_message())["seq"] for _ in range(3)]
        assert seq[-1] > built


@pytest.mark.parametrize("paused", [True, False])
async def test_the_end_is_told(autojump_clock, paused):
    """When the tree stops a viewer sees it stopping, then stopped, and is closed with 1001; a paused one too."""
    async with seen(shop()) as server:
        eye = Eye()
        server.nursery.start_soon(show, server.site.hub, eye)
        await trio.sleep(1.5)
        if paused:
            await eye.says.send('{"pause": true}')
            await trio.sleep(2)
        server.site.pool.request_stop()
        await trio.sleep(2)
        assert eye.closed == viewer.GOING_AWAY
        assert eye.frames[-1]["mode"] == "stopped"


async def test_a_reconnecting_viewer_sees_a_new_process(autojump_clock):
    """Number and uptime of a frame tell a viewer that the process behind the address is another one."""
    frames = []
    for _ in range(2):
        async with seen() as server, socket(server) as ws:
            await ws.get_message()
            await trio.sleep(1)
            frames.append(json.loads(await ws.get_message()))
        await trio.sleep(10)

    assert frames[1]["seq"] <= frames[0]["seq"]
    assert frames[1]["time"] > frames[0]["time"]


async def test_b142_closing_does_not_wait_for_a_reader(autojump_clock):
    """B142, python-trio/trio-websocket#74: with unread messages on both sides the server's end is bounded, and nothing is left."""
    async with seen() as server, trio.open_nursery() as nursery:
        ws = await trio_websocket.wrap_client_stream(
            nursery, connect(server), "localhost", "/ws", message_queue_size=1
        )
        for n in range(50):
            await ws.send_message(json.dumps({"n": n}))
        await trio.sleep(20)  # frames pile up on the client's side, where nobody reads
        begun = trio.current_time()
        await server.close()
        assert trio.current_time() - begun <= 2
        await trio.sleep(5)
        assert not server.connections
        nursery.cancel_scope.cancel()


@settings(max_examples=60)
@given(
    st.lists(
        st.binary(max_size=60)
        | st.text(max_size=60)
        | st.sampled_from(['{"pause": 1}', "[" * 5000]),
        max_size=6,
    )
)
async def test_no_message_harms_it(autojump_clock, caplog, messages):
    """Whatever a viewer says, it is shown frames, or let go without a fault."""
    caplog.clear()
    async with seen() as server:
        async with socket(server) as ws:
            try:
                for message in messages:
                    await ws.send_message(message)
                for _ in range(2):
                    await ws.get_message()
            except trio_websocket.ConnectionClosed:
                assert any(len(message) > 4096 for message in messages)
        assert server.faults == 0
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@settings(max_examples=60)
@given(st.binary(max_size=300))
async def test_no_frame_of_bytes_harms_it(autojump_clock, caplog, data):
    """Bytes that are no WebSocket, after the upgrade, end the connection and nothing else."""
    caplog.clear()
    async with seen() as server:
        stream = connect(server)
        await stream.send_all(HELLO)
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 101")
        try:
            await stream.send_all(data)
            await stream.send_eof()
        except trio.BrokenResourceError:
            pass
        with trio.fail_after(100):
            while server.connections:
                await trio.sleep(1)
        assert server.faults == 0
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_memory_is_one_frame_a_viewer(autojump_clock):
    """However long a viewer is away and however much happens, nothing waits for it."""
    async with seen(Supervisor("shop", [Worker("w", forever, replicas=50)])) as server:
        stalled = Eye(viewer.PATIENCE - 1)
        server.nursery.start_soon(show, server.site.hub, stalled)
        quick = Eye()
        server.nursery.start_soon(show, server.site.hub, quick)
        await trio.sleep(25)
        for _ in range(5000):
            server.site.pool.reset("w")
        await trio.sleep(5)
        assert len(server.site.recent) == 1000
        assert len(quick.frames[-1]["events"]) == 50
        assert len(server.site.hub.newest.text) < 20_000
        assert len(stalled.frames) <= 1


async def test_memory_does_not_grow_with_what_happens(autojump_clock, monkeypatch):
    """B138: ten viewers, one of which never reads and is never let go: after thousands of events the tree holds no more for them."""

    class Glance(Eye):
        async def send(self, text):
            await trio.sleep(self.delay)

    def held():
        gc.collect()
        everything = gc.get_objects()
        # By its type: `isinstance` would ask each object in the process for its class, and some play tricks.
        frames = [one for one in everything if type(one) is hub.Frame]
        return len(everything), len(frames), sum(len(frame.text) for frame in frames)

    async def much(server):
        for _ in range(60):
            for _ in range(100):
                server.site.pool.reset("w")
            await trio.sleep(1)

    monkeypatch.setattr(viewer, "PATIENCE", inf)
    async with seen(Supervisor("shop", [Worker("w", forever, replicas=50)])) as server:
        for delay in (inf, *[0.0] * 9):
            server.nursery.start_soon(show, server.site.hub, Glance(delay))
        await much(server)
        before, *_ = held()
        await much(server)
        objects, frames, size = held()

        assert len(server.site.hub.viewers) == 10
        assert server.site.tree.events.seq > 12_000
        assert server.site.sight.seq > 100
        assert objects - before < 500
        assert frames <= 3  # the newest, that of the one who never reads, and one under way
        assert size < frames * 20_000


class Sight:
    """Frames that cost what is said."""

    def __init__(self, cost):
        self.cost = cost
        self.seq = 0
        self.every = 0.0
        self.tree = self

    def now(self):
        return trio.current_time()

    async def frame(self):
        await trio.sleep(0)
        self.seq += 1
        return hub.Frame("{}", self.seq, self.now(), self.cost)


@pytest.mark.parametrize("cost", [0.0001, 0.05, 0.4, 5.0])
async def test_dear_frames_come_seldom(autojump_clock, cost):
    """Frames take no more than a fiftieth of the time, down to one in half a minute."""
    sight = Sight(cost)
    clock = Hub(sight)
    eye = Eye()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.run)
        nursery.start_soon(show, clock, eye)
        await trio.sleep(300)
        nursery.cancel_scope.cancel()

    most = 300 / hub.SLOWEST if cost > hub.SHARE * hub.SLOWEST else max(300 * hub.SHARE / cost, 0)
    assert sight.seq <= min(most, 300) + 2
    assert sight.seq >= min(most, 300) / 1.2 - 2


async def test_asking_often_costs_no_more(autojump_clock):
    """Snapshots by request share the bound: asked a thousand times a second, a dear frame is built now and then."""
    sight = Sight(0.05)
    clock = Hub(sight)
    for _ in range(10_000):
        await clock.current()
        await trio.sleep(0.001)

    assert sight.seq <= 10_000 * 0.001 * hub.SHARE / 0.05 + 2


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ('{"pause": true}', True),
        ('{"pause": false}', False),
        ('{"pause": 1}', None),
        ("{}", None),
        ("[true]", None),
        ("null", None),
        ("{", None),
        (b'{"pause": true}', None),
        (" " * 300 + '{"pause": true}', None),
    ],
)
def test_what_a_message_means(message, wanted):
    """Only a plain yes or no to pausing means anything."""
    assert pause_of(message) is wanted
