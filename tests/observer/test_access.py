"""Access: who may look and who may act; what browsers are tricked into is refused."""

from __future__ import annotations

import base64

import pytest
import trio

from supervision import SpecError
from supervision.observer import Observer, access
from supervision.observer.access import Level, level, strange
from tests.observer.kit import (
    LOCAL,
    PUBLIC,
    TOKEN,
    UNIX,
    answers,
    do,
    get,
    raw,
    request,
    seen,
)

BEARER = f"Bearer {TOKEN}"
ACTS = Observer(["127.0.0.1:0", "unix:/x"], actions=True, token=TOKEN)
UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
)


@pytest.mark.parametrize(
    ("host", "fine"),
    [
        ("localhost", True),
        ("localhost:8023", True),
        ("shop.localhost:8023", True),
        ("127.0.0.1:8023", True),
        ("[::1]:8023", True),
        ("192.0.2.1", True),
        ("ops.example.org:8023", True),
        ("OPS.example.org", True),
        ("evil.example", False),
        ("evil.example:8023", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("xops.example.org", False),
        ("", False),
        ("[::1", True),
        ("[evil]", False),
    ],
)
def test_only_under_our_own_names(host, fine):
    """A page that has its own name resolve to this machine gets nothing (DNS rebinding)."""
    options = Observer(allowed_hosts=["ops.example.org"])
    assert (strange(request("/api/snapshot", host=host), options) == "") is fine
    assert strange(request("/livez", host=host), options) == ""


@pytest.mark.parametrize(
    ("origin", "fine"),
    [
        (None, True),
        ("http://127.0.0.1:8023", True),
        ("https://127.0.0.1:8023", True),
        ("https://ops.example.org", True),
        ("http://127.0.0.1:9000", False),
        ("http://127.0.0.1", False),
        ("https://evil.example", False),
        ("https://ops.example.org.evil.example", False),
        ("null", False),
        ("", False),
        ("http://[", False),
        ("ftp://127.0.0.1:8023", False),
    ],
)
def test_only_from_our_own_pages(origin, fine):
    """Another site's page is refused, whatever it asks for and whatever token it brings."""
    options = Observer(allowed_origins=["https://ops.example.org"])
    headers = {} if origin is None else {"origin": origin}
    for path in ("/", "/ws", "/api/snapshot", "/api/do", "/metrics"):
        asked = request(path, authorization=BEARER, **headers)
        assert (strange(asked, options) == "") is fine


@pytest.mark.parametrize(
    ("options", "peer", "headers", "allowed"),
    [
        (Observer(), LOCAL, {}, Level.READ),
        (Observer(), UNIX, {}, Level.READ),
        (Observer(), PUBLIC, {}, Level.NONE),
        (Observer(), LOCAL, {"x_forwarded_for": "192.0.2.1"}, Level.NONE),
        (Observer(), LOCAL, {"forwarded": "for=192.0.2.1"}, Level.NONE),
        (Observer(token=TOKEN), LOCAL, {"authorization": BEARER}, Level.READ),
        (Observer(token=TOKEN), PUBLIC, {"authorization": BEARER}, Level.READ),
        (Observer(token=TOKEN), PUBLIC, {"authorization": "Bearer wrong"}, Level.NONE),
        (ACTS, LOCAL, {}, Level.READ),
        (ACTS, LOCAL, {"authorization": "Bearer wrong"}, Level.READ),
        (ACTS, LOCAL, {"authorization": f"Basic {TOKEN}"}, Level.READ),
        (ACTS, LOCAL, {"authorization": BEARER}, Level.ACT),
        (ACTS, LOCAL, {"authorization": f"bearer  {TOKEN} "}, Level.ACT),
        (ACTS, PUBLIC, {"authorization": BEARER}, Level.ACT),
        (ACTS, UNIX, {}, Level.ACT),
        (Observer("unix:/x", actions=True), LOCAL, {}, Level.READ),
    ],
)
def test_what_is_allowed(options, peer, headers, allowed):
    """Reading is for this machine, acting for the token or the socket's user, and only if it is switched on."""
    assert level(request("/api/do", peer=peer, **headers), options) is allowed


def test_a_browser_brings_its_token_as_a_subprotocol():
    """Where no header can be set, the token comes encoded beside the protocol; nonsense is no token."""
    word = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    asked = request("/ws", sec_websocket_protocol=f"treewarden.v1, bearer.{word}")
    assert access.proposed_token(asked) == TOKEN
    for nonsense in ("bearer.@", "bearer.====", "bearer.\xff", "bearer.gIA", ",", "bearer."):
        assert access.proposed_token(request("/ws", sec_websocket_protocol=nonsense)) == ""


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        ("none", Level.NONE),
        ("read", Level.READ),
        ("act", Level.ACT),
        ("root", Level.NONE),
        (None, Level.NONE),
        (ValueError, Level.NONE),
    ],
)
def test_a_function_may_decide(answer, allowed, caplog):
    """`access=` decides instead of the token; if it fails, the answer is no."""

    def decide(asked):
        assert asked.headers["x-user"] == "ann"
        if answer is ValueError:
            raise ValueError
        return answer

    options = Observer(actions=True, access=decide)
    assert level(request("/api/do", x_user="ann"), options) is allowed
    assert level(request("/api/do", x_user="ann"), Observer(access=decide)) is min(
        allowed, Level.READ
    )


def test_acting_for_all_is_refused_at_the_door():
    """Actions over TCP without a token, or with one that can be guessed, are not even declared."""
    with pytest.raises(SpecError, match=r"actions=True .* give token="):
        Observer(actions=True)
    with pytest.raises(SpecError, match="8 plain characters or more"):
        Observer(actions=True, token="secret")
    assert TOKEN not in repr(Observer(actions=True, token=TOKEN))
    assert Observer("unix:/x", actions=True).actions


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "acting needs the token"),
        ({"authorization": "Bearer wrong"}, "acting needs the token"),
        ({"authorization": BEARER, "origin": "https://evil.example"}, "another site's page"),
        ({"authorization": BEARER, "host": "evil.example"}, "allowed_hosts"),
    ],
)
async def test_no_action_without_the_token(autojump_clock, headers, why):
    """Nothing is done for whoever has not shown the token, and the answer says what is missing."""
    async with seen(options=ACTS) as server:
        status, answer = await do(server, "stop", peer=LOCAL, path="fetch", **headers)
        assert (status, answer["code"]) == (403, "refused")
        assert why in answer["error"]
        assert server.site.pool.snapshot().counts["running"] == 2
        assert (await do(server, "stop", peer=LOCAL, path="fetch", authorization=BEARER))[0] == 200


async def test_read_only_is_the_default(autojump_clock):
    """Without actions=True not even the socket's user can act, and the answer says how that is changed."""
    async with seen() as server:
        status, answer = await do(server, "stop", path="fetch")

    assert status == 403
    assert "actions=True" in answer["error"]


async def test_a_form_of_another_page_does_nothing(autojump_clock):
    """A command that is not sent as JSON, as a form can be without asking, is refused."""
    async with seen(options=ACTS) as server:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            asked = request(
                "/api/do",
                method="POST",
                peer=UNIX,
                body={"verb": "stop", "path": "all"},
                content_type=kind,
            )
            assert (await server.site.respond(asked)).status == 400
        assert server.site.pool.snapshot().counts["running"] == 2


@pytest.mark.parametrize(
    ("host", "more", "peer", "status"),
    [
        ("localhost", "", LOCAL, 101),
        ("localhost", "Origin: http://localhost\r\n", LOCAL, 101),
        ("localhost", "Origin: https://evil.example\r\n", LOCAL, 403),
        ("evil.example", "", LOCAL, 403),
        ("192.0.2.1", "", PUBLIC, 403),
        ("192.0.2.1", f"Authorization: {BEARER}\r\n", PUBLIC, 101),
    ],
)
async def test_no_socket_across_sites(autojump_clock, host, more, peer, status):
    """A WebSocket is opened for our own page and for who may read, for nobody else."""
    async with seen(options=ACTS) as server:
        with trio.move_on_after(200):
            got = await raw(server, UPGRADE.format(host=host, more=more).encode(), peer)
        assert int(got.split()[1]) == status
        if status != 101:
            assert b"refused" in answers(got)[0][1]


async def test_the_page_itself_is_no_secret(autojump_clock):
    """Where reading needs the token, the page's files do not: they are what asks for it."""
    async with seen(options=ACTS) as server:
        assert (await get(server, "/", peer=PUBLIC))[0] in (200, 404)
        assert (await get(server, "/api/events", peer=PUBLIC))[0] == 403
