"""HTTP: what is no request gets a 400 and no traceback; every request has bounds; a client that is gone is no error."""

from __future__ import annotations

import logging

import hypothesis.strategies as st
import pytest
import trio
from hypothesis import example, given, settings

from supervision.observer import connection
from tests.observer.kit import answers, connect, everything, raw, seen

LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATHS = [
    b"/",
    b"/livez",
    b"/readyz/%2e%2e",
    b"/api/detail?path=%ff",
    b"/ws",
    b"/api/do",
    b"*",
    b"//x",
    b"/\xff",
]
HEADERS = [
    b"Host: localhost",
    b"Host: [::1",
    b"Host: evil.example",
    b"Origin: null",
    b"Origin: http://[",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Transfer-Encoding: chunked",
    b"Expect: 100-continue",
    b"Connection: upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Sec-WebSocket-Protocol: bearer.@@@, treewarden.v1",
    b"Authorization: Bearer \xe9",
    b"Content-Type: application/json",
    b"X: " + b"y" * 20_000,
]
requests = st.builds(
    lambda method, path, version, headers, body: (
        b" ".join([method, path, version])
        + b"\r\n"
        + b"".join(header + b"\r\n" for header in headers)
        + b"\r\n"
        + body
    ),
    st.sampled_from([b"GET", b"POST", b"HEAD", b"PUT", b"G\x00T", b""]),
    st.sampled_from(PATHS) | st.binary(max_size=30),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/9", b""]),
    st.lists(st.sampled_from(HEADERS) | st.binary(max_size=40), max_size=8),
    st.binary(max_size=80) | st.just(b'{"verb": "stop", "path": "all"}') | st.just(b"[" * 60_000),
)


@settings(max_examples=150)
@given(st.lists(requests | st.binary(max_size=200), min_size=1, max_size=3))
@example([b"\x00"])
@example([b"HEAD * HTTP/1.1\r\nHost: localhost\r\n\r\n"])
@example([b"HEAD /x HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n"])
@example([LIVE, LIVE])
@example([b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n"])
@example([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
async def test_no_bytes_harm_it(autojump_clock, caplog, parts):
    """Whatever is sent, nothing is logged as a fault, the connection ends, and the next probe is answered."""
    caplog.set_level(logging.WARNING)
    caplog.clear()
    async with seen() as server:
        with trio.fail_after(300):
            await raw(server, b"".join(parts))
            assert answers(await raw(server, LIVE)) == [(200, b"ok\n")]
            await trio.testing.wait_all_tasks_blocked()
        assert server.faults == 0
        assert not server.connections

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_requests_follow_each_other(autojump_clock):
    """One connection serves many requests, also such as came together."""
    async with seen() as server:
        got = await raw(server, LIVE * 3)

    assert answers(got, 3) == [(200, b"ok\n")] * 3


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000, 431),
        (
            b"POST /api/do HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n\r\n"
            + b"x" * 70_000,
            413,
        ),
        (b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"PUT /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (b"GET /other HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /page%2f..%2f..%2fsite.py HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ],
)
async def test_what_is_wrong_is_said(autojump_clock, data, status):
    """Each kind of mistake has its status, and a sentence in JSON."""
    async with seen() as server:
        ((got, body),) = answers(await raw(server, data))

    assert got == status
    assert b'"error":' in body


async def test_a_request_that_never_comes_to_its_end(autojump_clock):
    """Half a request holds a connection for a bounded time."""
    async with seen() as server:
        stream = connect(server)
        await stream.send_all(b"GET /livez HTTP/1.1\r\nHost: ")
        begun = trio.current_time()
        assert await everything(stream) == b""

    assert trio.current_time() - begun == pytest.approx(connection.SLOW)


async def test_a_body_that_drips(autojump_clock):
    """A body that comes byte by byte has the same bound, however long it is said to be."""
    async with seen() as server:
        stream = connect(server)
        await stream.send_all(
            b"POST /api/do HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        )
        begun = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"x")
                await trio.sleep(1)

    assert trio.current_time() - begun <= connection.SLOW + 2


async def test_an_idle_connection_is_closed(autojump_clock):
    """A connection without a request ends after a while."""
    async with seen() as server:
        stream = connect(server)
        begun = trio.current_time()
        assert await everything(stream) == b""

    assert trio.current_time() - begun == pytest.approx(connection.IDLE)


async def test_idle_crowds_keep_no_probe_out(autojump_clock):
    """When all places are taken, the connection that has been idle longest makes room."""
    async with seen() as server:
        server.most = 3
        crowd = []
        for _ in range(3):
            crowd.append(connect(server))
            await trio.sleep(1)

        assert answers(await raw(server, LIVE)) == [(200, b"ok\n")]
        seen_now = server.statistics()
        assert (seen_now.viewers, seen_now.refused, seen_now.faults) == (0, 0, 0)
        assert await everything(crowd[0]) == b""
        await crowd[1].send_all(LIVE)
        assert b"200" in await crowd[1].receive_some()


async def test_half_requests_keep_no_probe_out(autojump_clock):
    """A connection whose request drips in makes room as an idle one does."""
    async with seen() as server:
        server.most = 3
        for _ in range(3):
            await connect(server).send_all(b"GET /livez HT")
            await trio.sleep(0.1)

        assert answers(await raw(server, LIVE)) == [(200, b"ok\n")]


async def test_nobody_else_may_read_along(autojump_clock):
    """Answers say that they are neither to be kept, nor framed, nor guessed about, nor to load anything from elsewhere."""
    async with seen() as server:
        head = (
            (await raw(server, b"GET /api/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .partition(b"\r\n\r\n")[0]
            .lower()
        )

    assert b"cache-control: no-store" in head
    assert b"x-content-type-options: nosniff" in head
    assert b"default-src 'self'" in head
    assert b"frame-ancestors 'none'" in head
    assert b"access-control" not in head


async def test_a_head_has_no_body(autojump_clock):
    """HEAD is GET without the body."""
    async with seen() as server:
        got = await raw(server, LIVE.replace(b"GET", b"HEAD"))

    assert got.startswith(b"HTTP/1.1 200")
    assert got.endswith(b"\r\n\r\n")
