"""Messages: one request and one response, as plain values.

Floor: the lowest of this room. The rule: what answers a request knows neither sockets nor a protocol, so that h11, an ASGI server
and a test ask in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from actors.records import Record

__all__ = ["ERRORS", "Peer", "Request", "Response", "Trouble", "as_bytes", "as_json", "encode"]

ERRORS: Final = {
    "bad_request": 400,
    "refused": 403,
    "not_found": 404,
    "not_allowed": 405,
    "conflict": 409,
    "too_large": 413,
    "unavailable": 503,
}
"""The codes of errors, and the HTTP status of each."""

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Peer(Record):
    """Who asks, as far as the connection itself tells."""

    kind: str
    """`tcp`, `unix` or `asgi`."""
    name: str = ""
    """An address, or the user of a unix socket."""
    local: bool = True
    """False if the address that was connected to can be reached from other machines."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Request(Record):
    """One request."""

    method: str
    path: str
    """Decoded, without the query."""
    peer: Peer
    query: Mapping[str, str] = attrs.field(factory=lambda: dict[str, str]())
    headers: Mapping[str, str] = attrs.field(factory=lambda: dict[str, str](), repr=False)
    """By lower-case name."""
    body: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Response(Record):
    """One answer."""

    status: int = 200
    body: bytes = attrs.field(default=b"", repr=False)
    type: str = TEXT
    headers: Mapping[str, str] = attrs.field(factory=lambda: dict[str, str]())


class Trouble(Exception):
    """A request that cannot be answered as asked: `code` is one of `ERRORS`, `text` one sentence for a person."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def response(self) -> Response:
        """The answer that says so."""
        return as_json({"error": self.text, "code": self.code}, status=ERRORS[self.code])


def encode(value: Any) -> str:
    """`value` as JSON text, short, and without what JSON does not know."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def as_bytes(text: str) -> bytes:
    """`text` for the wire. An error may quote what is no text, such as half a character of a file's name: it is shown escaped."""
    return text.encode(errors="backslashreplace")


def as_json(value: Any, *, status: int = 200) -> Response:
    """A response with `value` as JSON."""
    return Response(status=status, body=encode(value).encode(), type=JSON)
